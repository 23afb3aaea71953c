// SPDX-License-Identifier: Apache-2.0
// The model for benches in SystemVerilog, over DPI-C: the functions of lockstep.h.
package lockstep_pkg;
    import "DPI-C" function chandle lockstep_new(input string target, input int unsigned seed);
    import "DPI-C" function void lockstep_next(input chandle l, output int unsigned kind, output int unsigned addr,
                                               output bit [127:0] data);
    import "DPI-C" function void lockstep_event(input chandle l, input int unsigned kind, input int unsigned addr,
                                                input bit [127:0] data);
    import "DPI-C" function void lockstep_write(input chandle l, input int unsigned space, input int unsigned addr,
                                                input bit [127:0] data, input int unsigned mask);
    import "DPI-C" function void lockstep_value(input chandle l, input int unsigned kind, input int unsigned element,
                                                input int unsigned bits);
    import "DPI-C" function int lockstep_retire(input chandle l, input int unsigned fault);
    import "DPI-C" function int lockstep_hang(input chandle l, input int unsigned cycles);
    import "DPI-C" function int lockstep_finish(input chandle l);

    typedef enum int unsigned {LOAD = 1, STREAM = 2, INSTRUCTION = 3} event_kind;

    chandle model;   // of the bench, which creates it before the first instruction
    bit     failed;  // a mismatch was reported
endpackage
