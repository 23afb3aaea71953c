; SPDX-License-Identifier: Apache-2.0
        .target pccx
        .rept   2
        .rept   2
        memset  fmap_shape[0], 1, 1, 1
        .endr
