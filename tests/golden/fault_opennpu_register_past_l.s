; run: -D vector.l=8
        .target opennpu
        ; with L = 8 the last VR is vr1
        nop
        bcast.imm vx0, 1
        vadd    vr1, vr0, vr2
