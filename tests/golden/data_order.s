; SPDX-License-Identifier: Apache-2.0
; Pieces of data in any order of address, one after another at the end, and an empty one.
        .target pccx
        .data   0x20
        .byte   2
        .org    0x10
        .byte   1
        .org    0x11
        .byte   9
        .org    0x30
        .org    0x40
        .byte   4
