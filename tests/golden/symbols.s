; SPDX-License-Identifier: Apache-2.0
; Labels in text (instruction index in dumps, byte offset in expressions) and data, several on a line, forward references
; in fields, data and stream descriptors, local labels.
        .target pccx
start:
first: second: memset fmap_shape[0], size, 1, 1
        memset  fmap_shape[1], (end - start) / 8, 1, 1
        wstream gemv, weights, weights_end - weights
        wstream gemm, weights + 16, 16
        wstream gemv, 0x1000, 0
        memcpy  l2[place / 16], host[data + 16], shape=0
end:
        .equ    place, 48
        .equ    size, weights_end - data
        .data   0x40
data:   .zero   16
.Lhidden: .word64 .Lhidden, end, second
        .balign 16
weights:
        .zero   32
weights_end:
