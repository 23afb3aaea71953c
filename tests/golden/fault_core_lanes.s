; SPDX-License-Identifier: Apache-2.0
; run: -D gemv.parallel_lane=lanes -D gemv.tile_k=16
; A GEMV core of this configuration has sixteen lanes; all of them work in the first GEMV.
        .target pccx
        memset  weight_shape[0], 1, 8, 16
        wstream gemv, 0, 256
        gemv    l2[1], l2[0], size=0, shape=0, lanes=16
        gemv    l2[2], l2[0], size=0, shape=0, lanes=17
