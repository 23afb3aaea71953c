# args: examples/opennpu/relu.s
step 1
print vx0
print vx0[0]
print vx0[0] + vx0[7]
print ve0
print vx:0:s8
print vx:0[2]
print vx:0:16:u8
print column
print column + 2 * (3 - 1)
print 0x10
print 7 / 2
print 7 / 2.0
print -7 % 4
print 1 << 4 | 1
print !0 && 2 >= 1.5
print ~0
print vx0[64]
print vx0[1.5]
print vx
print lut_a + 1
print vx0 +
print (1
print 1 / 0
print 1.5 & 1
print nothing + 1
print 1 ? 2
print vx99
display vx1[0] + 1
display column
display vx1
display
display nothing
step
undisplay 2
undisplay 2
undisplay x
back
undisplay
step
break 3
tbreak 3
awatch vx:1
watch vx:1
continue
info break
continue
rcontinue
