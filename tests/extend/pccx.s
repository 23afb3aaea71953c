; SPDX-License-Identifier: Apache-2.0
; The hyperbolic tangent of 16 numbers. Zeros keep their sign, infinities give 1 with their sign, a NaN stays one. The other
; results are (exp 2x - 1) / (exp 2x + 1), calculated with 80 decimal digits and rounded once to 8 significant bits.
        .target pccx
        memset   fmap_shape[0], 16, 1, 1
        memcpy   l2[0], host[x], shape=0
        cvo.tanh l2[2], l2[0], len=16
        memcpy   host[y], l2[2], shape=0

        .data
x:      .bf16   0, -0.0, 0.00390625, -0.5, 0.546875, 1, -1.5, 2
        .bf16   2.5, -3, 3.5, 4, -100
        .half   0x7f80, 0xff80, 0x7fc0          ; infinities, NaN
y:      .zero   16 * 2
