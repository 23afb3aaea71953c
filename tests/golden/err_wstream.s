; SPDX-License-Identifier: Apache-2.0
; Stream descriptors.
        .target pccx
        wstream
        wstream sfu, 0, 16
        wstream gemv
        wstream gemv, 0
        wstream gemv, -16, 16
        wstream gemv, 0, 1.5
        wstream gemm, nowhere, 16
        wstream gemv, 0, 16, 32
