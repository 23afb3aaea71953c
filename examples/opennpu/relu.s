; SPDX-License-Identifier: Apache-2.0
; ReLU: y = max(x, 0), 8 lanes of INT8.
;
; Two ticks, the first of which sets the zero to compare with. All registers are zero after reset, so vx1 would not need
; it here; a program that has used vx1 needs the broadcast.

        .target opennpu
        .profile test

;                                               issue -> ready
        ld.vx   vx0, x(vr7)                     ; 0 -> 4    vr7 lane 0 is 0 after reset: addresses from 0
        .rept   2
        nop                                     ; 1, 2      keep the two ticks of the sequence together
        .endr
        bcast.imm vx1, 0                        ; 3 -> 4
        vmax    vx2, vx0, vx1                   ; 4 -> 5
        st.vx   vx2, y(vr7)                     ; 5 -> 6

        .data
x:      .byte   -128, -64, -1, 0, 1, 2, 64, 127
y:      .zero   8
