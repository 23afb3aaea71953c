; SPDX-License-Identifier: Apache-2.0
; cycles: 325
; engine GEMM busy=320 idle=5
; Software tiles are cut first, each then in steps of the array: 48 = 32 + 16, two steps, twice. Without tile_k: 3.
        .target pccx
        memset  weight_shape[0], 64, 64, 96     ; issue 3, end 4
        memset  fmap_shape[1], 0, 48, 0         ; issue 4, end 5: tile_k = 48
        wstream gemm, 0, 64 * 3 * 16            ; 3072 bytes arrive at ceil(153.6) = 154
        gemm    l2[8192], l2[0], size=1, shape=0 ; issue 5, end max(5 + 64 + (2 + 2) * 1 * 64 = 325, 154 + 64)
