; SPDX-License-Identifier: Apache-2.0
; Expressions without a value.
        .target pccx
        .equ    zero, 0
        .data
        .byte   1 / 0
        .byte   1 % zero
        .byte   1 / late_zero
        .byte   (1 + 2
        .byte   1 + 2)
        .byte   1 +
        .byte   * 2
        .byte   1 << 64
        .byte   1.5 & 1
        .byte   ~1.5
        .byte   sqr(4)
        .byte   max(1)
        .byte   min(1, 2, 3)
        .byte   sqrt 4
        .byte   1 ? 2
        .byte   int(1e30)
        .byte   1 @ 2
        .equ    late_zero, 0
        .equ    circle, round_it + 1
        .equ    round_it, circle - 1
