        .target opennpu
        ; source format 7
        nop
        .word   0x0e000014
