; SPDX-License-Identifier: Apache-2.0
; cycles: 62
; engine SFU busy=30 war=27 idle=5
; engine ACP busy=28 idle=34
; engine DISP busy=3 frontend=3 war=27 idle=29
; A CVO writes where an unfinished copy inside L2 still reads.
        .target pccx
        memset  fmap_shape[0], 160, 1, 1        ; issue 3, end 4
        memcpy  l2[100], l2[0], shape=0, async  ; issue 4, end 4 + 8 + 20 = 32
        cvo.exp l2[19], l2[200], len=20, async  ; l2[19] is the last word read. war 5 .. 31 (27); issue 32, end 32 + 4 + 20 + 6 = 62
