; SPDX-License-Identifier: Apache-2.0
; Values that do not fit their element.
        .target pccx
        .data
        .byte   256
        .byte   -129
        .half   65536
        .word   0x1_0000_0000
        .int8   128
        .int4   8, -9
        .int4   1.0
        .byte   1.0
        .int4   later
        .zero   -1
        .zero   later
        .balign 3
        .balign 0
        .org    -1
        .equ    later, 1
