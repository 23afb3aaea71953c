; SPDX-License-Identifier: Apache-2.0
; Characters that no token begins with; a tab and wide characters before the place.
        .target pccx
        .data
	.byte	1, é
        .ascii  "größe", größe
        .byte   §
