; SPDX-License-Identifier: Apache-2.0
; cycles: 70
; engine GEMV busy=28 stream=32 idle=10
; engine SFU busy=53 raw=12 idle=5
; The GEMV waits for its weights, and the CVO forwarded from it with it.
        .target pccx
        memset  weight_shape[0], 1, 64, 32      ; issue 3, end 4
        wstream gemv, 0, 64 * 16                ; 1024 bytes arrive at 52
        gemv    l2[100], l2[0], size=63, shape=0 ; issue 4; formula 4 + 12 + 16 = 32; end 52 + 12 = 64
        cvo.sqrt l2[200], l2[100], len=8        ; from 4 + 12 + 1 = 17 on: raw 5 .. 16 (12); formula 17 + 17 = 34; end 64 + 6 = 70
