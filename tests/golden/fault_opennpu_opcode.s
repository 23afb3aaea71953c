        .target opennpu
        ; reserved opcode
        nop
        .word   0x00000019
