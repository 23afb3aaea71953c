; SPDX-License-Identifier: Apache-2.0
; Clamp to a range: y = max(min(x, HIGH), LOW), 8 lanes of INT8. Two ticks.

        .target opennpu
        .profile test

        .equ    LOW, -20
        .equ    HIGH, 50

;                                               issue -> ready
        ld.vx   vx0, x(vr7)                     ; 0 -> 4
        bcast.imm vx1, HIGH                     ; 1 -> 2    the bounds: hidden by the latency of the load
        bcast.imm vx2, LOW                      ; 2 -> 3
        vmin    vx3, vx0, vx1                   ; 4 -> 5
        vmax    vx3, vx3, vx2                   ; 5 -> 6
        st.vx   vx3, y(vr7)                     ; 6 -> 7

        .data
x:      .byte   -128, -21, -20, 0, 49, 50, 51, 127
y:      .zero   8
