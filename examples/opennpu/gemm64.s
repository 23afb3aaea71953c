; SPDX-License-Identifier: Apache-2.0
; C = A B with M = 256, K = 64, N = 64, INT8 to INT32: the 256 rows of A stream through the 64 x 64 array, 64 at a time.
;
; Per block of 64 rows: 64 outer products, then 64 columns. The ticks of the port and the array:
;
;   multiply   3 ticks per k: two loads and an mma, one issue per tick. The first 4 k of a block are already in
;              registers: 4 + 60 * 3 = 184.
;   wait       the first column is available 64 ticks after the last mma. The port has nothing to store yet, so the loads
;              of the next block's first 4 k are free here. The registers would hold 6; 4 divides 64.
;   drain      64 columns of 256 bytes, 4 ticks of the port each: 256. The port has no tick for loads here, and there is
;              one ACC, so the next block's first mma waits for the last column.

        .target opennpu
        .profile top

        .equ    M, 256
        .equ    K, 64                           ; also N, and the lanes
        .equ    BLOCKS, M / K
        .equ    DEPTH, 4                        ; loads run this many k ahead of the array

; vr0: a drained column. vr1, vr2, which are vx4..vx11: two groups of two operand pairs; the array uses one while the
; other is loaded. Bases: vr5 of A, vr6 of B, vr7 of C, each centered in the 4 KiB that it addresses.
; vr4: 4096 in every lane, to advance a base. Before the first column vr0 is 0 from reset, a base for `bases`.
        ld.w    vr5, bases(vr0)
        ld.w    vr6, bases + 4(vr0)
        ld.w    vr7, bases + 8(vr0)
        bcast.imm vx17, 4096 >> 8               ; the second byte of vr4; the others are 0 after reset

; Column k of the block of A, and row k of B.
        .macro  fetch k, a, b
        ld.vx   \a, (\k) * K - 2048(vr5)
        ld.vx   \b, (\k) * K - 2048(vr6)
        .endm

        .macro  fetch_low k
        fetch   \k, vx4, vx5
        fetch   \k + 1, vx6, vx7
        .endm

        .macro  fetch_high k
        fetch   \k, vx8, vx9
        fetch   \k + 1, vx10, vx11
        .endm

        .macro  multiply_low
        mma.keep vx4, vx5
        mma.keep vx6, vx7
        .endm

        .macro  multiply_high
        mma.keep vx8, vx9
        mma.keep vx10, vx11
        .endm

; The operands of the first DEPTH k.
        .macro  start
        fetch_low 0
        fetch_high 2
        .endm

; ACC = the sum over all k. The reset uses a tick in which the port still executes the last store of the previous block.
        .macro  multiply
        mma.reset
        .set    k, DEPTH
        .rept   K / DEPTH - 1
        multiply_low
        fetch_low k
        multiply_high
        fetch_high k + 2
        .set    k, k + DEPTH
        .endr
        multiply_low
        multiply_high
        .endm

; Drain the columns. One register is enough: a store reads it before the next column arrives. A base addresses 16
; columns; it is advanced while the previous store executes.
        .macro  drain
        .rept   4
        vadd    vr7, vr7, vr4
        .set    n, 0
        .rept   16
        mma.last vr0
        st.vr   vr0, 4 * K * n - 2048(vr7)
        .set    n, n + 1
        .endr
        .endr
        .endm

; The first loads issue at 4 to 11. A block: mma.reset at t = 12, the last mma at t + 184, the first column at t + 248, its
; store 2 ticks later, the last store 63 * 4 ticks after that, at t + 502. The next block begins in the tick after it.
        start
        .set    block, 0
        .rept   BLOCKS
        multiply
        .set    block, block + 1
        .if     block < BLOCKS
        vadd    vr5, vr5, vr4
        start
        .endif
        drain
        .endr

        .data
bases:  .word   a + 2048, b + 2048, c - 2048    ; that of C is advanced before its first use
a:      .set    i, 0                            ; a[block][k][m]: column k of 64 rows. A[m][k] = (5 k + 3 m) mod 251 - 125
        .rept   M * K
        .byte   (5 * (i / K % K) + 3 * (i % K + i / (K * K) * K)) % 251 - 125
        .set    i, i + 1
        .endr
b:      .set    i, 0                            ; b[k][n]: row k of B, (11 k + 7 n) mod 241 - 120
        .rept   K * K
        .byte   (11 * (i / K) + 7 * (i % K)) % 241 - 120
        .set    i, i + 1
        .endr
c:      .zero   4 * M * K                       ; c[block][n][m]: column n of 64 rows
