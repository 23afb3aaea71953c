; SPDX-License-Identifier: Apache-2.0
; Ends without a beginning.
        .target pccx
        .endm
        .endr
        .endif
        .else
        .elseif 1
        .if     1
        .else
        .else
        .endif
        .rept   -1
        .endr
        .rept   late
        .endr
        .rept   1 2
        .endr
        .macro
        .endm
        .macro  gemv a
        .endm
        .macro  twin
        .endm
        .macro  twin
        .endm
        .if     late
        .endif
        .equ    late, 1
        )
        "text"
