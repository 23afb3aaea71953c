; SPDX-License-Identifier: Apache-2.0
; cycles: 3008
; engine ACP busy=704 idle=2304
; engine GEMV busy=524 stream=2426 idle=58
; engine GEMM busy=1088 stream=1913 idle=7
; run: -D memory.bytes_per_cycle=24
; Half the bandwidth: now the copy is slowed, too, to a third of it.
        .target pccx
        memset  fmap_shape[0], 2560, 1, 1       ; issue 3, end 4; 320 words, 5120 bytes
        memset  weight_shape[0], 1, 2048, 32    ; issue 4, end 5; 2048 beats, 32768 bytes for each engine
        wstream gemv, 0x100000, 2048 * 16
        wstream gemm, 0x200000, 2048 * 16
        memcpy  l2[0], host[0], shape=0, async  ; issue 5, bytes from 69 on, 8 a cycle: 640 cycles; end 709
; The streams: 69 cycles at 12 bytes (828), 640 cycles at 8 (5120), the last 26820 bytes at 12 (2235 cycles): 2944.
        gemv    l2[8192], l2[4096], size=63, shape=0 ; issue 6; formula 6 + 12 + 512 = 530; end 2944 + 12 = 2956
        gemm    l2[12288], l2[4096], size=63, shape=0 ; issue 7; formula 7 + 64 + 32 * 32 = 1095; end 2944 + 64 = 3008
