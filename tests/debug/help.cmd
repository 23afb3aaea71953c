# args: examples/pccx/softmax.s
help
help x
quit
step
