; SPDX-License-Identifier: Apache-2.0
; Separators.
        .target pccx
        gemv    l2[0] l2[0], size=0, shape=0
        gemv    l2[0], l2[0] size=0, shape=0
        gemv    l2[0], l2[0], size=0 shape=0
        memset  fmap_shape[0] 1, 1, 1
        memset  fmap_shape[0], 1 1, 1
        cvo.exp l2[0], l2[0], len=1, sub_emax async
        gemv    l2[0, l2[0], size=0, shape=0
        gemv    l2[0]], l2[0], size=0, shape=0
        gemv    l2[0], l2[0], size=0, shape=0,
        gemv    l2[0],, l2[0], size=0, shape=0
        .equ    x 1
        wstream gemv 0, 16
        .data
        .byte   1 2
        .byte   1,
