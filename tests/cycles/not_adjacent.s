; SPDX-License-Identifier: Apache-2.0
; cycles: 134
; engine SFU busy=42 raw=26 idle=66
; Only the instruction directly after the GEMV is forwarded; with a MEMSET between them it is an ordinary hazard.
        .target pccx
        memset  weight_shape[0], 1, 32, 64      ; issue 3, end 4
        wstream gemv, 0, 32 * 2 * 16            ; 1024 bytes arrive at 52
        .rept   60
        memset  fmap_shape[1], 0, 0, 0          ; issue 4 .. 63
        .endr
        gemv    l2[100], l2[0], size=1, shape=0 ; issue 64, end 92
        memset  fmap_shape[2], 0, 0, 0          ; issue 65, end 66
        cvo.exp l2[200], l2[100], len=32        ; raw 66 .. 91 (26); issue 92, end 92 + 42 = 134
