; SPDX-License-Identifier: Apache-2.0
; cycles: 96
; engine GEMV busy=14 raw=76 idle=6
; The weights of the GEMV are what a store to the host is still writing.
        .target pccx
        memset  fmap_shape[0], 64, 1, 1         ; issue 3, end 4; 8 words, 128 bytes
        memset  weight_shape[0], 1, 8, 32       ; issue 4, end 5; 8 beats, 128 bytes
        wstream gemv, 0x1000, 128
        memcpy  host[0x1000], l2[0], shape=0, async ; issue 5, end 5 + 64 + ceil(12.8) = 82
        gemv    l2[100], l2[0], size=63, shape=0 ; raw 6 .. 81 (76); issue 82, end 82 + 12 + 2 = 96
