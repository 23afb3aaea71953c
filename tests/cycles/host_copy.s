; SPDX-License-Identifier: Apache-2.0
; cycles: 211
; engine ACP busy=206 idle=5
; engine DISP busy=5 frontend=3 sync=135 idle=68
; Copies from and to the host: 64 cycles and 1.6 a word of 16 bytes, rounded up once.
        .target pccx
        memset  fmap_shape[0], 17, 1, 1         ; issue 3, end 4; 3 words, 4.8 cycles
        memset  fmap_shape[1], 2, 4, 2          ; issue 4, end 5; 2 words, 3.2 cycles
        memcpy  l2[0], host[0x100], shape=0     ; issue 5, end 5 + 64 + 5 = 74
        memcpy  host[0x200], l2[0], shape=1     ; sync 6 .. 73 (68); issue 74, end 74 + 64 + 4 = 142
        memcpy  l2[9], host[0x300], shape=0     ; sync 75 .. 141 (67); issue 142, end 142 + 69 = 211
