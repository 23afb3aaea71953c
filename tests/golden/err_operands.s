; SPDX-License-Identifier: Apache-2.0
; Operands missing, in excess, of the wrong kind, unknown, twice.
        .target pccx
        gemv
        gemv    l2[0]
        gemv    l2[0], l2[0]
        gemv    l2[0], l2[0], size=0
        gemv    l2[0], size=0, shape=0
        gemv    host[0], l2[0], size=0, shape=0
        gemv    0, l2[0], size=0, shape=0
        gemv    l2[0], l2[0], 0, 0
        gemv    l2[0], l2[0], size=0, shape=0, async
        gemv    l2[0], l2[0], size=0, shape=0, shap=1
        gemv    l2[0], l2[0], size=0, shape=0, size=1
        gemv    l2[0], l2[0], size=0, shape=0, accm, accm
        gemv    l2[0], l2[0], size=0, shape=0, accm=1
        gemv    l2[0], l2[0], size, shape=0
        gemv    l2[0], l2[0], l2[0], size=0, shape=0
        memcpy  host[0], host[16], shape=0
        memcpy  l2[0], 16, shape=0
        memcpy  l2[0], host[0]
        memset  l2[0], 1, 1, 1
        memset  fmap[0], 1, 1, 1
        memset  fmap_shape, 1, 1, 1
        memset  fmap_shape[0], 1, 1
        memset  fmap_shape[0], 1, 1, 1, 1
        cvo.exp l2[0], l2[0]
        cvo.exp l2[0], l2[0], len=1, sub_max
