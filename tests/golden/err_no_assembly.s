        .target cmdq
        nop
