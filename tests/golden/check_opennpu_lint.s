        .target opennpu
        ; ACC, registers, segments of the LUT banks: read unwritten, overwritten unread; a segment past the bank
        mma.keep vx0, vx1
        bcast.imm vx0, 300
        bcast.imm vx0, 2
        vsetlut.a vr1, 0
        vsetlut.a vr1, 0
        vlut.a vx5, vx0
        ld.vx vx6, 0(vr3)
        movi vx5, 3
        mma vx0, vx1
        mma.reset
        mma.last vr4
        nop
        vsetlut.b vr1, 5

