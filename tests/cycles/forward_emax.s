; SPDX-License-Identifier: Apache-2.0
; cycles: 134
; engine GEMV busy=28 idle=106
; engine SFU busy=42 raw=27 idle=65
; No forwarding when the CVO needs the e_max of this very GEMV: that is known at the GEMV's end.
        .target pccx
        memset  weight_shape[0], 1, 32, 64      ; issue 3, end 4
        wstream gemv, 0, 32 * 2 * 16            ; 1024 bytes arrive at 52
        .rept   60
        memset  fmap_shape[1], 0, 0, 0          ; issue 4 .. 63
        .endr
        gemv    l2[100], l2[0], size=1, shape=0, findemax ; issue 64, end 92
        cvo.exp l2[200], l2[100], len=32, sub_emax ; raw 65 .. 91 (27); issue 92, end 92 + 4 + 32 + 6 = 134
