        .target opennpu
        ; addresses are modulo 2^32: -1 is the last byte of 4 GiB
        nop
        st.b    vx4, -1(vr0)
