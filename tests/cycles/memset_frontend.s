; SPDX-License-Identifier: Apache-2.0
; cycles: 11
; engine DISP busy=8 frontend=3 idle=0
; engine SFU busy=0 idle=11
; Instruction i is decoded at 3 + i at the earliest, and the dispatcher issues one a cycle.
        .target pccx
        .rept   8                               ; i0 .. i7: issue 3 .. 10, each done one cycle later
        memset  fmap_shape[0], 8, 1, 1
        .endr
; The last one: issue 10, end 11.
