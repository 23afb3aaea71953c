# args: examples/pccx/chained.s
# Arguments that the commands reject, and the forms that they accept.
info spaces
info config
info history
info
info break
info registers e_max 2
info program extra
enable
break 2
break 3 if l2:0:bf16 == 1
break cycle 5
break cycle 100000
tbreak end
disable
info break
enable
disable 1
delete 99
delete x
delete 3
ignore 1 x
ignore 1 0
info break
break 1 if l2:0:x > 1
break 1 if l2:zz > 1
break 1 if l2:0 >
break 1 if l2:0 > 1x
break 1 if l2:0:s8 > 0x10
break l2
break chained.s:0
break chained.s:
break :x
break 1+1
watch l2:0:0
watch host:0:99999999999999999999
watch e_max:0 if
step 6
explain
explain 0
explain nowhere
until 7
why
why next
until 2
restart
step 7
disas 0,2
disas 0 2
disas nowhere
disas 0,nowhere
disas 0,
disas 99,100
disas
list
list
list 1
list chained.s:3
list :3
list 0
list 99999999999999
list nothing.s:1
x/4 l2:0
x/0 l2:0
x/4 l2:0 extra
x/2 x l2:0
x/2 l2:0:s8
x host:0:s8
set l2:0:bf16 = 1 2
set l2:0 =1
set l2:0:x = 1
set
print e_max
print
display
display e_max
display l2:0:bf16
undisplay 9
undisplay
back 1 2
back x
back 99
next 2
next x
restart
continue 1
where 1
continue
continue
rcontinue
trace
trace x
trace on
trace off 1
trace on a b c
source
source tests/debug
nothing
info pending x
i
s
