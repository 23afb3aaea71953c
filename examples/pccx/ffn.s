; SPDX-License-Identifier: Apache-2.0
; A feed-forward block with its residual: y = x + W2 gelu(W1 x), 32 -> 64 -> 32.
;
; There is no add instruction. `accm` adds a result to its destination, so the second GEMV accumulates to x itself:
; x + W2 h is the residual sum, at no cost.

        .target pccx

        .equ    D, 32
        .equ    H, 64

; L2, in words of 8 BF16.
        .equ    X, 0                            ; 4 words: x, then y
        .equ    HIDDEN, 4                       ; 8 words

        .equ    VECTOR, 0                       ; entries of fmap_shape
        .equ    DEFAULTS, 1
        .equ    UP, 0                           ; entries of weight_shape
        .equ    DOWN, 1

;                                                                           cycles: issue -> end
        memset  fmap_shape[VECTOR], D, 1, 1                               ;   3 -> 4
        memset  fmap_shape[DEFAULTS], 0, 0, 0                             ;   4 -> 5
        memset  weight_shape[UP], 1, H, D                                 ;   5 -> 6    M, N outputs, K inputs
        memset  weight_shape[DOWN], 1, D, H                               ;   6 -> 7
        memcpy  l2[X], host[x], shape=VECTOR                              ;   7 -> 78   7 + 64 + ceil(4 words * 1.6)

; Each matrix has a descriptor; they are consumed in program order. 1152 + 1088 bytes at 20 per cycle: W1 arrives at
; cycle 58, W2 at 112, both before they are needed.
        wstream gemv, w1, w1_end - w1
        wstream gemv, w2, w2_end - w2

        gemv    l2[HIDDEN], l2[X], size=DEFAULTS, shape=UP, w_scale       ;  78 -> 106  78 + 12 + 1 beat * 64/4 rows
; Forwarded: it follows the GEMV whose result it reads, so it starts 12 + 1 cycles after its start, not at its end.
        cvo.gelu l2[HIDDEN], l2[HIDDEN], len=H                            ;  91 -> 173  91 + 12 + 64 + 6
        gemv    l2[X], l2[HIDDEN], size=DEFAULTS, shape=DOWN, w_scale, accm ; 173 -> 201  173 + 12 + 2 beats * 32/4 rows
; A GEMV never stalls the dispatcher; the store stalls because it reads the result of the GEMV (raw).
        memcpy  host[y], l2[X], shape=VECTOR                              ; 201 -> 272  201 + 64 + ceil(4 words * 1.6)

; Host memory.
        .data
        .balign 16
x:      .set    k, 0                            ; x[k] = (k mod 9 - 4) / 2
        .rept   D
        .bf16   (k % 9 - 4) / 2.0
        .set    k, k + 1
        .endr

; rows x columns INT4, value (a*n + b*k) mod 15 - 7, after one scale for each row.
        .macro  matrix rows, columns, scale, a, b
        .set    n, 0
        .rept   \rows
        .bf16   (1 + n % 4) * \scale            ; one scale per output
        .set    n, n + 1
        .endr
        .set    n, 0
        .rept   \rows
        .set    k, 0
        .rept   \columns / 2
        .int4   (\a*n + \b*k) % 15 - 7, (\a*n + \b*(k+1)) % 15 - 7
        .set    k, k + 2
        .endr
        .set    n, n + 1
        .endr
        .endm

w1:     matrix  H, D, 1 / 64.0, 7, 4
w1_end:
w2:     matrix  D, H, 1 / 128.0, 2, 11
w2_end:

y:      .zero   D * 2                           ; the result
