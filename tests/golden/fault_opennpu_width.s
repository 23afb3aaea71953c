        .target opennpu
        ; width 3
        nop
        .word   0x06000010
