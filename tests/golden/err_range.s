; SPDX-License-Identifier: Apache-2.0
; Values that do not fit their field.
        .target pccx
        gemv    l2[0x20000], l2[0], size=0, shape=0
        gemv    l2[0], l2[-1], size=0, shape=0
        gemv    l2[0], l2[0], size=64, shape=0
        gemv    l2[0], l2[0], size=0, shape=64
        gemv    l2[0], l2[0], size=0, shape=0, lanes=32
        memset  fmap_shape[64], 0, 0, 0
        memset  fmap_shape[0], 65536, 0, 0
        memset  fmap_shape[0], 0, 1.5, 0
        memset  fmap_shape[0], 0, 0, late
        cvo.exp l2[0], l2[0], len=65536
        memcpy  l2[0], host[0x4000000000], shape=0
        memcpy  l2[0], host[-16], shape=0
        .equ    late, 70000
