// SPDX-License-Identifier: Apache-2.0
// A design in lockstep with the model, which is called over DPI-C: +count=N, +seed=N. DESIGN is the module of the design,
// TARGET the name of the machine, INSTR_BITS the width of its words.
module dpi_bench (
    input logic clk
);
    import "DPI-C" function chandle lockstep_new(input string target, input int unsigned seed);
    import "DPI-C" function void lockstep_next(input chandle l, output int unsigned kind, output int unsigned addr,
                                               output bit [127:0] data);
    import "DPI-C" function void lockstep_write(input chandle l, input int unsigned space, input int unsigned addr,
                                                input bit [127:0] data, input int unsigned mask);
    import "DPI-C" function void lockstep_value(input chandle l, input int unsigned kind, input int unsigned element,
                                                input int unsigned bits);
    import "DPI-C" function int lockstep_retire(input chandle l, input int unsigned fault);
    import "DPI-C" function int lockstep_hang(input chandle l, input int unsigned cycles);
    import "DPI-C" function int lockstep_finish(input chandle l);

    int unsigned  kind, addr, next_kind, next_addr, left, seed, cycles;
    bit [127:0]   data, next_data;
`ifdef STREAM
    logic         value_valid;
    logic [1:0]   value_kind;
    logic [15:0]  value_element;
    logic [31:0]  value;
`endif
    logic         rst, running, write_valid, retire_valid, instr_ready;
    logic [2:0]   write_space;
    logic [31:0]  write_addr;
    logic [127:0] write_data;
    logic [15:0]  write_mask;
    logic [7:0]   retire_fault;
    `DESIGN dut (
        .clk(clk), .rst(rst), .load_valid(kind == 1), .load_addr(addr), .load_data(data),
`ifdef STREAM
        .stream_valid(kind == 2), .stream_addr(addr), .stream_beats(data[31:0]),
        .value_valid(value_valid), .value_kind(value_kind), .value_element(value_element), .value(value),
`endif
        .instr_valid(kind == 3), .instr_ready(instr_ready), .instr(data[`INSTR_BITS-1:0]), .write_valid(write_valid),
        .write_space(write_space), .write_addr(write_addr), .write_data(write_data), .write_mask(write_mask),
        .retire_valid(retire_valid), .retire_fault(retire_fault));

    chandle model;
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
        cycles <= running ? cycles + 1 : 0;
        if (running && write_valid)
            lockstep_write(model, 32'(write_space), write_addr, write_data, 32'(write_mask));
`ifdef STREAM
        if (running && value_valid)
            lockstep_value(model, 32'(value_kind), 32'(value_element), value);
`endif
        if (running && retire_valid) begin
            left = left - 1;
            if (lockstep_retire(model, 32'(retire_fault)) != 0) left = 0;
        end else if (cycles == 50000) begin
            if (lockstep_hang(model, cycles) != 0) left = 0;
        end
        if (left == 0)
            $finish;
        else if (!rst && (!running || retire_valid)) begin
            lockstep_next(model, next_kind, next_addr, next_data);
            kind <= next_kind;
            addr <= next_addr;
            data <= next_data;
            running <= next_kind == 3;
        end
    end
    final if (lockstep_finish(model) != 0) $display("FAIL");
endmodule
