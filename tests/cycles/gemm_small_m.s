; SPDX-License-Identifier: Apache-2.0
; cycles: 496
; engine GEMM busy=192 sync=299 idle=5
; Below 32 rows a tile still takes 32 cycles, because the weights of the next tile load meanwhile.
        .target pccx
        memset  weight_shape[0], 5, 128, 64     ; issue 3, end 4
        wstream gemm, 0, 128 * 2 * 16           ; 4096 bytes arrive at ceil(204.8) = 205
        cvo.sqrt l2[500], l2[400], len=291      ; issue 4, end 4 + 3 + 291 + 6 = 304: gives the weights time to arrive
        gemm    l2[100], l2[0], size=63, shape=0 ; sync 5 .. 303 (299); issue 304, end 304 + 64 + 2 * 2 * max(5, 32) = 496
