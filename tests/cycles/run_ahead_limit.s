; SPDX-License-Identifier: Apache-2.0
; cycles: 16579
; engine GEMV busy=4108 stream=2458 sync=10008 idle=5
; The FIFO of a stream has 131072 bytes, which limits how far the stream is prefetched.
        .target pccx
        memset  weight_shape[0], 1, 16384, 32   ; issue 3, end 4; 16384 beats, 262144 bytes
        wstream gemv, 0, 16384 * 16
        cvo.sqrt l2[4096], l2[0], len=10000     ; issue 4, end 4 + 3 + 10000 + 6 = 10013
; By then 131072 bytes have arrived (at 6553.6) and the stream is stopped. At the issue it continues:
        gemv    l2[8192], l2[0], size=1, shape=0 ; issue 10013; the other 131072 bytes arrive at ceil(10013 + 6553.6) = 16567
; Its formula: 10013 + 12 + 16384 / 4 = 14121; end max(14121, 16567 + 12) = 16579.
