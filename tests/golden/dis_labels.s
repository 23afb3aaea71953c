; SPDX-License-Identifier: Apache-2.0
; Labels are named in another order than they stand in, and one stands behind the last instruction.
        .target pccx
        memset  fmap_shape[0], last - first, 1, 1
first:  memset  fmap_shape[1], 1, 1, 1
middle: memset  fmap_shape[2], 2, 2, 2
last:
