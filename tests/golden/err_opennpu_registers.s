        .target opennpu
        vadd    vx1, ve2, vx3           ; the classes differ
        vadd    vx32, vx0, vx0
        vadd    ve16, ve0, ve0
        vadd    vr8, vr0, vr0
        vfadd   vx0, vr1, vr2
        vcvt_s8_f32 vr0, vr1
        ld.vx   vx0, vr1
        ld.vx   vx0, 0(vx1)
        ld.vx   vx0, 2048(vr1)
        ld.vx   vx0, -2049(vr1)
        vadd    vx0, vx1
        vadd    vx0, vx1, vx2, vx3
        vadd    vx0, vx1, 5
        vlut.a  vx0, r1
        mma     vx0
        bcast.imm vx0, vx1
        st.b    0(vr1), vx0
