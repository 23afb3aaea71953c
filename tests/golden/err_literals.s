; SPDX-License-Identifier: Apache-2.0
; Numbers, characters and strings.
        .target pccx
        .data
        .byte   0x
        .byte   0xZZ
        .byte   12ab
        .byte   0b12
        .word64 0x1_0000_0000_0000_0000
        .byte   'ab'
        .byte   'a
        .ascii  "open
        .ascii  "bad \q escape"
        .ascii  text
        .byte   1e
