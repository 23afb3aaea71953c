; SPDX-License-Identifier: Apache-2.0
; GELU over four tiles of 128 elements with double buffering: the ACP loads and stores while the SFU computes.
;
; With `async` the dispatcher does not wait for a MEMCPY or CVO. It still stalls every instruction that would read or
; overwrite too early, so the results are those of program order; the comments name the stall reasons:
;       raw  reads what is still being written         war  overwrites what is still being read
;       waw  overwrites what is still being written    acp, sfu  its engine is busy
;
; A row of the result is 128 values and a trailer of 8 constants. The trailers are not computed: one copy fills both
; buffers with complete rows first, and the GELU overwrites only the values.

        .target pccx

        .equ    TILE, 128
        .equ    TRAILER, 8
        .equ    ROW, TILE + TRAILER

; L2, in words of 8 BF16: two buffers on each side.
        .equ    IN0, 0
        .equ    IN1, IN0 + TILE / 8
        .equ    OUT0, IN1 + TILE / 8
        .equ    OUT1, OUT0 + ROW / 8

;                                                                cycles: issue -> end
        memset  fmap_shape[0], TILE, 1, 1                      ;   3 -> 4
        memset  fmap_shape[1], ROW, 1, 1                       ;   4 -> 5
        memset  fmap_shape[2], ROW, 2, 1                       ;   5 -> 6

; A load of 16 words takes 64 + ceil(25.6) = 90 cycles, both rows 64 + ceil(54.4) = 119, a store of 17 words
; 64 + ceil(27.2) = 92, a GELU 12 + 128 + 6 = 146.
        memcpy  l2[IN0], host[input], shape=0, async           ;   6 -> 96
        memcpy  l2[OUT0], host[rows], shape=2, async           ;  96 -> 215   acp
        cvo.gelu l2[OUT0], l2[IN0], len=TILE, async            ; 215 -> 361   waw: the rows are still being loaded
        memcpy  l2[IN1], host[input + 256], shape=0, async     ; 216 -> 306
        memcpy  l2[IN0], host[input + 512], shape=0, async     ; 361 -> 451   war: the first GELU reads IN0
        cvo.gelu l2[OUT1], l2[IN1], len=TILE, async            ; 362 -> 508
        memcpy  host[output], l2[OUT0], shape=1, async         ; 451 -> 543   acp
        memcpy  l2[IN1], host[input + 768], shape=0, async     ; 543 -> 633   war: the second GELU reads IN1; then acp
        cvo.gelu l2[OUT0], l2[IN0], len=TILE, async            ; 544 -> 690
        memcpy  host[output + 272], l2[OUT1], shape=1, async   ; 633 -> 725   acp
        cvo.gelu l2[OUT1], l2[IN1], len=TILE, async            ; 725 -> 871   war: the store reads OUT1
        memcpy  host[output + 544], l2[OUT0], shape=1, async   ; 726 -> 818
        memcpy  host[output + 816], l2[OUT1], shape=1, async   ; 871 -> 963   raw: the last GELU

; Host memory.
        .data
        .balign 16
input:  .set    k, 0                            ; element k is (k mod 64 - 32) / 8
        .rept   4 * TILE
        .bf16   (k % 64 - 32) / 8.0
        .set    k, k + 1
        .endr
rows:   .rept   2
        .zero   TILE * 2
        .bf16   1, 2, 3, 4, 5, 6, 7, 8
        .endr
output: .zero   4 * ROW * 2                     ; the result
