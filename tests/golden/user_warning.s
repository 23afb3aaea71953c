; SPDX-License-Identifier: Apache-2.0
; .warning says its text and goes on.
        .target pccx
        .warning "the old way"
        memset  fmap_shape[0], 1, 1, 1
