// SPDX-License-Identifier: Apache-2.0
// Reports what a design commits to lockstep_pkg::model, which compares it at the end of each instruction. It changes
// nothing in the design, to which a bench binds it:
//
//     bind pccx_core retire_monitor monitor (.*);
//
// A design without inner values ties value_valid to 0. Signals are read at the falling edge, when they are those of the
// whole cycle.
module retire_monitor
    import lockstep_pkg::*;
#(
    parameter int unsigned CYCLES_MAX = 50000  // an instruction that takes longer hangs
) (
    input logic         clk,
    input logic         instr_valid,
    input logic         write_valid,
    input logic [2:0]   write_space,
    input logic [31:0]  write_addr,
    input logic [127:0] write_data,
    input logic [15:0]  write_mask,
    input logic         value_valid,
    input logic [1:0]   value_kind,
    input logic [15:0]  value_element,
    input logic [31:0]  value,
    input logic         retire_valid,
    input logic [7:0]   retire_fault
);
    bit          started, running;
    int unsigned cycles;

    /* verilator lint_off BLKSEQ */
    always @(negedge clk) begin
        if (instr_valid) begin
            started = 1;
            running = 1;
            cycles = 0;
        end
        if (started && !failed) begin  // writes between instructions are late ones
            cycles = cycles + 1;
            if (write_valid)
                lockstep_write(model, 32'(write_space), write_addr, write_data, 32'(write_mask));
            if (value_valid)
                lockstep_value(model, 32'(value_kind), 32'(value_element), value);
            if (retire_valid) begin
                running = 0;
                failed = lockstep_retire(model, 32'(retire_fault)) != 0;
            end else if (running && cycles == CYCLES_MAX) begin
                running = 0;
                failed = lockstep_hang(model, cycles) != 0;
            end
        end
    end
endmodule
