        .target opennpu
        ; there is no bf16 to s8
        nop
        .word   0x08000014
