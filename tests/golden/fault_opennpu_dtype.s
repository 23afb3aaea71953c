        .target opennpu
        ; dtype 3 in REDUCE
        nop
        .word   0xc0000012
