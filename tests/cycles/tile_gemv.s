; SPDX-License-Identifier: Apache-2.0
; cycles: 37
; engine GEMV busy=32 idle=5
; tile_n = 3 leaves a core unused: 3, 3, 3, 1 rows are four steps. tile_k = 33 cuts 70 into 33, 33, 4: 2 + 2 + 1 beats.
        .target pccx
        memset  weight_shape[0], 1, 10, 70      ; issue 3, end 4
        memset  fmap_shape[1], 3, 33, 0         ; issue 4, end 5
        wstream gemv, 0, 10 * 3 * 16            ; 480 bytes arrive at 24
        gemv    l2[100], l2[0], size=1, shape=0 ; issue 5, end max(5 + 12 + 5 * 4 = 37, 24 + 12)
