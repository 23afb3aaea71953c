; SPDX-License-Identifier: Apache-2.0
; Nothing can be assembled before the target is known.
        memset  fmap_shape[0], 1, 1, 1
        .target pcx
        .target pccx
        .target cmdq_v9
        memset  fmap_shape[0], 1, 1, 1
