; SPDX-License-Identifier: Apache-2.0
; cycles: 53
; engine SFU busy=50 idle=0 frontend=3
; engine DISP busy=2 frontend=3 resource=24 idle=24
; Two independent CVO: there is one SFU. An instruction that waits for a busy engine does not stall that engine.
        .target pccx
        cvo.cos l2[8], l2[0], len=3, async      ; issue 3, end 3 + 16 + 3 + 6 = 28
        cvo.sin l2[9], l2[1], len=3, async      ; decoded 4, resource 4 .. 27 (24); issue 28, end 28 + 16 + 3 + 6 = 53
