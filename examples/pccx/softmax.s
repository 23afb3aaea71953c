; SPDX-License-Identifier: Apache-2.0
; Softmax of a matrix times a vector: z = W x with 16 outputs, then p[n] = exp(z[n] - max z) / sum.
;
; GEMV computes the maximum while it writes z (findemax) and stores it in e_max. The SFU needs three passes: exponential,
; sum, division. Subtracting the maximum prevents overflow of the exponentials and cancels out in the division.
;
; cvo.scale reads its scalar from lane 0 of the word before its vector, and cvo.reduce_sum writes one whole word. So the
; exponentials are stored at E + 1, and their sum at E: no copy is needed.

        .target pccx

        .equ    OUTPUTS, 16
        .equ    INPUTS, 32

; L2, in words of 8 BF16.
        .equ    X, 0                            ; 4 words
        .equ    Z, 4                            ; 2 words
        .equ    E, 8                            ; the sum, then 2 words of exponentials
        .equ    P, 12                           ; 2 words

; Constant Cache. MEMCPY moves a*b*c elements, GEMV reads M (always 1), N, K.
        .equ    IN, 0
        .equ    OUT, 1
        .equ    DEFAULTS, 2

;                                                                         cycles: issue -> end
        memset  fmap_shape[IN], INPUTS, 1, 1                            ;   3 -> 4
        memset  fmap_shape[OUT], OUTPUTS, 1, 1                          ;   4 -> 5
        memset  fmap_shape[DEFAULTS], 0, 0, 0                           ;   5 -> 6    the engine's tiling, dynamic INT8
        memset  weight_shape[0], 1, OUTPUTS, INPUTS                     ;   6 -> 7
        memcpy  l2[X], host[x], shape=IN                                ;   7 -> 78   7 + 64 + ceil(4 words * 1.6)

; The weights are streamed from host memory: the descriptor names the bytes for the next GEMV. 288 bytes at 20 per cycle
; arrive at cycle 15, long before the GEMV starts.
        wstream gemv, w, w_end - w
        gemv    l2[Z], l2[X], size=DEFAULTS, shape=0, w_scale, findemax ;  78 -> 94   78 + 12 + 1 beat * 16/4 rows
; Not forwarded, although it follows its GEMV: e_max is known only at the end of the GEMV.
        cvo.exp l2[E + 1], l2[Z], len=OUTPUTS, sub_emax                 ;  94 -> 120  94 + 4 + 16 + 6
        cvo.reduce_sum l2[E], l2[E + 1], len=OUTPUTS                    ; 120 -> 145  120 + 3 + 16 + 6
        cvo.scale l2[P], l2[E], len=OUTPUTS, recip_scale                ; 145 -> 170  145 + 3 + 16 + 6
        memcpy  host[p], l2[P], shape=OUT                               ; 170 -> 238  170 + 64 + ceil(2 words * 1.6)

; Host memory.
        .data
        .balign 16
x:      .set    k, 0                            ; x[k] = (k mod 7 - 3) / 4
        .rept   INPUTS
        .bf16   (k % 7 - 3) / 4.0
        .set    k, k + 1
        .endr

w:      .rept   OUTPUTS                         ; with w_scale the stream begins with a scale for each output
        .bf16   1 / 16.0
        .endr
        .set    n, 0                            ; then the rows: W[n][k] = (3n + 5k) mod 15 - 7
        .rept   OUTPUTS
        .set    k, 0
        .rept   INPUTS / 2                      ; two INT4 per byte
        .int4   (3*n + 5*k) % 15 - 7, (3*n + 5*(k+1)) % 15 - 7
        .set    k, k + 2
        .endr
        .set    n, n + 1
        .endr
w_end:

p:      .zero   OUTPUTS * 2                     ; the result
