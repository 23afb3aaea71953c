        .target opennpu
        ; a segment before the bank
        nop
        vsetlut.a vr0, -1
