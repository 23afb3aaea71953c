; SPDX-License-Identifier: Apache-2.0
; What is legal and hardly meant: each line that draws a warning says which.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memset  weight_shape[0], 1, 8, 16
        memset  weight_shape[1], 2, 8, 16
        wstream gemv, w, w_end - w
        wstream gemm, w, w_end - w
        memcpy  l2[0], host[w], shape=0
        memcpy  l2[2], host[w], shape=7         ; fmap_shape[7] is never written: zero, so the machine stops, too
        cvo.exp l2[4], l2[2], len=8             ; l2[2] is never written
        cvo.exp l2[5], l2[0], len=8, recip_scale ; recip_scale means nothing
        cvo.exp l2[5], l2[1], len=8             ; overwrites l2[5] unread
        cvo.gelu fifo, l2[0], len=16, accm      ; accm means nothing
        gemv    l2[8], fifo, size=9, shape=0    ; fmap_shape[9] is never written
        gemv    fifo, l2[0], size=0, shape=0, accm ; accm means nothing
        gemm    l2[10], l2[0], size=0, shape=1, lanes=2 ; lanes means nothing
        .data
        .balign 16
w:      .zero   260                             ; 260 - 2 * 128 = 4 bytes of gemv and 132 of gemm are left over
w_end:
