; SPDX-License-Identifier: Apache-2.0
; An 8 x 8 x 8 product of INT8 and the quantization of its last column: 3K + 5 = 29 ticks from the first mma.
;
; The array computes the outer product of a column of A and a row of B per tick. Column c of the result is available
; K + c ticks after the last of them: the first at tick 2K - 1 = 15, the last at 3K - 2 = 22. Then: 2 ticks for the
; column, 1 to FP32, 2 for the scale and the offset, 2 to INT8.
;
; The 29 ticks assume the operands in registers, like the published sequence. Loading them takes another 27: the scale and
; the offset occupy the port for 4 ticks each, the 16 columns and rows for 1 each, and the last one arrives 3 ticks later.
; A streaming program hides most of it, see gemm64.s. The store takes 1.

        .target opennpu
        .profile test

; 16 columns and rows, one load per tick, and the scale and the offset as FP32 in every lane.
        ld.vr   vr5, scale(vr7)
        ld.vr   vr6, offset(vr7)
        ld.vx   vx0, a(vr7)
        ld.vx   vx1, a + 8(vr7)
        ld.vx   vx2, a + 16(vr7)
        ld.vx   vx3, a + 24(vr7)
        ld.vx   vx4, a + 32(vr7)
        ld.vx   vx5, a + 40(vr7)
        ld.vx   vx6, a + 48(vr7)
        ld.vx   vx7, a + 56(vr7)
        ld.vx   vx8, b(vr7)
        ld.vx   vx9, b + 8(vr7)
        ld.vx   vx10, b + 16(vr7)
        ld.vx   vx11, b + 24(vr7)
        ld.vx   vx12, b + 32(vr7)
        ld.vx   vx13, b + 40(vr7)
        ld.vx   vx14, b + 48(vr7)
        ld.vx   vx15, b + 56(vr7)
        .rept   3
        nop                                     ; the last load: the 29 ticks then begin with the first mma
        .endr

        mma     vx0, vx8                        ; keep = 0: overwrites ACC
        mma.keep vx1, vx9
        mma.keep vx2, vx10
        mma.keep vx3, vx11
        mma.keep vx4, vx12
        mma.keep vx5, vx13
        mma.keep vx6, vx14
        mma.keep vx7, vx15
        .rept   8
        mma.last vr4                            ; drains the columns; the last one remains
        .endr
        vcvt_f32_s32 vr4, vr4
        vfma    vr4, vr4, vr5, vr6
        vcvt_s8_f32.sat vx0, vr4
        st.vx   vx0, y(vr7)

        .data
a:      .set    i, 0                            ; a[k][m], column k of A: (5 k + 3 m) mod 17 - 8, k first
        .rept   64
        .byte   (5 * (i / 8) + 3 * (i % 8)) % 17 - 8
        .set    i, i + 1
        .endr
b:      .set    i, 0                            ; b[k][n], row k of B: (7 k + 2 n) mod 13 - 6
        .rept   64
        .byte   (7 * (i / 8) + 2 * (i % 8)) % 13 - 6
        .set    i, i + 1
        .endr
scale:  .rept   8
        .f32    0.75
        .endr
offset: .rept   8
        .f32    1.5
        .endr
y:      .zero   8
