; SPDX-License-Identifier: Apache-2.0
; A static activation scale of infinity.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[ones], shape=0      ; completes: sixteen ones in l2[0] and l2[1]
        memset  weight_shape[0], 1, 8, 16
        memset  fmap_shape[1], 0, 0, 0x7F80
        wstream gemv, 0, 128
        gemv    l2[1], l2[0], size=1, shape=0, findemax
        memset  fmap_shape[0], 7, 7, 7          ; never reached
        memcpy  host[result], l2[0], shape=0

        .data
ones:   .rept   16
        .bf16   1
        .endr
result: .zero   16 * 2
