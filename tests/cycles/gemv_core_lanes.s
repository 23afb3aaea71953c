; SPDX-License-Identifier: Apache-2.0
; run: -D gemv.parallel_lane=lanes
; cycles: 85
; engine GEMV busy=74 idle=11
; engine SFU busy=19 raw=24 idle=42
; engine DISP busy=6 frontend=3 resource=34 raw=24 idle=18
; parallel_lane in its other reading: lanes of each core, 0 for all 32; all four cores work.
        .target pccx
        memset  weight_shape[0], 1, 8, 64       ; issue 3, end 4; 8 * 2 * 16 = 256 bytes
        memset  fmap_shape[1], 0, 0, 0          ; issue 4, end 5
        wstream gemv, 0, 3 * 256                ; parts arrive at 13, 26, 39
        gemv    l2[100], l2[0], size=1, shape=0, lanes=16 ; issue 5, end 5 + 12 + ceil(64/16) * ceil(8/4) = 8 steps = 25
        gemv    l2[200], l2[0], size=1, shape=0, lanes=0 ; resource 6 .. 24 (19); issue 25, end 25 + 12 + 2 * 2 = 41
        gemv    l2[300], l2[0], size=1, shape=0, lanes=5 ; resource 26 .. 40 (15); issue 41, end 41 + 12 + ceil(64/5) * 2 = 79
        cvo.exp l2[400], l2[300], len=8         ; forwarded from 41 + 12 + 13 on: raw 42 .. 65 (24); issue 66
                                                ; end max(66 + 4 + 8 + 6 = 84, 79 + 6) = 85
