; run: -D vector.k=8
        .target opennpu
        ; K = 8: a bank has segments 0 to 7
        nop
        vsetlut.a vr0, 7
        vsetlut.b vr0, 8
