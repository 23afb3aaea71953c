; SPDX-License-Identifier: Apache-2.0
; cycles: 120
; engine GEMV busy=28 idle=92
; engine SFU busy=42 raw=13 idle=65
; The same through the direct FIFO.
        .target pccx
        memset  weight_shape[0], 1, 32, 64      ; issue 3, end 4
        wstream gemv, 0, 32 * 2 * 16            ; 1024 bytes arrive at ceil(51.2) = 52
        .rept   60
        memset  fmap_shape[1], 0, 0, 0          ; issue 4 .. 63
        .endr
        gemv    fifo, l2[0], size=1, shape=0    ; issue 64, end 64 + 12 + 2 * 8 = 92
        cvo.exp l2[200], fifo, len=32           ; raw 65 .. 77 (13); issue 78, end 78 + 4 + 32 + 6 = 120
