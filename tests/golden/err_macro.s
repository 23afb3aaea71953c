; SPDX-License-Identifier: Apache-2.0
; An error inside an expansion names the line of the macro and where the macro was called.
        .target pccx
        .macro  inner entry, value
        memset  fmap_shape[\entry], \value, 1, 1
        .endm
        .macro  outer value
        inner   0, \value
        .endm
        inner   0, 70000
        outer   80000
        inner   0
        inner   0, 1, 2
        outer
        .macro  bad a, 1
        .endm
        .macro  endless
        endless
        .endm
        endless
