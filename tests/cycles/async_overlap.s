; SPDX-License-Identifier: Apache-2.0
; cycles: 230
; engine ACP busy=224 idle=6
; engine SFU busy=218 idle=12
; engine GEMV busy=76 stream=133 idle=21
; engine GEMM busy=96 stream=11 idle=123
; engine DISP busy=7 frontend=3 idle=220
; All four engines at once on separate data.
        .target pccx
        memset  fmap_shape[0], 800, 1, 1        ; issue 3, end 4; 100 words
        memset  weight_shape[0], 1, 256, 32     ; issue 4, end 5; 4096 bytes arrive at ceil(204.8) = 205
        memset  weight_shape[1], 1, 64, 32      ; issue 5, end 6; 1024 bytes arrive at ceil(51.2) = 52
        wstream gemv, 0x10000, 256 * 16
        wstream gemm, 0x20000, 64 * 16
        memcpy  l2[0], host[0], shape=0, async  ; issue 6, end 6 + 64 + 160 = 230
        cvo.gelu l2[300], l2[200], len=200, async ; issue 7, end 7 + 12 + 200 + 6 = 225
        gemv    l2[500], l2[400], size=63, shape=0 ; issue 8; formula 8 + 12 + 64 = 84; end 205 + 12 = 217
        gemm    l2[700], l2[600], size=63, shape=1 ; issue 9; formula 9 + 64 + 32 = 105; end 52 + 64 = 116
