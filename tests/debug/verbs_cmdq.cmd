# args: examples/cmdq/ffn.json --timing-only --snapshot-memory 1Ki
info config
step
explain
explain 1
explain 2
explain 99
why next
disas
disas
list
list 3
break opcode dma_store_tile
run
info break
delete
continue
why
back 3
restart
