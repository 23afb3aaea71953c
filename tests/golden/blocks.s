; SPDX-License-Identifier: Apache-2.0
; .rept and the conditionals, nested; what a branch not taken holds need not make sense.
        .target pccx
        .set    i, 0
        .rept   3
        memset  fmap_shape[i], i, 2 * i, 0
        .set    i, i + 1
        .endr
        .set    i, 1
        .rept   2
        .set    j, 1
        .rept   2
        memset  fmap_shape[8 + 2 * (i - 1) + j + 1], i, j, 0
        .set    j, j + 1
        .endr
        .set    i, i + 1
        .endr
        .rept   0
        memset  nonsense
        .endr
        .if     1
        memset  fmap_shape[20], 1, 0, 0
        .else
        0x this is not looked at "
        .endif
        .if     0
        gemvv   (
        .if     1
        .error  "inside a branch not taken"
        .endif
        .elseif 2 > 1
        memset  fmap_shape[21], 2, 0, 0
        .elseif 1
        .error  "only the first that holds"
        .else
        .error  "not this one"
        .endif
        .equ    known, 0
        .ifdef  known
        memset  fmap_shape[22], 1, 0, 0
        .endif
        .ifndef unknown
        memset  fmap_shape[23], 1, 0, 0
        .endif
        .ifndef known
        .error  "it is"
        .endif
        .set    i, 0
        .rept   4
        .set    i, i + 1
        .if     i == 1
        memset  fmap_shape[24], i, 0, 0
        .elseif i == 2
        memset  fmap_shape[25], i, 0, 0
        .endif
        .endr
