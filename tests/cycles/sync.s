; SPDX-License-Identifier: Apache-2.0
; cycles: 119
; engine ACP busy=66 idle=53
; engine SFU busy=48 sync=65 idle=6
; engine DISP busy=4 frontend=3 sync=112 idle=0
; A synchronous MEMCPY or CVO stalls every instruction after it, even one that needs no engine.
        .target pccx
        memset  fmap_shape[0], 8, 1, 1          ; issue 3, end 4
        memcpy  l2[0], host[0], shape=0         ; issue 4, end 4 + 64 + ceil(1 * 1.6) = 70
        cvo.gelu l2[9], l2[8], len=30           ; decoded 5, stalled by sync 5 .. 69; issue 70, end 70 + 12 + 30 + 6 = 118
        memset  fmap_shape[1], 1, 1, 1          ; decoded 6, stalled by sync 71 .. 117 (47); issue 118, end 119
; DISP: 3 + 1 + 1 + 65 + 1 + 47 + 1 cycles: busy 4, frontend 3, sync 65 + 47 = 112.
