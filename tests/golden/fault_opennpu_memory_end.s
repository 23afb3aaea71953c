; run: -D vector.k=8 -D mem.bytes=4096
        .target opennpu
        ; A load of K bytes may begin K bytes before the end: mem.bytes = 4096, K = 8
        bcast.imm vx0, 4088 & 255
        bcast.imm vx1, 4088 >> 8
        ld.vx   vx4, 0(vr0)
        ld.b    vx4, 7(vr0)
        ld.ve   ve4, 0(vr0)
