; SPDX-License-Identifier: Apache-2.0
; Handwritten digits on pccx v002: a 64 -> 128 -> 10 network classifies 360 images of 8 x 8 pixels.
;
;       h = gelu(x * W1 + b1)           y = h * W2 + b2           digit = index of the largest y
;
; The host finds one row of 16 BF16 per image at `logits`: lanes 0 to 9 are y, the rest is zero.
; tools/digits/train.c writes the files included at the end and determines HIDDEN and TILE.
;
; GELU takes a cycle per element and is the bottleneck: 360 x 128 cycles. The images are therefore
; processed in tiles with double buffering: while the SFU processes one tile, the other engines
; finish the previous tile and prepare the next one:
;
;       SFU         gelu 0              gelu 1              gelu 2              ...
;       GEMM, ACP   prepare 1           finish 0, prepare 2 finish 1, prepare 3 ...
;
; With `async` on every memcpy and cvo the dispatcher does not wait for them; it still stalls an
; instruction whose data are not ready, so the result is always that of program order.

        .target pccx

        .equ    image_count, 360
        .equ    PIXELS, 64
        .equ    HIDDEN, 128
        .equ    CLASSES, 10
        .equ    LOGITS, 16                      ; a row of 10, padded to whole words
        .equ    TILE, 40                        ; images per tile
        .equ    TILES, image_count / TILE

; L2, in words of 8 BF16: two buffers each for images, hidden layer and logits.
        .equ    X_WORDS, TILE * PIXELS / 8
        .equ    H_WORDS, TILE * HIDDEN / 8
        .equ    Y_WORDS, TILE * LOGITS / 8
        .equ    X, 0
        .equ    H, X + 2 * X_WORDS
        .equ    Y, H + 2 * H_WORDS

; Entries of the Constant Cache. MEMCPY moves a*b*c elements; GEMM reads (M, N, K).
        .equ    TILE_X, 0
        .equ    TILE_H, 1
        .equ    TILE_Y, 2
        .equ    DEFAULTS, 3
        .equ    LAYER1, 0
        .equ    LAYER2, 1

        memset  fmap_shape[TILE_X], TILE, PIXELS, 1
        memset  fmap_shape[TILE_H], TILE, HIDDEN, 1
        memset  fmap_shape[TILE_Y], TILE, LOGITS, 1
        memset  fmap_shape[DEFAULTS], 0, 0, 0   ; the engine's tiling, dynamic INT8 activations
        memset  weight_shape[LAYER1], TILE, HIDDEN, PIXELS
        memset  weight_shape[LAYER2], TILE, CLASSES, HIDDEN

; Load tile t and run layer 1 up to its GELU. There is no bias unit: `accm` adds the result to the
; destination, which is initialized with a tile of bias rows.
        .macro  prepare t
        .set    buffer, (\t) % 2
        memcpy  l2[X + buffer * X_WORDS], host[x + (\t) * X_WORDS * 16], shape=TILE_X, async
        memcpy  l2[H + buffer * H_WORDS], host[b1], shape=TILE_H, async
        wstream gemm, w1, w1_end - w1
        gemm    l2[H + buffer * H_WORDS], l2[X + buffer * X_WORDS], size=DEFAULTS, shape=LAYER1, w_scale, accm
        memcpy  l2[Y + buffer * Y_WORDS], host[b2], shape=TILE_Y, async
        .endm

; GELU over tile t, in place.
        .macro  activate t
        .set    buffer, (\t) % 2
        cvo.gelu l2[H + buffer * H_WORDS], l2[H + buffer * H_WORDS], len=TILE*HIDDEN, async
        .endm

; Layer 2 of tile t; its logits are stored to the host.
        .macro  finish t
        .set    buffer, (\t) % 2
        wstream gemm, w2, w2_end - w2
        gemm    l2[Y + buffer * Y_WORDS], l2[H + buffer * H_WORDS], size=DEFAULTS, shape=LAYER2, w_scale, accm
        memcpy  host[logits + (\t) * Y_WORDS * 16], l2[Y + buffer * Y_WORDS], shape=TILE_Y, async
        .endm

        prepare 0
        .set    tile, 0
        .rept   TILES
        activate tile
        .if     tile > 0
        finish  tile-1
        .endif
        .if     tile + 1 < TILES
        prepare tile+1                          ; into the buffers that `finish` has just freed
        .endif
        .set    tile, tile + 1
        .endr
        finish  TILES-1

; Host memory. Rows and weight beats are multiples of 16 bytes.
        .data
        .balign 16
x:      .incbin "x.bf16"                        ; 360 rows of 64 pixels, 0 to 1
        .balign 16
b1:     .incbin "b1.tile.bf16"                  ; TILE copies of the bias row
        .balign 16
b2:     .incbin "b2.tile.bf16"
        .balign 16
w1:     .incbin "w1.wstream"                    ; 128 scales, then 128 rows of 64 INT4
w1_end:
        .balign 16
w2:     .incbin "w2.wstream"                    ; 10 scales padded to 16, then 10 rows of 128 INT4
w2_end:
        .balign 16
logits: .zero   image_count * LOGITS * 2
