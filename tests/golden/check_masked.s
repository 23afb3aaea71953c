; SPDX-License-Identifier: Apache-2.0
; Lengths that a driver masked to 16 bits: 35000 * 2 = 70000 = 65536 + 4464 elements in 8750 words from l2[0].
        .target pccx
        memset  fmap_shape[0], 35000, 2, 1
        memset  fmap_shape[1], 32768, 4, 1      ; 131072 = 2 * 65536 elements in 16384 words
        memset  fmap_shape[2], 8, 1, 1
        memcpy  l2[1], host[0], shape=0
        memcpy  l2[0], host[0], shape=2
        cvo.scale l2[0x8000], l2[0], len=4464   ; the vector after the scalar: 70000
        cvo.exp l2[0x8000], l2[1], len=4464     ; 70000
        cvo.exp l2[0x8000], l2[1], len=4472     ; 559 words, not 558 modulo 8192: a part is meant
        cvo.exp l2[0x8000], l2[2], len=4464     ; starts after the beginning of the vector: a part is meant
        memset  fmap_shape[3], 40960, 2, 1      ; 81920 = 65536 + 16384
        memcpy  l2[0x10000], host[0], shape=3
        cvo.exp l2[0x8000], l2[0x10000], len=16384      ; a part: another one follows
        cvo.exp l2[0x8000], l2[0x10800], len=16384
        memcpy  l2[0x4000], host[0], shape=1
        cvo.sqrt l2[0x8000], l2[0x4000], len=0  ; 131072
