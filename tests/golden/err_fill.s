; SPDX-License-Identifier: Apache-2.0
        .target opennpu
        .fill   1
        .data
here:   .fill   -1
        .fill   1, 9
        .fill   1, 2, 65536
        .fill   1, 1, -129
        .space  1, 256
        .space  -4
        .long   1
        .float  1.0
        .flil   1
        .zero   1, 2
        .text
        vad.sat vx1, vx1, vx2
        ld.vx vx1, here(r1)
        ld.vx vx1, there(r1)
        vadd    vx1, vx1, here(2)
        .set    n, here(2)
        .set    n, sqtr(2)
