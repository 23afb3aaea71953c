; SPDX-License-Identifier: Apache-2.0
; cycles: 168
; engine GEMM busy=164 idle=4
; Above 32 rows a tile takes a cycle per row.
        .target pccx
        memset  weight_shape[0], 100, 64, 32    ; issue 3, end 4
        wstream gemm, 0, 64 * 16                ; 1024 bytes arrive at 52
        gemm    l2[1000], l2[0], size=63, shape=0 ; issue 4, end max(4 + 64 + 1 * 1 * 100 = 168, 52 + 64)
