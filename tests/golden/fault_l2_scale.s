; SPDX-License-Identifier: Apache-2.0
; run: -D l2.words=64
; SCALE reads one word more than its vector.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[ones], shape=0      ; completes: sixteen ones in l2[0] and l2[1]
        cvo.scale l2[1], l2[62], len=16
        memset  fmap_shape[0], 7, 7, 7          ; never reached
        memcpy  host[result], l2[0], shape=0

        .data
ones:   .rept   16
        .bf16   1
        .endr
result: .zero   16 * 2
