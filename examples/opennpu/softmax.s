; SPDX-License-Identifier: Apache-2.0
; Softmax of 8 values in SQ1.6 (the integer divided by 64).
;
; Six ticks. A reduction writes its result to every lane of a VR register, whose low byte plane is a VX register that the
; next instruction reads: vr4 is vx16..vx19, vr5 is vx20..vx23.
; exp is in units of 1/32, so the sum of 8 is at most 256, whose low byte is 0. No sum is less than 32, so entry 0 of the
; reciprocals represents 256. The probabilities are in units of 1/8192.
;
; The published sequence consists of these six instructions, with x and the tables in registers, and an 8-bit product. It
; does not include 80 ticks for the two tables, once per program, 5 for each of the 16 segments; 4 for the load of x; 1
; for the store. Clearing the bytes for the 16-bit product is hidden by the latency of the load.

        .target opennpu
        .profile test

        .set    s, 0
        .rept   8
        ld.vr   vr6, exps + 32*s(vr7)
        vsetlut.a vr6, s
        ld.vr   vr3, reciprocals + 32*s(vr7)
        vsetlut.b vr3, s
        .set    s, s + 1
        .endr
        ld.vx   vx0, x(vr7)
        bcast.imm vx13, 0                       ; the high planes of the 16-bit product's factors: vr3, which is
        bcast.imm vx15, 0                       ; vx12..vx15, contains the last words of the tables
        vrmax   vr4, vx0                        ; the maximum, in vx16
        vsub.sat vx1, vx0, vx16                 ; from -128 (which is -2) to 0
        vlut.a  vx12, vx1                       ; ve6: e = 32 exp(x - max)
        vsum    vr5, vx12                       ; their sum, in vx20
        vlut.b  vx14, vx20                      ; ve7: 8192 / sum
        vmul    ve4, ve6, ve7
        st.ve   ve4, p(vr7)

        .data
; exp of 0 to -2; a difference is never positive, and those entries are never read.
exps:   .set    i, 0
        .rept   256
        .byte   int(round(32 * exp(min((i + 128) % 256 - 128, 0) / 64.0)))
        .set    i, i + 1
        .endr
reciprocals:
        .byte   32                              ; 8192/256
        .set    i, 1
        .rept   255
        .byte   min(int(round(8192.0 / i)), 255) ; 256 for a sum of 32 does not fit a byte
        .set    i, i + 1
        .endr
x:      .byte   -40, 10, 32, 0, 64, 50, -100, 64
p:      .zero   16
