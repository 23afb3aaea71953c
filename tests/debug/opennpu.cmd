# args: examples/opennpu/softmax.s -c test
step 5
why
explain
info registers
info pending
info queues
info hazards
watch vx:13
info break
continue
explain
back
continue
rcontinue
delete
break cycle 40
continue
back 3
why next
x/4 vr:1
x/4 s8 vx:4
disas 0,3
info engines
continue
continue
rcontinue
