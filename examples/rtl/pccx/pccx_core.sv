// SPDX-License-Identifier: Apache-2.0
// A pccx v002 core: decoder, Constant Cache, MEMSET, MEMCPY, SFU and GEMV, with its L2 and a small host memory.
//
// It executes one instruction at a time. Every change of the architectural state appears on the write port in the
// cycle of the change, and the end of the instruction on the retire port: the interface that a bench compares with the
// model. GEMM, the direct FIFOs, and sub_emax of a function by table retire as FAULT_UNSUPPORTED.
module pccx_core #(
    parameter int L2_WORDS = 1024,    // a power of two up to 8192
    parameter int HOST_WORDS = 4096,  // of 16 bytes
    parameter TABLE = "sfu_table.memh"
) (
    input  logic         clk,
    input  logic         rst,
    // The host: it writes its memory and appends descriptors to the weight stream while no instruction executes.
    input  logic         load_valid,
    input  logic [31:0]  load_addr,
    input  logic [127:0] load_data,
    input  logic         stream_valid,
    input  logic [31:0]  stream_addr,  // in words of 16 bytes
    input  logic [31:0]  stream_beats,
    // Instructions
    input  logic         instr_valid,
    output logic         instr_ready,
    input  logic [63:0]  instr,
    // Commits
    output logic         write_valid,
    output logic [2:0]   write_space,
    output logic [31:0]  write_addr,
    output logic [127:0] write_data,
    output logic [15:0]  write_mask,   // a bit for each byte
    output logic         value_valid,  // a value inside the instruction: kind 0 an exact sum, 1 a sum, 2 an argument
    output logic [1:0]   value_kind,
    output logic [15:0]  value_element,
    output logic [31:0]  value,
    output logic         retire_valid,
    output logic [7:0]   retire_fault
);
    import pccx_pkg::*;

    localparam int AW = $clog2(L2_WORDS);
    localparam int HW = $clog2(HOST_WORDS);
    localparam logic [2:0] IDLE = 3'd0, ISSUE = 3'd1, COPY = 3'd2, SFU = 3'd3, GEMV = 3'd4;

    logic [2:0]  state;
    logic [63:0] word;
    logic [3:0]  opcode;
    assign opcode = word[63:60];
    assign instr_ready = state == IDLE;

    // ---- State ----

    logic [127:0] l2[L2_WORDS];
    logic [127:0] host[HOST_WORDS];
    logic [47:0]  fmap_shape[64];
    logic [47:0]  weight_shape[64];
    logic [15:0]  e_max;
    logic [127:0] source, target;  // what the engines read from L2

    // ---- Check ----

    logic [47:0] shape, size, copy_words;
    logic [7:0]  fault;
    logic [31:0] stream_left;
    assign shape = weight_shape[word[13:8]];
    assign size = fmap_shape[opcode == OP_MEMCPY ? word[6:1] : word[19:14]];
    pccx_check #(.L2_WORDS(L2_WORDS), .HOST_WORDS(HOST_WORDS)) check (
        .word(word), .shape(shape), .size(size), .stream_beats(stream_left), .fault(fault), .copy_words(copy_words));

    // ---- Weight stream: a FIFO of descriptors ----

    logic [63:0]  descriptors[256];
    logic [7:0]   descriptor_first, descriptor_end;
    logic [31:0]  stream_offset;
    logic [63:0]  descriptor;
    logic         stream_take;
    logic [127:0] stream_beat;
    assign descriptor = descriptors[descriptor_first];
    assign stream_beat = host[($clog2(HOST_WORDS))'(descriptor[63:32] + stream_offset)];
    always_ff @(posedge clk) begin
        if (stream_valid) begin
            descriptors[descriptor_end] <= {stream_addr, stream_beats};
            descriptor_end <= descriptor_end + 8'd1;
            stream_left <= stream_left + stream_beats;
        end
        if (stream_take) begin
            stream_left <= stream_left - 32'd1;
            stream_offset <= stream_offset + 32'd1;
            if (stream_offset + 32'd1 == descriptor[31:0]) begin
                stream_offset <= 32'd0;
                descriptor_first <= descriptor_first + 8'd1;
            end
        end
        if (rst) begin
            descriptor_first <= 8'd0;
            descriptor_end <= 8'd0;
            stream_left <= 32'd0;
            stream_offset <= 32'd0;
        end
    end

    // ---- MEMCPY: a word a cycle, from the end when the destination is above the source in L2 ----

    logic [AW-1:0] copied, copy_index, copy_source, copy_target, last_copied;
    logic         from_host, to_host, copy_last;
    logic [127:0] copy_data;
    logic [HW-1:0] host_word;
    assign last_copied = AW'(copy_words - 48'd1);
    assign from_host = word[59];
    assign to_host = word[58];
    assign copy_last = copied == last_copied;
    assign copy_index = word[57:41] > word[40:24] ? last_copied - copied : copied;
    assign copy_source = word[24 +: AW] + copy_index;
    assign copy_target = word[41 +: AW] + copy_index;
    assign host_word = (from_host ? word[24 +: HW] : word[41 +: HW]) + HW'(copy_index);
    assign copy_data = from_host ? host[host_word] : source;

    // ---- Engines ----

    logic         begins, begins_sfu, begins_gemv;
    logic         sfu_valid, sfu_done, gemv_valid, gemv_emax, gemv_fault, gemv_done;
    logic [16:0]  sfu_source, sfu_target, gemv_source, gemv_target;
    logic [127:0] sfu_data, gemv_data;
    logic         sfu_value_valid, sfu_sum, gemv_value_valid;
    logic [15:0]  sfu_element, gemv_element;
    logic [31:0]  sfu_value, gemv_value;
    assign begins = state == ISSUE && fault == FAULT_NONE;
    assign begins_sfu = begins && opcode == OP_CVO;
    assign begins_gemv = begins && opcode == OP_GEMV;
    pccx_sfu #(.TABLE(TABLE)) sfu (
        .clk(clk), .rst(rst), .start(begins_sfu), .word(word), .e_max(e_max),
        .source_addr(sfu_source), .source(source), .target_addr(sfu_target), .target(target),
        .write_valid(sfu_valid), .write_data(sfu_data),
        .value_valid(sfu_value_valid), .value_sum(sfu_sum), .value_element(sfu_element), .value_bits(sfu_value), .done(sfu_done));
    pccx_gemv #(.L2_WORDS(L2_WORDS)) gemv (
        .clk(clk), .rst(rst), .start(begins_gemv), .word(word), .shape(shape[31:0]),
        .act_scale(size[15:0]), .source_addr(gemv_source), .source(source), .target_addr(gemv_target),
        .target(target), .stream_take(stream_take), .stream_beat(stream_beat), .write_valid(gemv_valid),
        .write_emax(gemv_emax), .write_data(gemv_data),
        .value_valid(gemv_value_valid), .value_element(gemv_element), .value(gemv_value), .fault(gemv_fault), .done(gemv_done));

    // L2 has two read ports: the source, and the old destination.
    logic [16:0]  source_addr, target_addr;
    assign source_addr = state == SFU ? sfu_source : state == GEMV ? gemv_source : {{(17 - AW) {1'b0}}, copy_source};
    assign target_addr = state == SFU ? sfu_target : gemv_target;
    assign source = l2[($clog2(L2_WORDS))'(source_addr)];
    assign target = l2[($clog2(L2_WORDS))'(target_addr)];

    // ---- Commit ----

    assign value_valid = state == SFU ? sfu_value_valid : gemv_value_valid;
    assign value_kind = state == GEMV ? 2'd0 : sfu_sum ? 2'd1 : 2'd2;
    assign value_element = state == GEMV ? gemv_element : sfu_element;
    assign value = state == GEMV ? gemv_value : sfu_value;

    always @* begin
        write_valid = 1'b0;
        write_space = SPACE_L2;
        write_addr = 32'd0;
        write_data = 128'd0;
        write_mask = 16'hFFFF;
        retire_valid = 1'b0;
        retire_fault = FAULT_NONE;
        case (state)
            ISSUE: begin
                retire_valid = fault != FAULT_NONE || opcode == OP_MEMSET;
                retire_fault = fault;
                write_valid = begins && opcode == OP_MEMSET;
                write_space = SPACE_CONST;
                write_addr = {25'd0, word[58:52]};
                write_data = {80'd0, word[19:4], word[35:20], word[51:36]};  // a in the low bytes
                write_mask = 16'h003F;
            end
            COPY: begin
                write_valid = 1'b1;
                write_space = to_host ? SPACE_HOST : SPACE_L2;
                write_addr = to_host ? {{(28 - HW) {1'b0}}, host_word, 4'd0} : {{(32 - AW) {1'b0}}, copy_target};
                write_data = copy_data;
                retire_valid = copy_last;
            end
            SFU: begin
                write_valid = sfu_valid;
                write_addr = {15'd0, sfu_target};
                write_data = sfu_data;
                retire_valid = sfu_done;
            end
            GEMV: begin
                write_valid = gemv_valid;
                write_space = gemv_emax ? SPACE_EMAX : SPACE_L2;
                write_addr = gemv_emax ? 32'd0 : {15'd0, gemv_target};
                write_data = gemv_data;
                write_mask = gemv_emax ? 16'h0003 : 16'hFFFF;
                retire_valid = gemv_done;
                retire_fault = gemv_fault ? FAULT_NON_FINITE : FAULT_NONE;
            end
            default:
                write_valid = 1'b0;
        endcase
    end

    always_ff @(posedge clk) begin
        if (state == IDLE && instr_valid) begin
            word <= instr;
            state <= ISSUE;
        end
        if (state == ISSUE) begin
            copied <= 0;
            if (begins && opcode == OP_MEMCPY)
                state <= COPY;
            if (begins_sfu)
                state <= SFU;
            if (begins_gemv)
                state <= GEMV;
        end
        if (state == COPY)
            copied <= copied + 1'b1;
        if (retire_valid)
            state <= IDLE;
        if (rst)
            state <= IDLE;
    end

    always_ff @(posedge clk) begin
        if (write_valid && write_space == SPACE_L2)
            l2[write_addr[$clog2(L2_WORDS)-1:0]] <= write_data;
        if (write_valid && write_space == SPACE_HOST)
            host[write_addr[4 +: $clog2(HOST_WORDS)]] <= write_data;
        if (write_valid && write_space == SPACE_CONST && !write_addr[6])
            fmap_shape[write_addr[5:0]] <= {write_data[15:0], write_data[31:16], write_data[47:32]};
        if (write_valid && write_space == SPACE_CONST && write_addr[6])
            weight_shape[write_addr[5:0]] <= {write_data[15:0], write_data[31:16], write_data[47:32]};
        if (write_valid && write_space == SPACE_EMAX)
            e_max <= write_data[15:0];
        if (load_valid)
            host[load_addr[$clog2(HOST_WORDS)-1:0]] <= load_data;
        if (rst)
            e_max <= 16'd0;
    end

    initial begin
        for (int i = 0; i < L2_WORDS; i++)
            l2[i] = 128'd0;
        for (int i = 0; i < HOST_WORDS; i++)
            host[i] = 128'd0;
        for (int i = 0; i < 64; i++) begin
            fmap_shape[i] = 48'd0;
            weight_shape[i] = 48'd0;
        end
    end
endmodule
