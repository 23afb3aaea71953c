; SPDX-License-Identifier: Apache-2.0
; Data at an address that is taken.
        .target pccx
        .data   0x100
        .zero   32
        .org    0x110
        .byte   1
        .org    0x90
        .zero   0x80
