; SPDX-License-Identifier: Apache-2.0
; The message stands at the .if that was never closed.
        .target pccx
        .if     1
        .if     0
        .endif
        memset  fmap_shape[0], 1, 1, 1
