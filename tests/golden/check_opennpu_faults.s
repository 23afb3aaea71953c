        .target opennpu
        ; Words that are no instructions are told to the end; what the others would do is not known after the first.
        vadd    vx2, vx2, vx2
        .word   0x00000004      ; reserved opcode
        .word   0x000f8010      ; vadd vx0, vx31, vx0
        .word   0x040f8010      ; vadd vr0, vr31, vr0
        vadd    vx3, vx4, vx4
