# args: --json examples/opennpu/relu.s
print vx0
print vx0[0] + 1
print 1 / 2.0
print vx0 +
display vx1[0]
break 2
awatch vx:0
continue
