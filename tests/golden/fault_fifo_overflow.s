; SPDX-License-Identifier: Apache-2.0
; run: -D fifo.elements=20
; The second CVO has no room for its 16 results.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memcpy  l2[0], host[ones], shape=0      ; completes: sixteen ones in l2[0] and l2[1]
        cvo.sqrt fifo, l2[0], len=5
        cvo.sqrt fifo, l2[0], len=16
        memset  fmap_shape[0], 7, 7, 7          ; never reached
        memcpy  host[result], l2[0], shape=0

        .data
ones:   .rept   16
        .bf16   1
        .endr
result: .zero   16 * 2
