; SPDX-License-Identifier: Apache-2.0
; One attention head for one token: s[t] = q . K[t] / sqrt(32), p = softmax(s), o = sum over t of p[t] V[t].
;
; The host stores the KV cache of 16 tokens as INT4: K with one row per token, and V transposed, with one row for each of
; the 32 dimensions. So both products are GEMV whose weights are the cache:
;       s = K q      16 rows of 32                    o = V^T p    32 rows of 16
; Each row has a quantization scale; those of K include the factor 1/sqrt(32).

        .target pccx

        .equ    D, 32
        .equ    TOKENS, 16

; L2, in words of 8 BF16.
        .equ    Q, 0                            ; 4 words
        .equ    S, 4                            ; 2 words
        .equ    E, 6                            ; the sum, then 2 words of exponentials
        .equ    P, 9                            ; 2 words
        .equ    O, 11                           ; 4 words

        .equ    HEAD, 0                         ; entries of fmap_shape
        .equ    DEFAULTS, 1
        .equ    KEYS, 0                         ; entries of weight_shape
        .equ    VALUES, 1

;                                                                           cycles: issue -> end
        memset  fmap_shape[HEAD], D, 1, 1                                 ;   3 -> 4
        memset  fmap_shape[DEFAULTS], 0, 0, 0                             ;   4 -> 5
        memset  weight_shape[KEYS], 1, TOKENS, D                          ;   5 -> 6
        memset  weight_shape[VALUES], 1, D, TOKENS                        ;   6 -> 7
        memcpy  l2[Q], host[q], shape=HEAD                                ;   7 -> 78   7 + 64 + ceil(4 words * 1.6)

; 288 and 576 bytes at 20 per cycle: K arrives at cycle 15, V at cycle 44.
        wstream gemv, keys, keys_end - keys
        wstream gemv, values, values_end - values

        gemv    l2[S], l2[Q], size=DEFAULTS, shape=KEYS, w_scale, findemax ; 78 -> 94   78 + 12 + 1 beat * 16/4 rows
; The softmax, as in softmax.s: the sum is stored in the word before the exponentials.
        cvo.exp l2[E + 1], l2[S], len=TOKENS, sub_emax                    ;  94 -> 120  94 + 4 + 16 + 6
        cvo.reduce_sum l2[E], l2[E + 1], len=TOKENS                       ; 120 -> 145  120 + 3 + 16 + 6
        cvo.scale l2[P], l2[E], len=TOKENS, recip_scale                   ; 145 -> 170  145 + 3 + 16 + 6
; A row of 16 values fills half a beat; the rest of the beat is zero.
        gemv    l2[O], l2[P], size=DEFAULTS, shape=VALUES, w_scale        ; 170 -> 190  170 + 12 + 1 beat * 32/4 rows
        memcpy  host[o], l2[O], shape=HEAD                                ; 190 -> 261  190 + 64 + ceil(4 words * 1.6)

; Host memory.
        .data
        .balign 16
q:      .set    k, 0                            ; q[k] = (k mod 5 - 2) / 2
        .rept   D
        .bf16   (k % 5 - 2) / 2.0
        .set    k, k + 1
        .endr

; rows of 32 INT4, value (a*n + b*k) mod 15 - 7 in the first `columns`, after one scale for each row.
        .macro  rows_of rows, columns, scale, a, b
        .rept   \rows
        .bf16   \scale
        .endr
        .set    n, 0
        .rept   \rows
        .set    k, 0
        .rept   16
        .int4   k < \columns ? (\a*n + \b*k) % 15 - 7 : 0, k + 1 < \columns ? (\a*n + \b*(k+1)) % 15 - 7 : 0
        .set    k, k + 2
        .endr
        .set    n, n + 1
        .endr
        .endm

keys:   rows_of TOKENS, D, 0.25 / sqrt(32.0), 1, 8
keys_end:
values: rows_of D, TOKENS, 1 / 8.0, 4, 13
values_end:

o:      .zero   D * 2                           ; the result
