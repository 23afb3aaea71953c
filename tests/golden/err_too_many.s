; SPDX-License-Identifier: Apache-2.0
; After so many errors the rest is not worth reading.
        .target pccx
        .rept   300
        nonsense
        .endr
