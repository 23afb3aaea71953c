        .target opennpu
        ; LUT has no operation 2
        nop
        .word   0x00002013
