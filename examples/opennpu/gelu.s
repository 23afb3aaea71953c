; SPDX-License-Identifier: Apache-2.0
; GELU: y = x/2 * (1 + erf(x/sqrt(2))), 8 lanes of SQ1.6 (the integer divided by 64).
;
; Five ticks. The product needs 16 bits, so x is sign-extended in a VE register; its low byte plane is the VX register
; that indexes the table. The result of the table is the low plane of ve1; the high plane, vx3, is 0, so 64 + erf, from
; 0 to 128, is read as a positive number.
;
; The published sequence consists of these five instructions, with x, the constants and the table in registers, all 8 bits
; wide. It does not include 40 ticks for the table, once per program, 5 for each of its 8 segments (a load of 4 and the
; vsetlut); 6 for the load of x, followed by the constants; 1 for the store.

        .target opennpu
        .profile test

        .set    s, 0
        .rept   8
        ld.vr   vr4, table + 32*s(vr7)
        vsetlut.a vr4, s
        .set    s, s + 1
        .endr
        ld.ve   ve0, x(vr7)                     ; vx0: the low bytes, vx1: the signs
        bcast.imm vx3, 0                        ; the high byte of ve1
        bcast.imm vx8, 1
        bcast.imm vx9, 64
        bcast.imm vx10, 7                       ; ve5: 7 in 16 bits
        bcast.imm vx11, 0
        vsra    vx2, vx0, vx8                   ; x/2: each entry is used for two values of x
        vlut.a  vx2, vx2                        ; 64 erf(x/sqrt(2))
        vadd    vx2, vx2, vx9                   ; 64 (1 + erf)
        vmul    ve2, ve0, ve1
        vsra    ve2, ve2, ve5                   ; the 1/2 and the 64 of erf; rounds down
        st.ve   ve2, y(vr7)

        .data
; Entry t, from -128 to 127, for x = 2t.
table:  .set    i, 0
        .rept   256
        .byte   int(round(64 * erf(2 * ((i + 128) % 256 - 128) / 64.0 * 0.70710678118654752)))
        .set    i, i + 1
        .endr
x:      .half   -128, -64, -32, -1, 0, 32, 64, 127
y:      .zero   16
