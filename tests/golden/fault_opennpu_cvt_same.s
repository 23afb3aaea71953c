        .target opennpu
        ; s16 to s16
        nop
        .word   0x02001014
