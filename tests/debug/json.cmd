# args: examples/pccx/softmax.s --json
break 5
continue
step
stpe
info registers e_max
info break
x/2 bf16 l2:4
explain 0
why
rcontinue
quit
