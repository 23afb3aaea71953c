        .target opennpu
        ; VE has 16 registers: rs2 = 16
        nop
        .word   0x03000010
