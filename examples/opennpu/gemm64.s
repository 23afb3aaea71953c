; SPDX-License-Identifier: Apache-2.0
; profile: top
; C = A B, 64 x 64 x 64, INT8 to INT32.
;
; 64 outer products, then 64 columns. A operand pair takes the port two ticks and the array one, and there is one issue a
; tick: 3 ticks for each k. A column is a VR register and takes the port 4 ticks: the way out takes longer than the sum.
; Loads and stores reach 2 KiB to both sides of their base, so that a base in the middle serves 4 KiB.

        .target opennpu

        .equ    K, 64

; Bases come from memory; vr4, lane 0, is 0 after reset and addresses them.
        ld.w    vr6, a_middle(vr4)
        ld.w    vr7, b_middle(vr4)

; Two k at a time into one of two groups of registers; the array takes the other group in the meantime. `first` is `mma`
; for the pair that starts the sum, `mma.keep` for the others.
        .macro  fetch k, a0, b0, a1, b1
        ld.vx   \a0, (\k) * K - 2048(vr6)
        ld.vx   \b0, (\k) * K - 2048(vr7)
        ld.vx   \a1, ((\k) + 1) * K - 2048(vr6)
        ld.vx   \b1, ((\k) + 1) * K - 2048(vr7)
        .endm

; Ticks: the first pairs are there at 12, 30 groups of 6 ticks follow, and the last mma issues at 195. The first column may
; be taken 64 ticks after that; it is ready 2 later, at 261, and 64 stores follow 4 ticks apart. Each of the three new
; bases costs 4 more.
        fetch   0, vx0, vx1, vx2, vx3
        fetch   2, vx4, vx5, vx6, vx7
        mma     vx0, vx1
        mma.keep vx2, vx3
        .set    n, 4
        .rept   15
        fetch   n, vx0, vx1, vx2, vx3
        mma.keep vx4, vx5
        mma.keep vx6, vx7
        fetch   n + 2, vx4, vx5, vx6, vx7
        mma.keep vx0, vx1
        mma.keep vx2, vx3
        .set    n, n + 4
        .endr
        mma.keep vx4, vx5
        mma.keep vx6, vx7

; Column after column; C is stored column by column. A base serves 16 columns of 256 bytes.
        .set    block, 0
        .rept   4
        ld.w    vr5, c_middle + 4 * block(vr4)
        .set    n, 0
        .rept   8
        mma.last vr0
        mma.last vr1
        st.vr   vr0, 4 * K * n - 2048(vr5)
        st.vr   vr1, 4 * K * (n + 1) - 2048(vr5)
        .set    n, n + 2
        .endr
        .set    block, block + 1
        .endr

        .data
a_middle:
        .word   a + 2048
b_middle:
        .word   b + 2048
c_middle:
        .word   c + 2048, c + 3 * 2048, c + 5 * 2048, c + 7 * 2048
a:      .set    i, 0                            ; a[k][m], column k of A: (5 k + 3 m) mod 251 - 125
        .rept   K * K
        .byte   (5 * (i / K) + 3 * (i % K)) % 251 - 125
        .set    i, i + 1
        .endr
b:      .set    i, 0                            ; b[k][n], row k of B: (11 k + 7 n) mod 241 - 120
        .rept   K * K
        .byte   (11 * (i / K) + 7 * (i % K)) % 241 - 120
        .set    i, i + 1
        .endr
c:      .zero   4 * K * K                       ; c[n][m]
