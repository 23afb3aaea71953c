; SPDX-License-Identifier: Apache-2.0
        .target pccx
        memset  fmap_shape[0], 70000, 1, 1
        .macro  open a
        memset  fmap_shape[0], \a, 1, 1
