# args: examples/cmdq/prefetch.json
info program
step 3
why
explain
info registers
info pending
info queues
info hazards
rwatch spm:2:0x10:16
x/8 spm:3:0
continue
x/8 spm:3:0
back 4
delete
break opcode TE_GEMM_TILE if dram:0x4000:s8 != 0
continue
why next
info engines
delete
break cycle 60
continue
rcontinue
disas 0,4
until 19
continue
