" SPDX-License-Identifier: Apache-2.0
" Vim syntax file of Trivet assembly (pccx, opennpu). Made by tools/editors.py from the instruction sets.
if exists("b:current_syntax")
  finish
endif
syn case match

" A later match wins where two begin at the same place.
syn match trivetOperator "\v\<\<|\>\>|[<>=!]\=|\&\&|\|\||[-+*/%~!&^|?:<>=]"
syn match trivetSymbol "\v[A-Za-z_.$][0-9A-Za-z_.$]*"
syn match trivetNumber "\v[0-9A-Za-z_.$]@1<!%(0[xX][0-9A-Fa-f_]+|0[bB][01_]+|0[oO][0-7_]+|%([0-9][0-9_]*%(\.[0-9][0-9_]*)?|\.[0-9][0-9_]*)%([eE][+-]?[0-9]+)?)[0-9A-Za-z_.$]@!"
syn match trivetFlag "\v[0-9A-Za-z_.$]@1<!%(recip_scale|findemax|sub_emax|w_scale|async|accm)[0-9A-Za-z_.$]@!"
syn match trivetOperand "\v[0-9A-Za-z_.$]@1<!%(fifo)[0-9A-Za-z_.$]@!"
syn match trivetKeyword "\v[0-9A-Za-z_.$]@1<!%(lanes|shape|size|len)%(\s*\=\=@!)@="
syn match trivetSpace "\v[0-9A-Za-z_.$]@1<!%(weight_shape|fmap_shape|host|l2)%(\s*\[)@="
syn match trivetRegister "\v[0-9A-Za-z_.$]@1<!%(ve%(15|14|13|12|11|10|9|8|7|6|5|4|3|2|1|0)|vr%(7|6|5|4|3|2|1|0)|vx%(31|30|29|28|27|26|25|24|23|22|21|20|19|18|17|16|15|14|13|12|11|10|9|8|7|6|5|4|3|2|1|0))[0-9A-Za-z_.$]@!"
syn match trivetMnemonic "\v[0-9A-Za-z_.$]@1<!%(cvo\.reduce_sum|mma\.last\.keep|vcvt_bf16_f32|vcvt_f32_bf16|vcvt_bf8_f32|vcvt_f32_bf8|vcvt_f32_s32|vcvt_s16_s32|vcvt_s32_f32|vcvt_s32_s16|vcvt_f32_s8|vcvt_s32_s8|vcvt_s8_f32|vcvt_s8_s32|bcast\.imm|bcast\.reg|cvo\.recip|cvo\.scale|mma\.reset|vsetlut\.a|vsetlut\.b|cvo\.gelu|cvo\.sqrt|mma\.last|cvo\.cos|cvo\.exp|cvo\.sin|memcpy|memset|vlut\.a|vlut\.b|ld\.ve|ld\.vr|ld\.vx|st\.ve|st\.vr|st\.vx|vfabs|vfadd|vfmax|vfmin|vfmul|vfneg|vfsub|vnfma|vnfms|vrand|vrmax|vrmin|vrsub|vrxor|gemm|gemv|ld\.b|ld\.h|ld\.w|movh|movi|st\.b|st\.h|st\.w|vabs|vadd|vand|vfma|vfms|vmax|vmin|vmul|vneg|vnot|vrol|vror|vsll|vsra|vsrl|vsub|vsum|vxor|mma|mov|nop|vor)%(\.%(floor|ceil|e5m2|keep|rtz|sat))*[0-9A-Za-z_.$]@!"
syn match trivetFunction "\v[0-9A-Za-z_.$]@1<!%(float|floor|round|bf16|ceil|sqrt|tanh|abs|cos|erf|exp|f16|f32|int|log|max|min|pow|sin)%(\s*\()@="
syn match trivetDirective "\v[0-9A-Za-z_.$]@1<!%(\.include|\.profile|\.require|\.section|\.warning|\.balign|\.elseif|\.global|\.ifndef|\.incbin|\.option|\.target|\.word64|\.ascii|\.asciz|\.endif|\.error|\.globl|\.ifdef|\.macro|\.space|\.bf16|\.byte|\.data|\.else|\.endm|\.endr|\.fill|\.half|\.int4|\.int8|\.rept|\.text|\.word|\.zero|\.equ|\.f16|\.f32|\.org|\.set|\.if|wstream)[0-9A-Za-z_.$]@!"
syn match trivetStream "\v%(<%(wstream)\s+)@<=%(gemm|gemv)[0-9A-Za-z_.$]@!"
syn match trivetTarget "\v%(\.target\s+)@<=%(pccx|opennpu)[0-9A-Za-z_.$]@!"
syn match trivetLabel "\v%(^|:)@<=\s*[A-Za-z_.$][0-9A-Za-z_.$]*%(\s*:)@="
syn match trivetMacro "\v%(\.macro\s+)@<=[A-Za-z_.$][0-9A-Za-z_.$]*"
syn match trivetParameter "\v\\%([A-Za-z_][0-9A-Za-z_]*|\@|\(\))"
syn match trivetCharacter "\v'%(\\.|[^'\\])'"
syn region trivetString start=+"+ skip=+\\.+ end=+"+ oneline
syn match trivetComment "\v%(;|#|//).*$" contains=@Spell

hi def link trivetOperator Operator
hi def link trivetSymbol Identifier
hi def link trivetNumber Number
hi def link trivetFlag StorageClass
hi def link trivetOperand Constant
hi def link trivetKeyword Label
hi def link trivetSpace Type
hi def link trivetRegister Special
hi def link trivetMnemonic Statement
hi def link trivetFunction Function
hi def link trivetDirective PreProc
hi def link trivetStream Constant
hi def link trivetTarget Constant
hi def link trivetLabel Label
hi def link trivetMacro Function
hi def link trivetParameter Macro
hi def link trivetCharacter Character
hi def link trivetString String
hi def link trivetComment Comment

let b:current_syntax = "trivet"
