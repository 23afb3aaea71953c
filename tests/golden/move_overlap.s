; SPDX-License-Identifier: Apache-2.0
; Overlapping copies inside L2 behave like memmove, upwards and downwards; what lies past the end of a vector in its last
; word is copied by MEMCPY (whole words) and written as zero by CVO.
        .target pccx
        memset  fmap_shape[0], 8, 3, 1          ; 3 -> 4    24 elements, 3 words
        memset  fmap_shape[1], 9, 1, 1          ; 4 -> 5    9 elements, 2 words
        memcpy  l2[0], host[x], shape=0         ; 5 -> 74   5 + 64 + ceil(4.8)
        memcpy  l2[1], l2[0], shape=0           ; 74 -> 85  words 0 1 2 to 1 2 3
        memcpy  l2[8], l2[0], shape=0           ; 85 -> 96
        memcpy  l2[7], l2[8], shape=1           ; 96 -> 106 words 8 9 to 7 8
        cvo.scale l2[20], l2[0], len=3          ; 106 -> 118  x[1..] times lane 0 of word 0
        .data
x:      .bf16   2, 1, 1, 1, 1, 1, 1, 1
        .bf16   3, 4, 5, 6, 7, 8, 9, 10
        .bf16   11, 12, 13, 14, 15, 16, 17, 18
