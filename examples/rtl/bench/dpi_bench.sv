// SPDX-License-Identifier: Apache-2.0
// A design in lockstep with the model, which is called over DPI-C: +count=N, +seed=N. DESIGN is the module of the design,
// TARGET the name of the machine, INSTR_BITS the width of its words. The bench drives the design; the monitor that is
// bound to it compares.
module dpi_bench
    import lockstep_pkg::*;
(
    input logic clk
);
    int unsigned  kind, addr, next_kind, next_addr, left, seed;
    bit [127:0]   data, next_data;
    logic         rst, running, retire_valid, instr_ready, write_valid;
    logic [2:0]   write_space;
    logic [31:0]  write_addr;
    logic [127:0] write_data;
    logic [15:0]  write_mask;
    logic [7:0]   retire_fault;
`ifdef STREAM
    logic         value_valid;
    logic [1:0]   value_kind;
    logic [15:0]  value_element;
    logic [31:0]  value;
`endif
    `DESIGN dut (
        .load_valid(kind == LOAD), .load_addr(addr), .load_data(data),
`ifdef STREAM
        .stream_valid(kind == STREAM), .stream_addr(addr), .stream_beats(data[31:0]),
`endif
        .instr_valid(kind == INSTRUCTION), .instr(data[`INSTR_BITS-1:0]), .*);

`ifdef STREAM
    bind `DESIGN retire_monitor monitor (.*);
`else
    bind `DESIGN retire_monitor monitor (.value_valid(1'b0), .value_kind('0), .value_element('0), .value('0), .*);
`endif

    initial begin
        if (!$value$plusargs("count=%d", left)) left = 10000;
        if (!$value$plusargs("seed=%d", seed)) seed = 1;
        model = lockstep_new(`TARGET, seed);
        rst = 1;
        running = 0;
    end

    /* verilator lint_off BLKSEQ */
    always @(posedge clk) begin
        rst <= 0;
        kind <= 0;
        running <= running && !retire_valid;
        if (running && retire_valid)
            left = left - 1;
        if (left == 0 || failed)
            $finish;
        else if (!rst && (!running || retire_valid)) begin
            lockstep_next(model, next_kind, next_addr, next_data);
            kind <= next_kind;
            addr <= next_addr;
            data <= next_data;
            running <= next_kind == INSTRUCTION;
        end
    end
    final if (lockstep_finish(model) != 0) $display("FAIL");
endmodule
