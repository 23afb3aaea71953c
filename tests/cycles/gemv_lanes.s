; SPDX-License-Identifier: Apache-2.0
; cycles: 91
; engine GEMV busy=87 idle=4
; engine DISP busy=4 frontend=3 resource=64 idle=20
; parallel_lane: one core, three cores, and 0 for all four.
        .target pccx
        memset  weight_shape[0], 1, 10, 70      ; issue 3, end 4; ceil(70/32) = 3 beats a row, 480 bytes
        wstream gemv, 0, 3 * 480                ; parts arrive at 24, 48, 72
        gemv    l2[100], l2[0], size=63, shape=0, lanes=1 ; issue 4, end 4 + 12 + 3 * 10 = 46
        gemv    l2[200], l2[0], size=63, shape=0, lanes=3 ; resource 5 .. 45 (41); issue 46, end 46 + 12 + 3 * ceil(10/3) = 70
        gemv    l2[300], l2[0], size=63, shape=0, lanes=0 ; resource 47 .. 69 (23); issue 70, end 70 + 12 + 3 * ceil(10/4) = 91
