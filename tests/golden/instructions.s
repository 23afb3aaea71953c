; SPDX-License-Identifier: Apache-2.0
; Every instruction, with each operand at its least and its greatest value, flags in any order, spaces and case of numbers.
        .target pccx
        gemv    l2[0], l2[0], size=0, shape=0
        gemv    l2[0x1FFFF], l2[131071], size=63, shape=63, lanes=31, w_scale, findemax, accm
        gemv    l2[0x15555], l2[0x0AAAA], accm, shape=42, findemax, size=21
        gemv    fifo, l2[1], size=1, shape=2, lanes=4
        gemv    l2[1], fifo, size=1, shape=2, lanes=4
        gemm    l2[0], l2[0], size=0, shape=0
        gemm    l2[0x1FFFE], l2[0x1FFFE], size=63, shape=63, lanes=31, w_scale, findemax, accm
        gemm    l2[4],l2[8],size=2,shape=3,w_scale
        memcpy  l2[0], host[0], shape=0
        memcpy  l2[0x1FFFE], host[0x3F_FFFF_FFF0], shape=63, async
        memcpy  l2[5], host[0x20_0010], shape=1
        memcpy  host[0], l2[0], shape=0
        memcpy  host[0x3F_FFFF_FFF0], l2[0x1FFFE], shape=63, async
        memcpy  host[0x20_0010], l2[5], shape=1
        memcpy  l2[0], l2[0], shape=0
        memcpy  l2[0x1FFFE], l2[0x1FFFD], async, shape=63
        memset  fmap_shape[0], 0, 0, 0
        memset  weight_shape[63], 0xFFFF, 65535, 0b1111_1111_1111_1111
        memset  fmap_shape[63], 1, 2, bf16(0.5)
        memset  weight_shape[0], 0o777, 'A', 3
        cvo.exp l2[0], l2[0], len=0
        cvo.exp l2[0x1FFFF], l2[0x1FFFF], len=65535, sub_emax, recip_scale, accm, async
        cvo.sqrt l2[1], l2[2], len=3
        cvo.gelu fifo, fifo, len=64, async
        cvo.sin l2[1], l2[2], len=3, accm
        cvo.cos l2[1], l2[2], len=3, sub_emax
        cvo.reduce_sum l2[1], l2[2], len=3
        cvo.scale l2[1], l2[2], len=3, recip_scale
        cvo.recip l2[1], l2[2], len=3
        .word64 0x4000000000000000, -1, 0x5000_0000_0000_0000
