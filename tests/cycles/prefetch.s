; SPDX-License-Identifier: Apache-2.0
; cycles: 1281
; engine GEMV busy=268 stream=0 sync=1008 idle=5
; Weights are prefetched during another operation, so that the GEMV after it never waits for them.
        .target pccx
        memset  weight_shape[0], 1, 1024, 32    ; issue 3, end 4; 1024 beats, 16384 bytes, arrive at ceil(819.2) = 820
        wstream gemv, 0, 1024 * 16
        cvo.sqrt l2[200], l2[0], len=1000       ; issue 4, end 4 + 3 + 1000 + 6 = 1013
        gemv    l2[400], l2[0], size=1, shape=0 ; decoded 5, sync 5 .. 1012 (1008); issue 1013, end 1013 + 12 + 256 = 1281
