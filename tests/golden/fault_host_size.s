; SPDX-License-Identifier: Apache-2.0
; run: -D host.bytes=4096
; A load from past the end of a small host memory.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[ones], shape=0      ; completes: sixteen ones in l2[0] and l2[1]
        memcpy  l2[1], host[0x1000], shape=0
        memset  fmap_shape[0], 7, 7, 7          ; never reached
        memcpy  host[result], l2[0], shape=0

        .data
ones:   .rept   16
        .bf16   1
        .endr
result: .zero   16 * 2
