; SPDX-License-Identifier: Apache-2.0
; Macros: parameters, defaults, \@, \(), nesting, arguments with commas in brackets and strings, calls before definition
; of what they use.
        .target pccx
        .macro  shape entry, a, b=1, c=1
        memset  fmap_shape[\entry], \a, \b, \c
        .endm
        shape   0, 10
        shape   1, 20, 3
        shape   2, (30 + 1), 4, 5               ; a comment is no argument
        shape   3, max(6, 7)                    ; this comma stands inside brackets
        .macro  twice what, x
        \what   \x, 100
        \what   \x + 1, 101
        .endm
        twice   shape, 4                        ; a macro calls a macro that its argument names
        .macro  unique
        .data
label\@: .byte  \@
        .byte   label\@ & 0xFF
        .text
        .endm
        unique
        unique
        .macro  glue name, number
        .equ    \name\()_\number, \number * 10
        .endm
        glue    value, 7
        shape   6, value_7
        .macro  maker name, count
        .macro  \name x
        memset  fmap_shape[\x], \count, 0, 0
        .endm
        .endm
        maker   made, 55
        made    8
        .macro  countdown n
        .if     \n > 0
        memset  fmap_shape[9], \n, 0, 0
        countdown \n - 1
        .endif
        .endm
        countdown 3
        .macro  say text
        .data
        .ascii  \text
        .text
        .endm
        say     "a, b"
        .macro  nothing
        .endm
        nothing
