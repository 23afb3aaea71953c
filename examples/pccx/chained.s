; SPDX-License-Identifier: Apache-2.0
; GEMV -> SFU -> GEMV through the direct FIFOs: y = W2 gelu(W1 x), 32 -> 64 -> 16, the hidden layer never in L2.
;
; `fifo` as the destination of a GEMV and as the source of a CVO is the FIFO from the GEMV to the SFU; as the destination
; of a CVO and the source of a GEMV it is the one back. A consumer reads exactly the number of elements it specifies.

        .target pccx

        .equ    INPUTS, 32
        .equ    HIDDEN, 64
        .equ    OUTPUTS, 16

        .equ    X, 0                            ; L2: 4 words
        .equ    Y, 4                            ; 2 words

        .equ    IN, 0                           ; entries of fmap_shape
        .equ    OUT, 1
        .equ    DEFAULTS, 2
        .equ    LAYER1, 0                       ; entries of weight_shape
        .equ    LAYER2, 1

;                                                                        cycles: issue -> end
        memset  fmap_shape[IN], INPUTS, 1, 1                           ;   3 -> 4
        memset  fmap_shape[OUT], OUTPUTS, 1, 1                         ;   4 -> 5
        memset  fmap_shape[DEFAULTS], 0, 0, 0                          ;   5 -> 6
        memset  weight_shape[LAYER1], 1, HIDDEN, INPUTS                ;   6 -> 7
        memset  weight_shape[LAYER2], 1, OUTPUTS, HIDDEN               ;   7 -> 8
        memcpy  l2[X], host[x], shape=IN                               ;   8 -> 79   8 + 64 + ceil(4 words * 1.6)

; The weights of both layers are contiguous: 1024 bytes for the first, 512 for the second, which arrive at cycle 77.
        wstream gemv, weights, weights_end - weights

        gemv    fifo, l2[X], size=DEFAULTS, shape=LAYER1               ;  79 -> 107  79 + 12 + 1 beat * 64/4 rows
; Forwarded through the FIFO, as it would be through L2, from 79 + 12 + 1 on.
        cvo.gelu fifo, fifo, len=HIDDEN, async                         ;  92 -> 174  92 + 12 + 64 + 6
; The FIFO back is not forwarded: this stalls until the SFU is done (raw on the FIFO).
        gemv    l2[Y], fifo, size=DEFAULTS, shape=LAYER2               ; 174 -> 194  174 + 12 + 2 beats * 16/4 rows
        memcpy  host[y], l2[Y], shape=OUT                              ; 194 -> 262  194 + 64 + ceil(2 words * 1.6)

; Host memory.
        .data
        .balign 16
x:      .set    k, 0                            ; x[k] = (k mod 6 - 2.5) / 16
        .rept   INPUTS
        .bf16   (k % 6 - 2.5) / 16
        .set    k, k + 1
        .endr

; rows x columns INT4 without scales: value (a*n + b*k) mod 16 - 8.
        .macro  matrix rows, columns, a, b
        .set    n, 0
        .rept   \rows
        .set    k, 0
        .rept   \columns / 2
        .int4   (\a*n + \b*k) % 16 - 8, (\a*n + \b*(k+1)) % 16 - 8
        .set    k, k + 2
        .endr
        .set    n, n + 1
        .endr
        .endm

weights:
        matrix  HIDDEN, INPUTS, 3, 5
        matrix  OUTPUTS, HIDDEN, 7, 9
weights_end:

y:      .zero   OUTPUTS * 2                     ; the result
