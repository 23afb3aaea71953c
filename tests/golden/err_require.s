        .target opennpu
        .require vector.k 8
        .require
        .profile
        .require vector.k == 3 4
        .require vector.k < LATER + 1
        .equ    LATER, 3
