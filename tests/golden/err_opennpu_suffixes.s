        .target opennpu
        vmax.sat vx1, vx2, vx3
        vadd.sat.sat vx1, vx2, vx3
        vfma.rtz.floor vr0, vr1, vr2, vr3
        vadd.   vx1, vx2, vx3
        vadd.sta vx1, vx2, vx3
        mma.lst vr0
        mma.last.keep.keep vr0, vx1, vx2
        vcvt_f32_s8.sat vr0, vx4
        nop.sat
        .sat    vx0
