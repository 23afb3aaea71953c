; SPDX-License-Identifier: Apache-2.0
; .fill and .space: little endian, negative values, defaults.
        .target pccx
        memset  fmap_shape[0], 1, 1, 1
        .data
        .fill   2, 2, 0x3f80
        .fill   3
        .space  2
        .space  3, 0xff
        .fill   1, 8, -2
        .fill   2, 3, 0x010203
        .fill   0, 4, 7
        .byte   9
