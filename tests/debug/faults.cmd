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
where
why next
where
back
why next
step
why next
where
step 5
explain
set const:0 = 4 1 1
where
continue
