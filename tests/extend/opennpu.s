; SPDX-License-Identifier: Apache-2.0
; The instruction that opennpu.patch adds: (a + b + 1) >> 1, exact before the shift, at each width.
        .target opennpu

        ld.vx   vx0, a8(vr7)
        ld.vx   vx1, b8(vr7)
        vavg    vx2, vx0, vx1
        ld.ve   ve2, a16(vr7)
        ld.ve   ve3, b16(vr7)
        vavg    ve4, ve2, ve3
        ld.vr   vr3, a32(vr7)
        ld.vr   vr4, b32(vr7)
        vavg    vr5, vr3, vr4

        .data
a8:     .byte   127, 127, -128, -128, -1, 0, 5, -5
b8:     .byte   127, 126, -128, -127, 0, 1, 8, -8
a16:    .half   32767, 32767, -32768, -32768, 1, -1, 300, -300
b16:    .half   32767, 32766, -32768, 32767, 0, -2, 301, -301
a32:    .word   2147483647, 2147483647, -2147483648, -2147483648, 1, -1, 100000, -100000
b32:    .word   2147483647, 2147483646, -2147483648, 2147483647, 0, -2, 100001, -100001
