; SPDX-License-Identifier: Apache-2.0
; cycles: 98
; engine GEMV busy=28 idle=70
; engine SFU busy=20 raw=13 idle=65
; A forwarded CVO shorter than the rest of its GEMV ends 6 cycles after it.
        .target pccx
        memset  weight_shape[0], 1, 32, 64      ; issue 3, end 4
        wstream gemv, 0, 32 * 2 * 16            ; 1024 bytes arrive at 52
        .rept   60
        memset  fmap_shape[1], 0, 0, 0          ; issue 4 .. 63
        .endr
        gemv    l2[100], l2[0], size=1, shape=0 ; issue 64, end 92
        cvo.sqrt l2[200], l2[100], len=2, async ; issue 78; its formula 78 + 3 + 2 + 6 = 89; end max(89, 92 + 6) = 98
