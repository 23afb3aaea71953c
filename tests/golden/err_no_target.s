; SPDX-License-Identifier: Apache-2.0
; A file with data alone does not say what it is for either.
        .data
        .byte   1
