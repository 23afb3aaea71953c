; SPDX-License-Identifier: Apache-2.0
; cycles: 49
; engine ACP busy=44 idle=5
; engine DISP busy=4 frontend=3 raw=21 sync=21 idle=0
; Copies inside L2: 8 cycles and one a word, 105 elements are 14 words. The second overlaps itself.
        .target pccx
        memset  fmap_shape[0], 7, 3, 5          ; issue 3, end 4
        memcpy  l2[50], l2[0], shape=0, async   ; issue 4, end 4 + 8 + 14 = 26
        memcpy  l2[60], l2[55], shape=0         ; raw 5 .. 25 (21); issue 26, end 26 + 22 = 48
        memset  fmap_shape[0], 0, 0, 0          ; sync 27 .. 47 (21); issue 48, end 49
