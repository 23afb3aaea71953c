; SPDX-License-Identifier: Apache-2.0
; The uops and routes that each kind of instruction becomes (specification, section 3).
        .target pccx
        gemv    l2[0x10], l2[0x20], size=1, shape=2, lanes=3, w_scale, findemax, accm
        gemm    l2[0x10], l2[0x20], size=1, shape=2
        memcpy  l2[0x10], host[0x200], shape=4
        memcpy  host[0x200], l2[0x10], shape=4, async
        memcpy  l2[0x10], l2[0x20], shape=4
        memset  weight_shape[5], 6, 7, 8
        cvo.scale l2[0x10], l2[0x20], len=9, recip_scale, async
        gemv    fifo, l2[0x20], size=1, shape=2
        cvo.exp fifo, fifo, len=9
