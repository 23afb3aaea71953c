# args: examples/pccx/softmax.s
step 4
print e_max
print e_max + 1
print l2:4
print l2:0:bf16[1] * 2
print fmap_shape
print fmap_shape + 1
print fifo_to_sfu
