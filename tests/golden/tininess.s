; SPDX-License-Identifier: Apache-2.0
; A result that is below u = 2^-126 after rounding to 8 significant bits is a zero of its sign, even if the grid of the
; subnormals would round it to u. x is u(2 - 2^-7), the same negative, 2u, -2u, u(2 - 2^-6), 2u(1 + 2^-7), u, 0.
        .target pccx
        memset  fmap_shape[0], 8, 1, 1
        memset  fmap_shape[1], 16, 1, 1
        memcpy  l2[0], host[s], shape=1         ; scalar, then x
        memcpy  l2[0x12], host[d], shape=0
        cvo.gelu l2[0x10], l2[1], len=8         ; x / 2 and a little above: u(1 - 2^-8) is a tie of the grid, but below u
        cvo.scale l2[0x11], l2[0], len=8        ; x / 2
        cvo.scale l2[0x12], l2[0], len=8, accm  ; x / 2 + u
        .data
        .balign 16
s:      .half   0x3f00, 0, 0, 0, 0, 0, 0, 0
x:      .half   0x00ff, 0x80ff, 0x0100, 0x8100, 0x00fe, 0x0101, 0x0080, 0
d:      .half   0x0080, 0x0080, 0x0080, 0x0080, 0x0080, 0x0080, 0x0080, 0x0080
