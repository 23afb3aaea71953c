# args: tests/debug/fault.s
break fault
tbreak copy
continue
x emax:0
list
disas copy,copy+1
continue
info break
step
why
back
step 5
explain
set const:0 = 4 1 1
continue
