# args: examples/pccx/softmax.s --functional
step 7
x/4 l2:9
back
break cycle 5
why
trace on x.json
continue
