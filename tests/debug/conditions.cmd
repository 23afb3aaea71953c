# args: examples/opennpu/relu.s
# Every comparison of a condition, at an instruction that the condition lets pass or stops; the data are zero at the start.
break 1 if vx:0:s8 < 0
break 1 if vx:0:s8 <= 0
break 1 if vx:0:s8 > 0
break 1 if vx:0:s8 >= 0
break 1 if vx:0:s8 == 0
break 1 if vx:0:s8 != 0
break 1 if vx:0:f32 >= 1.5
break 1 if vx:0:s8 =! 0
break 1 if vx:0:s8 ==
break 1 if vx:0:s8 == 1 2
break 1 if vx:99999:s8 == 1
set vx:0:s8 = 0
run
info break
delete
break cycle 2
break cycle 2
tbreak cycle 3
disable 8
continue
continue
info break
delete
watch vx:0
watch vx:0:1 if vx:0:s8 == 100
awatch vx:0:9999
awatch vx:99999
run
info break
disable
continue
delete
break nosuch+1
break relu.s:11
break examples/pccx/relu.s:11
break other.s:11
break elu.s:11
tbreak relu.s:13
run
continue
restart
print 1.5 + 1 == 2.5
print 3.5 - 1.5 != 2.0
print 1.5 < 2 && 2.5 <= 2.5
print 1.5 > 2 || 2.5 >= 3
print 1.5 | 1
print 1.5 ^ 1
print 1.5 << 1
print 1.5 >> 1
print 1.5 % 1
print 1e3 + 1e-3
print 6 ^ 3
print 6 & 3
print 1 == 1.0
print 5 <= 4
print 5 >= 4
print 1 << 64
print -1 >> 1
print 1 >> 64
print -9223372036854775807 / -1
print 5 % -1
print 5 % 0
print ~1.5
print +5
print !1.5
print -1.5
print vx0[
print vx0[0
print vx0[-1]
print 1x
print 0x
print 0xg
print 12345678901234567890123
print @
print .5
print 1 || 0 && 0
print 2 < 1 || 3 > 2
explain 0
info registers
info nothing
