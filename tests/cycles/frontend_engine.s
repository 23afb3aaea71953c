; SPDX-License-Identifier: Apache-2.0
; cycles: 24
; engine SFU busy=21 frontend=3 idle=0
; engine DISP busy=1 frontend=3 idle=20
; The engine that the first instruction needs waits for the decoder, too.
        .target pccx
        cvo.sqrt l2[1], l2[0], len=12           ; decoded 3, issue 3, end 3 + 3 (fill) + 12 + 6 = 24
