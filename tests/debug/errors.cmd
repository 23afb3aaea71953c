# args: examples/pccx/softmax.s
stpe
step x
step 1 2
break
break nowhere
break 99
break softmax.s:1000
break opcode nothing
break cycle soon
break 2 if what
break 2 if l2:0 = 1
watch l2
watch l2:9999999
watch l3:0
watch l2:0:x
delete 7
enable x
info nothing
info registers nothing
x
x/y l2:0
x/1 b16 l2:0
x l2:0:9999999999
print nothing
list x
list nothing.s:3
list 9999
disas 5,2
why
why not
explain 99
trace
trace off
trace on -
source /no/such/file
until nowhere
help nothing
back
rcontinue
help break
# a comment

quit now
