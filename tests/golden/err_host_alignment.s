; SPDX-License-Identifier: Apache-2.0
; Host addresses of MEMCPY are multiples of 16 bytes; here the label follows an odd number of bytes.
        .target pccx
        memcpy  l2[0], host[8], shape=0
        memcpy  l2[0], host[x], shape=0
        memcpy  host[x + 15], l2[0], shape=0
        .data
        .byte   1
x:      .bf16   1
