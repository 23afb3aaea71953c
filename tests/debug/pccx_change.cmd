# args: examples/pccx/softmax.s
# Writes from outside are repeated after going back, and undone by going back before them.
tbreak examples/pccx/softmax.s:38
run
x/4 l2:4
set l2:4:bf16 = 1 -2.5, 0
x/4 l2:4
step
back
x/4 l2:4
back
step
x/4 l2:4
set const:0 = 1
set host:p:s8 = 128
set host:p:s8 = x
set nowhere:0 = 1
set l2:0
break :40 if l2:8:bf16 > 2
break :41 if l2:8:bf16 > 100
continue
continue
info break
disable 2
run
enable 2
run
