; SPDX-License-Identifier: Apache-2.0
; Instructions stand in .text, data in .data; .text cannot be padded.
        .target pccx
        .byte   1
        .bf16   1.0
        .int4   1
        .zero   4
        .ascii  "a"
        .incbin "inc/bytes.bin"
        .word   1
        memset  fmap_shape[0], 1, 1, 1
        .balign 16
        .org    64
        .org    0
        .data
        memset  fmap_shape[0], 1, 1, 1
        .section .bss
