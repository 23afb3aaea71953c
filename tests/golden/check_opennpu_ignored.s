        .target opennpu
        ; The operands of the published assembler: rd of mma, multiplicands of mma.last, types of FP instructions.
        .equ    K, 2
        bcast.imm vx0, 3
        bcast.imm vx8, 4
        mma     vr2, vx0, vx8
        mma.last vr2, vx0, vx8
        mma.last vr3
        vfadd   vr1, vr2, vr3, width=2, dtype=1
        st.vr   vr1, 0(vr7)
