; SPDX-License-Identifier: Apache-2.0
; Files that are not there, and an error inside one that is.
        .target pccx
        .include "no_such_file.inc"
        .include no_quotes
        .include "inc/broken.inc"
        .data
        .incbin "no_such_file.bin"
        .incbin "inc/bytes.bin", 7
        .incbin "inc/bytes.bin", 2, 5
        .incbin "inc/bytes.bin", -1
