; SPDX-License-Identifier: Apache-2.0
; .include looks beside the including file, then in the folders of -I; a file may be included twice.
; asm: -I inc/lib
; run: -I inc/lib
        .target pccx
        memset  fmap_shape[0], 1, 1, 1
        .include "inc/outer.inc"
        .include "inc/outer.inc"
        .include "three.inc"
