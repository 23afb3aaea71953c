// SPDX-License-Identifier: Apache-2.0
// An OpenNPU core with 8 lanes: VALU with FP and CVT, LUT, a matrix unit with four multipliers, LD and ST.
//
// It executes one instruction at a time, a lane in each cycle. Results collect in `result` and are written when all
// operands have been read, two rows of the register file a cycle. As in the pccx core, the write port and the retire
// port show every change of the architectural state.
module opennpu_core #(
    parameter int MEM_BYTES = 4096
) (
    input  logic         clk,
    input  logic         rst,
    // The host writes memory while no instruction executes.
    input  logic         load_valid,
    input  logic [31:0]  load_addr,    // in words of 16 bytes
    input  logic [127:0] load_data,
    // Instructions
    input  logic         instr_valid,
    output logic         instr_ready,
    input  logic [31:0]  instr,
    // Commits
    output logic         write_valid,
    output logic [2:0]   write_space,
    output logic [31:0]  write_addr,   // in units of the space
    output logic [127:0] write_data,
    output logic [15:0]  write_mask,   // a bit for each byte
    output logic         retire_valid,
    output logic [7:0]   retire_fault
);
    import opennpu_pkg::*;

    localparam logic [2:0] IDLE = 3'd0, ISSUE = 3'd1, MULTIPLY = 3'd2, LANES = 3'd3, WRITE = 3'd4;

    logic [2:0]  state;
    logic [31:0] word;
    logic [6:0]  opcode;
    logic [2:0]  funct3;
    logic [4:0]  rd, rs1, rs2, rs3;
    logic [3:0]  step;     // lane, or half row of ACC
    logic [2:0]  lane;
    assign opcode = word[6:0];
    assign funct3 = word[14:12];
    assign rd = word[11:7];
    assign rs1 = word[19:15];
    assign rs2 = word[24:20];
    assign rs3 = word[31:27];
    assign lane = step[2:0];
    assign instr_ready = state == IDLE;

    logic [1:0] rd_class, rs1_class, rs2_class;
    logic       form_r;
    logic [7:0] decode_fault;
    opennpu_decode decode (.word(word), .rd_class(rd_class), .rs1_class(rs1_class), .rs2_class(rs2_class), .form_r(form_r),
                           .fault(decode_fault));

    // ---- State ----

    logic [63:0]  vx[32];
    logic [7:0]   lut_a[256];
    logic [7:0]   lut_b[256];
    logic [127:0] acc[16];  // half rows of four elements
    logic [2:0]   column;
    logic [7:0]   mem[MEM_BYTES];

    // ---- Operands: a lane of a register, from its byte planes ----

    logic [4:0]  first_a, first_b, first_c, first_d;
    logic [63:0] a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3;
    logic [2:0]  a_lane;
    logic [31:0] a_bits, b_bits, d_bits, a, b, c, d;
    assign first_a = rs1_class == VR ? {rs1[2:0], 2'd0} : rs1_class == VE ? {rs1[3:0], 1'd0} : rs1;
    assign first_b = rs2_class == VR ? {rs2[2:0], 2'd0} : rs2_class == VE ? {rs2[3:0], 1'd0} : rs2;
    assign first_c = {rs3[2:0], 2'd0};
    assign first_d = rd_class == VR ? {rd[2:0], 2'd0} : rd_class == VE ? {rd[3:0], 1'd0} : rd;
    assign a0 = vx[first_a];
    assign a1 = vx[first_a + 5'd1];
    assign a2 = vx[first_a + 5'd2];
    assign a3 = vx[first_a + 5'd3];
    assign b0 = vx[first_b];
    assign b1 = vx[first_b + 5'd1];
    assign b2 = vx[first_b + 5'd2];
    assign b3 = vx[first_b + 5'd3];
    assign c0 = vx[first_c];
    assign c1 = vx[first_c + 5'd1];
    assign c2 = vx[first_c + 5'd2];
    assign c3 = vx[first_c + 5'd3];
    assign d0 = vx[first_d];
    assign d1 = vx[first_d + 5'd1];
    assign d2 = vx[first_d + 5'd2];
    assign d3 = vx[first_d + 5'd3];
    assign a_lane = opcode == OP_BCAST || state == ISSUE ? 3'd0 : lane;
    assign a_bits = {a3[a_lane*8 +: 8], a2[a_lane*8 +: 8], a1[a_lane*8 +: 8], a0[a_lane*8 +: 8]};
    assign b_bits = {b3[lane*8 +: 8], b2[lane*8 +: 8], b1[lane*8 +: 8], b0[lane*8 +: 8]};
    assign c = {c3[lane*8 +: 8], c2[lane*8 +: 8], c1[lane*8 +: 8], c0[lane*8 +: 8]};
    assign d_bits = {d3[lane*8 +: 8], d2[lane*8 +: 8], d1[lane*8 +: 8], d0[lane*8 +: 8]};
    assign a = rs1_class == VX ? {{24{a_bits[7]}}, a_bits[7:0]} : rs1_class == VE ? {{16{a_bits[15]}}, a_bits[15:0]} : a_bits;
    assign b = rs2_class == VX ? {{24{b_bits[7]}}, b_bits[7:0]} : rs2_class == VE ? {{16{b_bits[15]}}, b_bits[15:0]} : b_bits;
    assign d = rd_class == VX ? {24'd0, d_bits[7:0]} : rd_class == VE ? {16'd0, d_bits[15:0]} : d_bits;

    // ---- Memory: the address of the first byte is latched at issue ----

    logic [31:0] base, address, lane_address, loaded, imm;
    logic [32:0] memory_end;
    logic [2:0]  moved_bytes;  // of a lane
    logic        all_lanes, memory_outside, lut_outside;
    assign imm = {{20{word[31]}}, word[31:20]};
    assign base = a_bits + imm;
    assign all_lanes = funct3 >= 3'd3;
    assign moved_bytes = rd_class == VX ? 3'd1 : rd_class == VE ? 3'd2 : 3'd4;
    assign memory_end = {1'b0, base} + (all_lanes ? {27'd0, moved_bytes, 3'd0} : {30'd0, moved_bytes});
    assign memory_outside = memory_end > 33'(MEM_BYTES);
    assign lut_outside = word[31:23] != 9'd0;
    assign lane_address = address + (rd_class == VX ? {29'd0, lane} : rd_class == VE ? {28'd0, lane, 1'd0} : {27'd0, lane, 2'd0});
    for (genvar i = 0; i < 4; i++) begin : load_bytes
        assign loaded[i*8 +: 8] = mem[($clog2(MEM_BYTES))'(lane_address + i)];
    end

    logic [7:0] fault;
    always @* begin
        fault = decode_fault;
        if (decode_fault == FAULT_NONE && (opcode == OP_LD || opcode == OP_ST) && memory_outside)
            fault = FAULT_MEMORY_RANGE;
        if (decode_fault == FAULT_NONE && opcode == OP_LUT && funct3[2] && lut_outside)
            fault = FAULT_LUT_RANGE;
    end

    // ---- Units: one lane each ----

    logic        is_fma, is_logic, int_to_f32;
    logic [1:0]  mode;
    logic [31:0] int_result, fp_result, cvt_result;
    logic [7:0]  looked_up;
    assign is_fma = opcode == OP_FMA;
    assign is_logic = opcode == OP_LOGIC;
    assign int_to_f32 = opcode == OP_CVT && funct3 == F32 && (word[27:25] == S32 || word[27:25] == S8);
    assign mode = is_fma ? word[26:25] : opcode == OP_CVT ? word[30:29] : word[28:27];
    opennpu_int integers (
        .is_logic(is_logic), .funct3(funct3), .width(word[26:25]), .saturate(word[29]), .a(a), .b(b), .y(int_result));
    opennpu_fp floats (
        .convert(int_to_f32), .fused(is_fma), .funct3(funct3), .mode(mode), .a(a), .b(b), .c(c), .y(fp_result));
    opennpu_cvt conversions (
        .source(word[27:25]), .target(funct3), .saturate(word[28]), .mode(mode), .e5m2(word[31]), .a(a), .y(cvt_result));
    assign looked_up = funct3[0] ? lut_b[a_bits[7:0]] : lut_a[a_bits[7:0]];

    // The fold of REDUCE
    logic [31:0] total, folded;
    always @* begin
        case (funct3)
            3'd0: folded = total + a;
            3'd1: folded = $signed(a) > $signed(total) ? a : total;
            3'd2: folded = $signed(a) < $signed(total) ? a : total;
            3'd3: folded = total & a;
            3'd4: folded = total | a;
            default: folded = total ^ a;
        endcase
        if (lane == 3'd0)
            folded = a;
    end

    // ---- Matrix unit ----

    logic         keep, accumulates, drains;
    logic [7:0]   mma_a;
    logic [127:0] acc_old, acc_new, acc_drained;
    assign keep = word[29];
    assign drains = opcode == OP_MMA && funct3 == 3'd1;
    assign accumulates = opcode == OP_MMA && (funct3 != 3'd1 || keep);
    assign mma_a = a0[step[3:1]*8 +: 8];
    assign acc_old = acc[step];
    assign acc_drained = acc[{lane, column[2]}];
    for (genvar j = 0; j < 4; j++) begin : multiply
        logic [7:0]         mma_b;
        logic signed [31:0] product;
        assign mma_b = b0[{step[0], 2'(j)}*8 +: 8];
        assign product = 32'($signed(mma_a)) * 32'($signed(mma_b));
        assign acc_new[j*32 +: 32] = funct3 == 3'd2 ? 32'd0 : keep ? acc_old[j*32 +: 32] + product : product;
    end

    // ---- The result of a lane ----

    logic [31:0] value;
    always @* begin
        value = int_result;
        case (opcode)
            OP_LD: value = all_lanes || lane == 3'd0 ? loaded : d;
            OP_MMA: value = acc_drained[column[1:0]*32 +: 32];
            OP_LUT: value = {24'd0, looked_up};
            OP_CVT: value = int_to_f32 ? fp_result : cvt_result;
            OP_BCAST: value = funct3[0] ? imm : a;
            OP_FP, OP_FMA: value = fp_result;
            OP_MOV: begin
                value = a;
                if (funct3 == 3'd1)
                    value = lane == 3'd0 ? imm : d;
                if (funct3 == 3'd2)
                    value = lane == 3'd0 ? {16'd0, imm[7:0], d[7:0]} : d;
            end
            default: value = int_result;
        endcase
    end

    logic [255:0] result;  // by byte plane, as registers are
    logic         has_result, stores, sets_lut, last_write;
    assign has_result = rd_class != NONE && opcode != OP_ST;
    assign stores = opcode == OP_ST;
    assign sets_lut = opcode == OP_LUT && funct3[2];
    assign last_write = rd_class != VR || step[0];

    // ---- Commit ----

    always @* begin
        write_valid = 1'b0;
        write_space = SPACE_VX;
        write_addr = 32'd0;
        write_data = 128'd0;
        write_mask = 16'hFFFF;
        retire_valid = 1'b0;
        retire_fault = FAULT_NONE;
        case (state)
            ISSUE: begin
                retire_valid = fault != FAULT_NONE || opcode == OP_NOP;
                retire_fault = fault;
            end
            MULTIPLY: begin
                write_valid = 1'b1;
                write_space = SPACE_ACC;
                write_addr = {26'd0, step, 2'd0};
                write_data = acc_new;
                retire_valid = step == 4'd15 && !drains;
            end
            LANES: begin
                write_valid = (stores && (all_lanes || lane == 3'd0)) || sets_lut;
                write_space = stores ? SPACE_MEM : funct3[0] ? SPACE_LUT_B : SPACE_LUT_A;
                write_addr = stores ? lane_address : {24'd0, word[22:20], lane, 2'd0};
                write_data = {4{stores ? d : a}};
                write_mask = sets_lut || rd_class == VR ? 16'h000F : rd_class == VE ? 16'h0003 : 16'h0001;
                retire_valid = lane == 3'd7 && !has_result;
            end
            WRITE: begin
                write_valid = 1'b1;
                write_addr = {27'd0, first_d} + {30'd0, step[0], 1'd0};
                write_data = step[0] ? result[255:128] : result[127:0];
                write_mask = rd_class == VX ? 16'h00FF : 16'hFFFF;
                retire_valid = last_write;
            end
            default:
                write_valid = 1'b0;
        endcase
    end

    always_ff @(posedge clk) begin
        step <= step + 4'd1;
        case (state)
            IDLE: begin
                if (instr_valid) begin
                    word <= instr;
                    state <= ISSUE;
                end
            end
            ISSUE: begin
                step <= 4'd0;
                address <= base;
                state <= accumulates ? MULTIPLY : LANES;
            end
            MULTIPLY: begin
                if (step == 4'd15)
                    state <= LANES;
                if (step == 4'd15 && !drains)
                    column <= 3'd0;
            end
            LANES: begin
                total <= folded;
                for (int plane = 0; plane < 4; plane++) begin
                    result[plane*64 + lane*8 +: 8] <= value[plane*8 +: 8];
                    if (opcode == OP_REDUCE)
                        result[plane*64 +: 64] <= {8{folded[plane*8 +: 8]}};
                end
                if (lane == 3'd7) begin
                    step <= 4'd0;
                    state <= WRITE;
                    if (drains)
                        column <= column + 3'd1;
                end
            end
            default:
                step <= step + 4'd1;
        endcase
        if (retire_valid)
            state <= IDLE;
        if (rst) begin
            state <= IDLE;
            column <= 3'd0;
        end
    end

    always_ff @(posedge clk) begin
        if (write_valid && write_space == SPACE_VX)
            vx[write_addr[4:0]] <= write_data[63:0];
        if (write_valid && write_space == SPACE_VX && write_mask[8])
            vx[write_addr[4:0] + 5'd1] <= write_data[127:64];
        if (write_valid && write_space == SPACE_ACC)
            acc[write_addr[5:2]] <= write_data;
        for (int i = 0; i < 4; i++) begin
            if (write_valid && write_space == SPACE_LUT_A)
                lut_a[write_addr[7:0] + 8'(i)] <= write_data[i*8 +: 8];
            if (write_valid && write_space == SPACE_LUT_B)
                lut_b[write_addr[7:0] + 8'(i)] <= write_data[i*8 +: 8];
            if (write_valid && write_space == SPACE_MEM && write_mask[i])
                mem[($clog2(MEM_BYTES))'(write_addr + i)] <= write_data[i*8 +: 8];
        end
        if (load_valid) begin
            for (int i = 0; i < 16; i++)
                mem[($clog2(MEM_BYTES))'(load_addr * 16 + i)] <= load_data[i*8 +: 8];
        end
    end

    initial begin
        for (int i = 0; i < 32; i++)
            vx[i] = 64'd0;
        for (int i = 0; i < 256; i++) begin
            lut_a[i] = 8'd0;
            lut_b[i] = 8'd0;
        end
        for (int i = 0; i < 16; i++)
            acc[i] = 128'd0;
        for (int i = 0; i < MEM_BYTES; i++)
            mem[i] = 8'd0;
    end
endmodule
