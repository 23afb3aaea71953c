; SPDX-License-Identifier: Apache-2.0
; cycles: 62
; engine SFU busy=30 waw=27 idle=5
; engine DISP busy=3 frontend=3 waw=27 idle=29
; Both write the word 119.
        .target pccx
        memset  fmap_shape[0], 160, 1, 1        ; issue 3, end 4
        memcpy  l2[100], l2[0], shape=0, async  ; issue 4, end 4 + 8 + 20 = 32
        cvo.exp l2[119], l2[200], len=20, async ; waw 5 .. 31 (27); issue 32, end 62
