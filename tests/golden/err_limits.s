; SPDX-License-Identifier: Apache-2.0
; asm: --line-limit 100
; Limits of expansions end in an error that names them.
        .target pccx
        .set    deep, ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1
        .macro  again count
        .if     \count
        again   \count - 1
        .endif
        .endm
        .data
        .incbin "../golden/../../CMakeLists.txt"
        .incbin "../suite.py"
        .include "/etc/passwd"
        again   200
        .rept   1000000000000
        .byte   1
        .endr
