; SPDX-License-Identifier: Apache-2.0
; Undefined, defined twice, changed.
        .target pccx
        .equ    width, 64
        .equ    width, 65
        .set    step, 1
        .equ    step, 2
again:  memset  fmap_shape[0], widht, 1, 1
again:  memset  fmap_shape[0], 1, 1, 1
        memset  fmap_shape[0], nowhere, 1, 1
        memset  fmap_shape[0], nowhere, 1, 1
        wstream gemv, weights, weights_end - weights
        .set    early, unknown + 1
        .equ    1abc, 1
        .equ
