// SPDX-License-Identifier: Apache-2.0
// The classes of an instruction's registers, and its decode faults: the topmost field first, except that in families
// that mix formats funct3 comes first. Registers come last.
module opennpu_decode (
    input  logic [31:0] word,
    output logic [1:0]  rd_class,
    output logic [1:0]  rs1_class,
    output logic [1:0]  rs2_class,
    output logic        form_r,    // bits 31 to 25 are dtype, sat, round and width
    output logic [7:0]  fault
);
    import opennpu_pkg::*;

    logic [6:0] opcode;
    logic [2:0] funct3, source;
    logic [1:0] width, dtype;
    logic       keep, reserved_funct3, mixed;
    assign opcode = word[6:0];
    assign funct3 = word[14:12];
    assign width = word[26:25];
    assign dtype = word[31:30];
    assign keep = word[29];
    assign source = word[27:25];

    // The class of a format: S8 and BF8 are VX, S16 and BF16 VE, S32 and F32 VR.
    logic [1:0] source_class, target_class;
    assign source_class = source == S8 || source == BF8 ? VX : source == S16 || source == BF16 ? VE : VR;
    assign target_class = funct3 == S8 || funct3 == BF8 ? VX : funct3 == S16 || funct3 == BF16 ? VE : VR;

    logic [1:0] moved_class;  // of LD and ST, funct3 0 to 5
    assign moved_class = funct3 >= 3'd3 ? 2'(funct3 - 3'd3) : funct3[1:0];

    always @* begin
        rd_class = NONE;
        rs1_class = NONE;
        rs2_class = VX; // every number is a register of VX, so one that is not read is never outside
        form_r = 1'b1;
        reserved_funct3 = 1'b0;
        mixed = 1'b0;
        case (opcode)
            OP_NOP:
                form_r = 1'b0;
            OP_LD, OP_ST: begin
                rd_class = moved_class;
                rs1_class = VR;
                form_r = 1'b0;
                reserved_funct3 = funct3 >= 3'd6;
            end
            OP_MMA: begin
                rd_class = funct3 == 3'd1 ? VR : NONE;
                rs1_class = funct3 == 3'd0 || (funct3 == 3'd1 && keep) ? VX : NONE;
                rs2_class = rs1_class;
                reserved_funct3 = funct3 >= 3'd3;
            end
            OP_ARITH: begin
                rd_class = width;
                rs1_class = width;
                rs2_class = funct3 == 3'd3 || funct3 == 3'd4 ? VX : width;
            end
            OP_LOGIC: begin
                rd_class = width;
                rs1_class = width;
                rs2_class = funct3 == 3'd5 ? VX : width;
            end
            OP_REDUCE: begin
                rd_class = VR;
                rs1_class = width;
                reserved_funct3 = funct3 >= 3'd6;
            end
            OP_LUT: begin
                rd_class = funct3[2] ? NONE : VX;
                rs1_class = funct3[2] ? VR : VX;
                form_r = !funct3[2];
                reserved_funct3 = funct3[1];
                mixed = 1'b1;
            end
            OP_CVT: begin
                rd_class = target_class;
                rs1_class = source_class;
                form_r = 1'b0;
                reserved_funct3 = funct3 >= 3'd6;
            end
            OP_BCAST: begin
                rd_class = funct3[0] ? VX : width;
                rs1_class = funct3[0] ? NONE : width;
                form_r = !funct3[0];
                reserved_funct3 = funct3 >= 3'd2;
                mixed = 1'b1;
            end
            OP_FP: begin
                rd_class = VR;
                rs1_class = VR;
                rs2_class = funct3 == 3'd3 || funct3 == 3'd4 ? VX : VR;
                reserved_funct3 = funct3 == 3'd7;
            end
            OP_FMA: begin
                rd_class = VR;
                rs1_class = VR;
                rs2_class = VR;
                form_r = 1'b0;
                reserved_funct3 = funct3 >= 3'd4;
            end
            OP_MOV: begin
                rd_class = funct3 == 3'd0 ? width : funct3 == 3'd1 ? VX : VE;
                rs1_class = funct3 == 3'd0 ? width : NONE;
                form_r = funct3 == 3'd0;
                reserved_funct3 = funct3 >= 3'd3;
                mixed = 1'b1;
            end
            default:
                form_r = 1'b0;
        endcase
    end

    logic known;
    assign known = opcode <= OP_MMA || (opcode >= OP_ARITH && opcode <= OP_MOV);

    logic pair;
    assign pair = (source == S32 && (funct3 == S8 || funct3 == S16 || funct3 == F32)) ||
                  (source == F32 && (funct3 == S32 || funct3 == S8 || funct3 == BF16 || funct3 == BF8)) ||
                  (source == S8 && (funct3 == S32 || funct3 == F32)) || (source == S16 && funct3 == S32) ||
                  (source == BF16 && funct3 == F32) || (source == BF8 && funct3 == F32);

    logic rd_outside, rs1_outside, rs2_outside, rs3_outside;
    assign rd_outside = (rd_class == VE && word[11]) || (rd_class == VR && word[11:10] != 2'd0);
    assign rs1_outside = (rs1_class == VE && word[19]) || (rs1_class == VR && word[19:18] != 2'd0);
    assign rs2_outside = (rs2_class == VE && word[24]) || (rs2_class == VR && word[24:23] != 2'd0);
    assign rs3_outside = opcode == OP_FMA && word[31:30] != 2'd0;

    always @* begin
        fault = FAULT_NONE;
        if (rd_outside || rs1_outside || rs2_outside || rs3_outside)
            fault = FAULT_REGISTER;
        if (opcode == OP_CVT && !pair)
            fault = FAULT_CVT_PAIR;
        if (opcode == OP_CVT && source == funct3)
            fault = FAULT_CVT_SAME;
        if (opcode == OP_CVT && source >= 3'd6)
            fault = FAULT_CVT_SOURCE;
        if (reserved_funct3)
            fault = FAULT_FUNCT3;
        if (form_r && width == 2'd3)
            fault = FAULT_WIDTH;
        if (form_r && dtype == 2'd3)
            fault = FAULT_DTYPE;
        if (reserved_funct3 && mixed)
            fault = FAULT_FUNCT3;
        if (!known)
            fault = FAULT_OPCODE;
    end
endmodule
