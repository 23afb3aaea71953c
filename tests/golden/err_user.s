; SPDX-License-Identifier: Apache-2.0
; The program's own error.
        .target pccx
        .if     1 < 2
        .error  "M must be a multiple of 64"
        .endif
        .error
        .warning text
        .option everything
