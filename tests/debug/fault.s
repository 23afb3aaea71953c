; SPDX-License-Identifier: Apache-2.0
; The second instruction reads a Constant Cache entry that nothing has written.
        .target pccx
start:  memset  fmap_shape[1], 8, 1, 1
copy:   memcpy  l2[0], host[0], shape=0
        memset  fmap_shape[2], 8, 1, 1
