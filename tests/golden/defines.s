; SPDX-License-Identifier: Apache-2.0
; Constants from the command line: -d NAME is 1.
; asm: -d width=2+3 -d flag
        .target pccx
        memset  fmap_shape[0], width, 1, 1
        memset  fmap_shape[1], flag, 1, 1
