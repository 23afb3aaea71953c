; SPDX-License-Identifier: Apache-2.0
; Values of 16 bits, pointers of 6 bits, addresses of 17 bits and rows of weights that a driver masked, each beside a
; program that means what it says.
        .target pccx
        memset  fmap_shape[0], 275, 256, 1      ; 70400 = 65536 + 4864 elements in 8800 words
        memset  fmap_shape[1], 4864, 1, 1       ; 608 words
        memset  fmap_shape[2], 8, 1, 1
        memcpy  l2[0], host[0], shape=0
        memcpy  host[0x200000], l2[0], shape=1  ; the vector is 70400 long

        memcpy  l2[0x4000], host[0x10_0000], shape=0
        memcpy  host[0x300000], l2[0x4000], shape=1     ; a part, because …
        cvo.exp l2[0x4000], l2[0x4260], len=65528       ; … the rest is read from its beginning on

        memset  fmap_shape[3], 4864, 1, 1
        memset  weight_shape[0], 1, 8, 4864
        memset  weight_shape[1], 275, 8, 256
        memcpy  l2[0xa000], host[0x20_0000], shape=3    ; 275 * 256 elements are read
        wstream gemm, 0, 1024
        gemm    l2[0x1_0000], l2[0xa000], size=63, shape=1

        wstream gemv, 0, 160 + 1048576          ; 10 rows of 16 bytes and 65536 more
        memset  weight_shape[2], 1, 10, 32
        gemv    l2[0x1_1000], l2[0xa000], size=63, shape=2

        memcpy  l2[0x14010], host[0], shape=2   ; addresses with a distance of 0x5000
        memcpy  l2[0x19010], host[0x8_0000], shape=2
        memcpy  l2[0x1e010], host[0x10_0000], shape=2
        memcpy  l2[0x03010], host[0x18_0000], shape=2   ; 0x23010
        memcpy  l2[0x08010], host[0x00_0000], shape=2   ; of the host 0x20_0000, but it may be a ring

        memcpy  l2[0x14010], host[0x08_0000], shape=1   ; the host's with a distance of 0x8_0000
        memcpy  l2[0x14020], host[0x10_0000], shape=1
        memcpy  l2[0x14040], host[0x18_0000], shape=1
        memcpy  l2[0x14080], host[0x00_0000], shape=1   ; 0x20_0000

; 66 entries from 0 on: 64 and 65 are 0 and 1; entry 1 was used before
        memset  weight_shape[0], 1, 100, 32
        memset  weight_shape[1], 1, 101, 32
        memset  weight_shape[2], 1, 102, 32
        memset  weight_shape[3], 1, 103, 32
        memset  weight_shape[4], 1, 104, 32
        memset  weight_shape[5], 1, 105, 32
        memset  weight_shape[6], 1, 106, 32
        memset  weight_shape[7], 1, 107, 32
        memset  weight_shape[8], 1, 108, 32
        memset  weight_shape[9], 1, 109, 32
        memset  weight_shape[10], 1, 110, 32
        memset  weight_shape[11], 1, 111, 32
        memset  weight_shape[12], 1, 112, 32
        memset  weight_shape[13], 1, 113, 32
        memset  weight_shape[14], 1, 114, 32
        memset  weight_shape[15], 1, 115, 32
        memset  weight_shape[16], 1, 116, 32
        memset  weight_shape[17], 1, 117, 32
        memset  weight_shape[18], 1, 118, 32
        memset  weight_shape[19], 1, 119, 32
        memset  weight_shape[20], 1, 120, 32
        memset  weight_shape[21], 1, 121, 32
        memset  weight_shape[22], 1, 122, 32
        memset  weight_shape[23], 1, 123, 32
        memset  weight_shape[24], 1, 124, 32
        memset  weight_shape[25], 1, 125, 32
        memset  weight_shape[26], 1, 126, 32
        memset  weight_shape[27], 1, 127, 32
        memset  weight_shape[28], 1, 128, 32
        memset  weight_shape[29], 1, 129, 32
        memset  weight_shape[30], 1, 130, 32
        memset  weight_shape[31], 1, 131, 32
        memset  weight_shape[32], 1, 132, 32
        memset  weight_shape[33], 1, 133, 32
        memset  weight_shape[34], 1, 134, 32
        memset  weight_shape[35], 1, 135, 32
        memset  weight_shape[36], 1, 136, 32
        memset  weight_shape[37], 1, 137, 32
        memset  weight_shape[38], 1, 138, 32
        memset  weight_shape[39], 1, 139, 32
        memset  weight_shape[40], 1, 140, 32
        memset  weight_shape[41], 1, 141, 32
        memset  weight_shape[42], 1, 142, 32
        memset  weight_shape[43], 1, 143, 32
        memset  weight_shape[44], 1, 144, 32
        memset  weight_shape[45], 1, 145, 32
        memset  weight_shape[46], 1, 146, 32
        memset  weight_shape[47], 1, 147, 32
        memset  weight_shape[48], 1, 148, 32
        memset  weight_shape[49], 1, 149, 32
        memset  weight_shape[50], 1, 150, 32
        memset  weight_shape[51], 1, 151, 32
        memset  weight_shape[52], 1, 152, 32
        memset  weight_shape[53], 1, 153, 32
        memset  weight_shape[54], 1, 154, 32
        memset  weight_shape[55], 1, 155, 32
        memset  weight_shape[56], 1, 156, 32
        memset  weight_shape[57], 1, 157, 32
        memset  weight_shape[58], 1, 158, 32
        memset  weight_shape[59], 1, 159, 32
        memset  weight_shape[60], 1, 160, 32
        memset  weight_shape[61], 1, 161, 32
        memset  weight_shape[62], 1, 162, 32
        memset  weight_shape[63], 1, 163, 32
        wstream gemm, 0, 1616
        gemm    l2[0], l2[0x14000], size=63, shape=1
        memset  weight_shape[0], 1, 164, 32       ; 64
        memset  weight_shape[1], 1, 165, 32
