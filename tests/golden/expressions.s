; SPDX-License-Identifier: Apache-2.0
; C's operators and precedence over 64-bit integers and doubles; functions; constants that come later.
        .target pccx
        .data
a:      .word64 2 + 3 * 4                       ; 14
        .word64 (2 + 3) * 4                     ; 20
        .word64 20 - 5 - 3                      ; 12: from the left
        .word64 100 / 7 * 7, 100 % 7            ; 98, 2
        .word64 -7 / 2, -7 % 2                  ; -3, -1: towards zero
        .word64 1 << 3 + 1                      ; 16: + before <<
        .word64 -16 >> 2                        ; -4: arithmetic
        .word64 6 & 3 == 3                      ; 0: == before &
        .word64 1 | 6 ^ 2 & 3                   ; 1 | (6 ^ (2 & 3)) = 5
        .word64 1 < 2 == 1                      ; 1
        .word64 0 || 2 && 0                     ; 0
        .word64 !0 + !5, ~0, - - 5, +3          ; 1, -1, 5, 3
        .word64 1 ? 2 : 0 ? 3 : 4               ; 2: to the right
        .word64 0 ? 2 : 0 ? 3 : 4               ; 4
        .word64 3 <= 3, 3 >= 4, 3 != 3, 4 > 3   ; 1, 0, 0, 1
        .word64 0x7FFF_FFFF_FFFF_FFFF + 1       ; wraps
        .word64 forward * 2 + 1                 ; 83
        .word64 int(3.99), int(-3.99), int(7)   ; 3, -3, 7
        .word64 int(round(2.5)), int(round(3.5)), int(round(-0.6)) ; 2, 4, -1: ties to even
        .word64 int(floor(-1.5)), int(ceil(-1.5)) ; -2, -1
        .word64 min(3, -4), max(3, -4), abs(-9) ; -4, 3, 9
        .word64 bf16(1.0), f16(1.0), f32(1.0)   ; bits
        .word64 int(pow(2, 10)), int(sqrt(81.0)), int(1000 * erf(1.0)) ; 1024, 9, 842
        .word64 int(1000 * exp(1)), int(1000 * log(10)), int(1000 * sin(1)), int(1000 * cos(1)), int(1000 * tanh(1))
        .word64 1.5 < 2, 7.5 % 2 == 1.5, int(float(7) / 2 * 2) ; 1, 1, 7
        .word64 . - a                           ; bytes before this one
        .word64 'a', '\0', '\''                 ; 97, 0, 39
r:      .f32    1 / 3.0, 1 / 3, 2 * 0.25, forward / 4.0
        .equ    forward, 41
        .set    step, 1
b:      .byte   step
        .set    step, step + 1
        .byte   step
        .equ    chain1, chain2 + 1
        .equ    chain2, chain3 * 2
        .equ    chain3, 5
        .byte   chain1                          ; 11
