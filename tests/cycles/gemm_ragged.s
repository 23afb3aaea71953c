; SPDX-License-Identifier: Apache-2.0
; cycles: 196
; engine GEMM busy=192 idle=4
; One column past 64 and one row past 32 cost whole tiles.
        .target pccx
        memset  weight_shape[0], 32, 65, 33     ; issue 3, end 4
        wstream gemm, 0, 65 * 2 * 16            ; 2080 bytes arrive at 104
        gemm    l2[1000], l2[0], size=63, shape=0 ; issue 4, end max(4 + 64 + 2 * 2 * 32 = 196, 104 + 64)
