; SPDX-License-Identifier: Apache-2.0
# The three kinds of comment: this,
// this, and `;`. The data of this file are looked at by the dumps of directives.expect.json.
        .target pccx
        .target pccx                            ; naming it again is no error
        .option proposed
        .section .data
        .org    0x100
bytes:  .byte   1, 0xFF, -1 & 0xFF, 'A', '\n', '\\', '\''
        .balign 8
halfs:  .half   1, 0xFFFF, 0b1010, 0o17, 1_000
        .balign 8
words:  .word   1, 0xFFFF_FFFF, words
        .balign 8
longs:  .word64 1, -1, later, later - words
floats: .bf16   1, -2.5, 1e-3, 0.1, .5, 1e39, -0.0, 1.00390625, 1.01171875
        .balign 16
singles: .f32   1, 0.1, -1e-45
sixteens: .f16  1, 0.1, 65504, 65520
        .balign 16
fours:  .int4   1, -8, 7, -1, 5
        .int4   2, 3
eights: .int8   -128, 127, 0
text1:  .ascii  "ab", "c\t\"\\\0"
text2:  .asciz  "de", "f"
file:   .incbin "inc/bytes.bin"
part:   .incbin "inc/bytes.bin", 2
piece:  .incbin "inc/bytes.bin", 1, 3
nothing: .incbin "inc/bytes.bin", 6, 0
gap:    .zero   3
later:  .byte   0x55
        .global later
        .globl  bytes
        .data   0x8000                          ; .data with an address
far:    .word   . - far, . - 0x8000
        .zero   0x4000                          ; a long run of zeros
behind: .byte   7
        .text
        .section .text
        memset  fmap_shape[0], 1, 1, 1
        .data                                   ; goes on where the data stopped
        .byte   8
