; SPDX-License-Identifier: Apache-2.0
; cycles: 120
; engine SFU busy=42 raw=13 idle=65
; findemax alone or sub_emax alone does not stop forwarding: here e_max is an older one.
        .target pccx
        memset  weight_shape[0], 1, 32, 64      ; issue 3, end 4
        wstream gemv, 0, 32 * 2 * 16            ; 1024 bytes arrive at 52
        .rept   60
        memset  fmap_shape[1], 0, 0, 0          ; issue 4 .. 63
        .endr
        gemv    l2[100], l2[0], size=1, shape=0 ; issue 64, end 92
        cvo.exp l2[200], l2[100], len=32, sub_emax ; issue 78, end 120
