; SPDX-License-Identifier: Apache-2.0
; More text than the machine could ever hold is refused, not tried.
        .target pccx
        .data
        .zero   0xFFFF_FFFF_FFFF_FFFF
        .org    0x7FFF_FFFF_FFFF_FFFF
        .byte   1, 2
        .rept   100000
        .rept   100000
        .endr
        .endr
