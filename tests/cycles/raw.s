; SPDX-License-Identifier: Apache-2.0
; cycles: 50
; engine ACP busy=28 idle=22
; engine SFU busy=18 raw=27 idle=5
; engine DISP busy=3 frontend=3 raw=27 idle=17
; A CVO reads what an unfinished copy inside L2 writes.
        .target pccx
        memset  fmap_shape[0], 160, 1, 1        ; issue 3, end 4; 160 elements are 20 words
        memcpy  l2[100], l2[0], shape=0, async  ; issue 4, end 4 + 8 + 20 = 32
        cvo.recip l2[200], l2[119], len=8, async ; decoded 5, raw 5 .. 31 (27); issue 32, end 32 + 4 + 8 + 6 = 50
