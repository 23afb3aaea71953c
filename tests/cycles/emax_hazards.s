; SPDX-License-Identifier: Apache-2.0
; cycles: 174
; engine GEMV busy=40 stream=14 war=19 idle=101
; engine DISP busy=5 frontend=3 raw=33 war=19 waw=19 idle=95
; e_max counts as an address: findemax writes it, sub_emax reads it. No other ranges overlap here.
        .target pccx
        memset  weight_shape[0], 1, 32, 32      ; issue 3, end 4; 512 bytes
        wstream gemv, 0, 2 * 512                ; parts arrive at ceil(25.6) = 26 and ceil(51.2) = 52
        wstream gemm, 0, 512                    ; arrives at 26
        gemv    l2[100], l2[0], size=63, shape=0, findemax ; issue 4; formula 4 + 12 + 8 = 24; end 26 + 12 = 38
        cvo.exp l2[200], l2[300], len=10, sub_emax, async ; raw 5 .. 37 (33); issue 38, end 38 + 4 + 10 + 6 = 58
        gemv    l2[400], l2[0], size=63, shape=0, findemax ; war 39 .. 57 (19); issue 58, end 58 + 20 = 78
        gemm    l2[500], l2[0], size=63, shape=0, findemax ; waw 59 .. 77 (19); issue 78, end 78 + 64 + 32 = 174
