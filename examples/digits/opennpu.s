; SPDX-License-Identifier: Apache-2.0
; Handwritten digits on OpenNPU: 64 pixels, 128 hidden neurons with GELU, 10 classes; INT8, K = 64.
;
; The lanes are 64 images. Layer 1 computes 64 neurons at a time: the sum over all pixels of the outer products (pixel of
; the images) x (weights of the pixel) in the array. Column j of the result is neuron j of all 64 images; it is scaled to
; INT8, looked up in the table of GELU and stored, which makes it an operand of layer 2. Biases are two additional outer
; products, with the inputs 127 and 1 (tools/digits/opennpu.c). The columns of layer 2 are the logits of a class.

        .target opennpu
        .include "opennpu.inc"                  ; Z_UNIT, H_UNIT, SCALE1, SCALE2

        .equ    K, 64
        .equ    image_count, 360
        .equ    GROUPS, (image_count + K - 1) / K
        .equ    CLASSES, 10
        .equ    CLASS_STEP, 4 * K * GROUPS      ; bytes from the logits of one class to the next

; vr0..vr2, which are vx0..vx11: operands and columns. vr4: lane 0 is 0, for addresses of the constants.
; vr5, vr7: bases of the inputs (or results) and of the weights, centered in their 4 KiB. vr6: the scale.
        bcast.imm vx16, 0
        bcast.imm vx17, 0
        bcast.imm vx18, 0
        bcast.imm vx19, 0
        bcast.imm vx12, 127
        bcast.imm vx13, 1
        ld.vr   vr0, gelu(vr4)                  ; at K = 64 a register holds the whole bank
        vsetlut.a vr0, 0

; Two inputs in four registers, from the bases.
        .macro  fetch k, x0, w0, x1, w1
        ld.vx   \x0, (\k) * K - 2048(vr5)
        ld.vx   \w0, (\k) * K - 2048(vr7)
        ld.vx   \x1, ((\k) + 1) * K - 2048(vr5)
        ld.vx   \w1, ((\k) + 1) * K - 2048(vr7)
        .endm

; Add 64 outer products to the array. Loads are issued two inputs ahead, which hides their latency.
        .macro  accumulate
        fetch   0, vx0, vx1, vx2, vx3
        .set    k, 2
        .rept   15
        fetch   k, vx4, vx5, vx6, vx7
        mma.keep vx0, vx1
        mma.keep vx2, vx3
        fetch   k + 2, vx0, vx1, vx2, vx3
        mma.keep vx4, vx5
        mma.keep vx6, vx7
        .set    k, k + 4
        .endr
        fetch   62, vx4, vx5, vx6, vx7
        mma.keep vx0, vx1
        mma.keep vx2, vx3
        mma.keep vx4, vx5
        mma.keep vx6, vx7
        .endm

; Two rows of biases, for the inputs 127 and 1.
        .macro  biases at
        ld.vx   vx8, \at(vr4)
        ld.vx   vx9, \at + K(vr4)
        mma.keep vx12, vx8
        mma.keep vx13, vx9
        .endm

        .set    g, 0
        .rept   GROUPS

        .set    half, 0
        .rept   2
        mma.reset
        ld.w    vr5, x_at + 4 * g(vr4)
        ld.w    vr7, w_at + 4 * half(vr4)
        accumulate
        biases  bias + 2 * K * half
        ld.vr   vr6, scale1(vr4)
        ld.w    vr5, hidden_at + 4 * half(vr4)
; Two interleaved columns: each uses the ticks in which the other waits.
        .set    j, 0
        .rept   K / 2
        mma.last vr0
        mma.last vr1
        vcvt_f32_s32 vr0, vr0
        vcvt_f32_s32 vr1, vr1
        vfmul   vr0, vr0, vr6
        vfmul   vr1, vr1, vr6
        vcvt_s8_f32.sat vx8, vr0                ; the argument in units of Z_UNIT
        vcvt_s8_f32.sat vx9, vr1
        vlut.a  vx8, vx8                        ; GELU in units of H_UNIT
        vlut.a  vx9, vx9
        st.vx   vx8, j * K - 2048(vr5)
        st.vx   vx9, (j + 1) * K - 2048(vr5)
        .set    j, j + 2
        .endr
        .set    half, half + 1
        .endr

        mma.reset
        .set    half, 0
        .rept   2
        ld.w    vr5, hidden_at + 4 * half(vr4)
        ld.w    vr7, w_at + 8 + 4 * half(vr4)
        accumulate
        .set    half, half + 1
        .endr
        biases  bias + 4 * K
        ld.vr   vr6, scale2(vr4)
        .set    c, 0
        .rept   CLASSES / 2
        ld.w    vr5, logits_at + 4 * (GROUPS * c + g)(vr4)
        ld.w    vr7, logits_at + 4 * (GROUPS * (c + 1) + g)(vr4)
        mma.last vr0
        mma.last vr1
        vcvt_f32_s32 vr0, vr0
        vcvt_f32_s32 vr1, vr1
        vfmul   vr0, vr0, vr6
        vfmul   vr1, vr1, vr6
        st.vr   vr0, 0(vr5)
        st.vr   vr1, 0(vr7)
        .set    c, c + 2
        .endr

        .set    g, g + 1
        .endr

        .data
; Data addressed by vr4: the first 2 KiB.
x_at:   .set    i, 0
        .rept   GROUPS
        .word   x + K * K * i + 2048
        .set    i, i + 1
        .endr
w_at:   .word   weights + 2048, weights + 3 * 2048, weights + 5 * 2048, weights + 7 * 2048
hidden_at:
        .word   hidden + 2048, hidden + 3 * 2048
logits_at:
        .set    i, 0
        .rept   CLASSES * GROUPS
        .word   logits + 4 * K * i
        .set    i, i + 1
        .endr
scale1: .rept   K
        .f32    SCALE1
        .endr
scale2: .rept   K
        .f32    SCALE2
        .endr
; H_UNIT is calibrated on the training images; larger values saturate at 127 instead of wrapping to 128 and up.
gelu:   .set    i, 0
        .rept   256
        .set    z, ((i + 128) % 256 - 128) * Z_UNIT
        .byte   min(int(round(z / 2 * (1 + erf(z * 0.70710678118654752)) / H_UNIT)), 127)
        .set    i, i + 1
        .endr
bias:   .incbin "opennpu.weights.s8", 4 * K * K, 6 * K

weights:
        .incbin "opennpu.weights.s8", 0, 4 * K * K
x:      .incbin "opennpu.x.s8"
hidden: .zero   2 * K * K                       ; 128 neurons of 64 images
logits: .zero   CLASSES * CLASS_STEP            ; FP32: by class, then by image
