# args: examples/pccx/softmax.s
# What this program does and when is in its comments: cycles from issue to end.
info program
break opcode cvo.exp
info break
step
step 3
why
continue
explain
why next
info registers
info streams
info queues
info pending
info hazards
info engines
list
disas
disas
back 2
print X
print p
x/8 host:x
rcontinue
delete
awatch l2:8:16
continue
continue
continue
rcontinue
rc
rc
restart
until 8
x/16 bf16 l2:9
x l2:8:1:bf16
next
continue
why
back
step
where
