; SPDX-License-Identifier: Apache-2.0
; cycles: 142
; engine DISP busy=5 frontend=3 raw=80 war=27 idle=27
; engine SFU busy=82 war=27 idle=33
; Each direct FIFO counts as one address.
        .target pccx
        memset  weight_shape[0], 1, 64, 32      ; issue 3, end 4; 1024 bytes
        wstream gemv, 0, 2 * 1024               ; parts arrive at 52 and 103
        cvo.sqrt fifo, l2[0], len=32, async     ; issue 4, end 4 + 3 + 32 + 6 = 45
        gemv    l2[100], fifo, size=63, shape=0 ; raw 5 .. 44 (40); issue 45, end max(45 + 12 + 16 = 73, 52 + 12)
        cvo.sqrt fifo, l2[0], len=32, async     ; war 46 .. 72 (27); issue 73, end 114
        gemv    l2[200], fifo, size=63, shape=0 ; raw 74 .. 113 (40); issue 114, end 114 + 28 = 142
