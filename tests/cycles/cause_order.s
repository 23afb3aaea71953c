; SPDX-License-Identifier: Apache-2.0
; cycles: 116
; engine SFU busy=84 raw=27 idle=5
; engine ACP busy=28 raw=48 idle=40
; engine DISP busy=5 frontend=3 raw=92 idle=16
; A stall cycle is attributed to the first of sync, raw, war, waw, frontend, resource that applies in it.
        .target pccx
        memset  fmap_shape[0], 160, 1, 1        ; issue 3, end 4; 20 words
        cvo.sqrt l2[100], l2[0], len=40, async  ; issue 4, end 4 + 3 + 40 + 6 = 53
        memcpy  l2[300], l2[100], shape=0, async ; raw 5 .. 52 (48); issue 53, end 53 + 8 + 20 = 81
        cvo.exp l2[110], l2[300], len=8, async  ; raw (300) and war (110), charged to raw 54 .. 80 (27); issue 81, end 81 + 4 + 8 + 6 = 99
        cvo.sqrt l2[400], l2[110], len=8, async ; raw and resource, charged to raw 82 .. 98 (17); issue 99, end 99 + 3 + 8 + 6 = 116
