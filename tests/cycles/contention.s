; SPDX-License-Identifier: Apache-2.0
; cycles: 3505
; engine GEMV busy=1036 stream=2411 idle=58
; engine GEMM busy=2112 stream=1386 idle=7
; engine ACP busy=3341 idle=164
; Both streams and a host MEMCPY together want 20 + 20 + 10 bytes a cycle of the memory's 48. Max-min fair: the copy
; gets its 10, the streams 19 each.
        .target pccx
        memset  fmap_shape[0], 16384, 1, 1      ; issue 3, end 4; 2048 words, 32768 bytes
        memset  weight_shape[0], 1, 4096, 32    ; issue 4, end 5; 4096 beats, 65536 bytes for each engine
        wstream gemv, 0x100000, 4096 * 16
        wstream gemm, 0x200000, 4096 * 16
        memcpy  l2[0], host[0], shape=0, async  ; issue 5, bytes from 69 on, end 5 + 64 + ceil(3276.8) = 3346: not slowed
; The streams: 69 cycles at 20 bytes (1380), 3276.8 cycles at 19 (62259.2), the last 1896.8 bytes at 20 (94.84 cycles):
; 69 + 3276.8 + 94.84 = 3440.64, so that the last beat of each arrives at 3441.
        gemv    l2[8192], l2[4096], size=63, shape=0 ; issue 6; formula 6 + 12 + 1024 = 1042; end 3441 + 12 = 3453
        gemm    l2[12288], l2[4096], size=63, shape=0 ; issue 7; formula 7 + 64 + 1 * 64 * 32 = 2119; end 3441 + 64 = 3505
