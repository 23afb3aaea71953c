; SPDX-License-Identifier: Apache-2.0
; run: -D gemv.preload_bytes_per_cycle=64
; cycles: 2301
; engine GEMV busy=537 sync=1742 idle=22
; engine SFU busy=55 raw=523 idle=1723
; engine DISP busy=8 frontend=3 sync=1755 raw=523 idle=12
; Activations from L2 take ceil(2 * K / 64) cycles before the first step; those from the direct FIFO take none.
        .target pccx
        memset  fmap_shape[0], 8192, 1, 1       ; issue 3
        memset  weight_shape[0], 1, 4, 8192     ; issue 4; 4 * 256 * 16 = 16384 bytes
        memset  weight_shape[1], 1, 4, 32       ; issue 5; 64 bytes
        wstream gemv, 0, 16384 + 64             ; arrived at ceil(822.4) = 823, before any GEMV issues
        memcpy  l2[0], host[0x100000], shape=0  ; issue 6, end ceil(6 + 64 + 16384 / 10) = 1709
        gemv    l2[0x1000], l2[0], size=63, shape=0 ; sync 7 .. 1708 (1702); issue 1709, end 1709 + 12 + 256 + 256 * 1 = 2233
        cvo.exp l2[0x1001], l2[0x1000], len=4   ; forwarded from 1709 + 12 + 256 + 256 = 2233 on: raw 1710 .. 2232 (523)
                                                ; issue 2233, end max(2233 + 4 + 4 + 6 = 2247, 2233 + 6)
        cvo.sqrt fifo, l2[0], len=32            ; sync 2234 .. 2246 (13); issue 2247, end 2247 + 3 + 32 + 6 = 2288
        gemv    l2[0x1002], fifo, size=63, shape=1 ; sync 2248 .. 2287 (40); issue 2288, end 2288 + 12 + 1 * 1 = 2301
