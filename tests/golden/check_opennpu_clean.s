        .target opennpu
        .option proposed
        ; A base register counts by lane 0 and may be written by its planes; drains and parts of a register are of use.
        bcast.imm vx0, 1
        bcast.imm vx1, 0
        bcast.imm vx2, 0
        bcast.imm vx3, 0
        ld.vx   vx4, 16(vr0)
        ld.b    vx4, 17(vr0)
        movi    vx4, -1
        mma.reset
        mma.keep vx4, vx0
        mma.last vr2
        mma.last vr2
        mma.last.keep vr3, vx4, vx0
        vsetlut.a vr2, 0
        vlut.a  vx5, vx4
        st.vx   vx5, 0(vr0)
        st.vr   vr3, 0(vr0)
        nop
