        .target opennpu
        .option proposed
        ; What has bits that nobody looks at, or is no instruction, is data with a reason.
        nop
        .word   0xffffff80, 0x80000014, 0x0a00a014, 0xfff01003, 0x000f8f83, 0x06000010, 0x00006001, 0x02000014, 0x0c000014, 0x08001014, 0x00080010 | 2 << 25
        mma.keep vx31, vx0
        mma.last.keep vr7, vx8, vx9
        vfma.ceil vr2, vr2, vr0, vr1
        vcvt_bf8_f32.rtz.e5m2 vx3, vr1
        vcvt_s8_f32.sat.floor vx3, vr1
        st.w    vr7, -2048(vr7)
        movh    ve15, -128
        movi    vx31, 127
