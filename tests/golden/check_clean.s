; SPDX-License-Identifier: Apache-2.0
; Nothing to say.
        .target pccx
        memset  fmap_shape[0], 8, 1, 1
        memcpy  l2[0], host[x], shape=0, async
        cvo.exp l2[0], l2[0], len=8, async
        memcpy  host[x], l2[0], shape=0, async
        .data
        .balign 16
x:      .bf16   1, 2, 3, 4, 5, 6, 7, 8
