; SPDX-License-Identifier: Apache-2.0
; cycles: 165
; engine GEMM busy=160 idle=5
; tile_n = 48 cuts 100 columns into 48, 48 and 4: three steps where the array itself would take two.
        .target pccx
        memset  weight_shape[0], 32, 100, 32    ; issue 3, end 4
        memset  fmap_shape[1], 48, 0, 0         ; issue 4, end 5: tile_n = 48
        wstream gemm, 0, 100 * 16               ; 1600 bytes arrive at 80
        gemm    l2[8192], l2[0], size=1, shape=0 ; issue 5, end max(5 + 64 + 1 * 3 * 32 = 165, 80 + 64)
