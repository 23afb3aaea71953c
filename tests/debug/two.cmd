# args: examples/pccx/softmax.s examples/pccx/chained.s
# One program after another on the same machine; back goes over the border.
step 9
step
where
info program
back
step 3
back 4
x/2 bf16 l2:0xc
continue
restart
step 10
why
back 1
why next
