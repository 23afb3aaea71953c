; SPDX-License-Identifier: Apache-2.0
; The machine stops at the first fault; the check names all of them.
        .target pccx
        memset  fmap_shape[0], 16, 1, 1
        memset  fmap_shape[1], 0, 0, 0xFF80
        memset  weight_shape[0], 1, 8, 16
        memset  weight_shape[1], 2, 8, 16
        memset  weight_shape[2], 1, 8, 4097
        memcpy  l2[0], host[w], shape=0
        .word64 0xA000_0000_0000_0000           ; P001
        .word64 0x4000_0000_0040_0406           ; P002
        .word64 0x3800_0000_0000_0000           ; P003
        .word64 0x4900_0000_0000_0400           ; P004
        .word64 0x2C00_0000_0000_0000           ; P005
        .word64 0x2000_0400_0000_0080           ; P006
        memcpy  l2[0x1FFFE], host[w], shape=0   ; P010
        memcpy  l2[0], host[0x1_0000_0000], shape=0 ; P011
        memcpy  l2[0], l2[0], shape=1           ; P012
        gemv    l2[8], l2[0], size=0, shape=1   ; P013
        gemv    l2[8], l2[0], size=0, shape=0, lanes=9 ; P014
        gemm    l2[8], l2[0], size=0, shape=2   ; P015
        gemv    l2[8], l2[0], size=0, shape=0   ; P016
        cvo.sqrt fifo, l2[0], len=2049          ; P017
        cvo.sqrt l2[8], fifo, len=1             ; P018
        cvo.sqrt l2[8], l2[0], len=0            ; P019
        cvo.scale l2[8], fifo, len=1            ; P020
        gemv    l2[8], l2[0], size=1, shape=0   ; P022
        memcpy  host[w], l2[0], shape=0         ; right, and still looked at
        .data
        .balign 16
w:      .zero   32
