// SPDX-License-Identifier: Apache-2.0
// For simulators without DPI: passes the events of the file `events.hex` to the design and writes what it commits to
// `commits.log`, which `lockstep_log compare` compares with the model. An event has a kind, an address and data; kind 0
// is the end. DESIGN and INSTR_BITS as in dpi_bench.sv.
`timescale 1ns / 1ns
module log_bench;
    reg [191:0]   events[0:65535];
    reg [191:0]   event_bits;
    reg           clk, rst, started, running;
    integer       next, log, cycles;
    wire          write_valid, retire_valid, instr_ready;
    wire [2:0]    write_space;
    wire [31:0]   write_addr;
    wire [127:0]  write_data;
    wire [15:0]   write_mask;
    wire [7:0]    retire_fault;
`ifdef STREAM
    wire          value_valid;
    wire [1:0]    value_kind;
    wire [15:0]   value_element;
    wire [31:0]   value;
`endif
    wire [31:0]   kind = event_bits[191:160];
    `DESIGN dut (
        .clk(clk), .rst(rst), .load_valid(kind == 1), .load_addr(event_bits[159:128]), .load_data(event_bits[127:0]),
`ifdef STREAM
        .stream_valid(kind == 2), .stream_addr(event_bits[159:128]), .stream_beats(event_bits[31:0]),
        .value_valid(value_valid), .value_kind(value_kind), .value_element(value_element), .value(value),
`endif
        .instr_valid(kind == 3), .instr_ready(instr_ready), .instr(event_bits[`INSTR_BITS-1:0]), .write_valid(write_valid),
        .write_space(write_space), .write_addr(write_addr), .write_data(write_data), .write_mask(write_mask),
        .retire_valid(retire_valid), .retire_fault(retire_fault));

    always #1 clk = !clk;
    initial begin
        $readmemh("events.hex", events);
        log = $fopen("commits.log", "w");
        clk = 0;
        rst = 1;
        started = 0;
        running = 0;
        next = 0;
        event_bits = 0;
        cycles = 0;
    end

    always @(posedge clk) begin
        rst <= 0;
        event_bits <= 0;
        cycles <= cycles + 1;
        if (started && write_valid)
            $fdisplay(log, "W %h %h %h %h", write_space, write_addr, write_data, write_mask);
`ifdef STREAM
        if (running && value_valid)
            $fdisplay(log, "V %h %h %h", value_kind, value_element, value);
`endif
        if (started && retire_valid) begin
            $fdisplay(log, "R %h", retire_fault);
            running <= 0;
        end
        if (running && cycles == 50000)
            $finish;
        if (!rst && (!running || retire_valid)) begin
            if (events[next][191:160] === 0 || events[next][191:160] === 32'bx)
                $finish;
            if (events[next][191:160] == 3) begin
                $fdisplay(log, "I");
                started <= 1;
            end
            event_bits <= events[next];
            running <= events[next][191:160] == 3;
            next <= next + 1;
            cycles <= 0;
        end
    end
endmodule
