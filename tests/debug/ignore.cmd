# args: examples/cmdq/prefetch.json
# Hits that pass without a stop; going back stops at each.
break opcode TE_GEMM_TILE
ignore 1 2
continue
info break
continue
rcontinue
rcontinue
restart
continue
watch spm:3:0
ignore 2 1
continue
info break
ignore 9 1
ignore 1
ignore one 1
set spm:3:0=7
set spm:3:1:s8= 8 9
set spm:3:0
set spm:3:0=
x/4 spm:3:0
