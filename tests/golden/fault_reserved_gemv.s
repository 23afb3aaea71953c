; SPDX-License-Identifier: Apache-2.0
; GEMV with reserved bit 0 set; all else would be legal.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[ones], shape=0      ; completes: sixteen ones in l2[0] and l2[1]
        memset  weight_shape[0], 1, 8, 16
        wstream gemv, 0, 128
        .word64 0x0000_0800_0000_0001
        memset  fmap_shape[0], 7, 7, 7          ; never reached
        memcpy  host[result], l2[0], shape=0

        .data
ones:   .rept   16
        .bf16   1
        .endr
result: .zero   16 * 2
