; SPDX-License-Identifier: Apache-2.0
; Unknown names, with the nearest known one as a hint where there is one.
        .target pccx
        gemvv   l2[0], l2[0], size=0, shape=0
        memcopy l2[0], host[0], shape=0
        cvo.gelo l2[0], l2[0], len=1
        .algin  16
        .bfloat16 1.0
        frobnicate l2[0]
        GEMV    l2[0], l2[0], size=0, shape=0
        .IF     1
        .macro  mine x
        .endm
        minee   1
