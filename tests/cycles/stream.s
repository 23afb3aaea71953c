; SPDX-License-Identifier: Apache-2.0
; cycles: 70
; engine GEMV busy=28 stream=38 idle=4
; engine DISP busy=2 frontend=3 idle=65
; The weights arrive later than the cores could use them: 64 rows of one beat and 8 beats of scales.
        .target pccx
        memset  weight_shape[0], 1, 64, 32      ; issue 3, end 4
        wstream gemv, 0, 64 * 16 + 64 * 2       ; 1152 bytes at 20 a cycle: the last arrives at ceil(57.6) = 58
        gemv    l2[8], l2[0], size=63, shape=0, w_scale ; issue 4; its formula 4 + 12 + 1 * ceil(64/4) = 32; end max(32, 58 + 12) = 70
