// SPDX-License-Identifier: Apache-2.0
// Numbers of the OpenNPU instruction set: families, faults, register classes, and the spaces that writes are reported in.
package opennpu_pkg;
    localparam logic [6:0] OP_NOP = 7'h00;
    localparam logic [6:0] OP_LD = 7'h01;
    localparam logic [6:0] OP_ST = 7'h02;
    localparam logic [6:0] OP_MMA = 7'h03;
    localparam logic [6:0] OP_ARITH = 7'h10;
    localparam logic [6:0] OP_LOGIC = 7'h11;
    localparam logic [6:0] OP_REDUCE = 7'h12;
    localparam logic [6:0] OP_LUT = 7'h13;
    localparam logic [6:0] OP_CVT = 7'h14;
    localparam logic [6:0] OP_BCAST = 7'h15;
    localparam logic [6:0] OP_FP = 7'h16;
    localparam logic [6:0] OP_FMA = 7'h17;
    localparam logic [6:0] OP_MOV = 7'h18;

    // Register classes: lanes of 8, 16 and 32 bits; NONE is not checked.
    localparam logic [1:0] VX = 2'd0;
    localparam logic [1:0] VE = 2'd1;
    localparam logic [1:0] VR = 2'd2;
    localparam logic [1:0] NONE = 2'd3;

    // Formats of CVT
    localparam logic [2:0] S8 = 3'd0;
    localparam logic [2:0] S16 = 3'd1;
    localparam logic [2:0] S32 = 3'd2;
    localparam logic [2:0] F32 = 3'd3;
    localparam logic [2:0] BF16 = 3'd4;
    localparam logic [2:0] BF8 = 3'd5;

    // The number of the model's code: 1 is TV-N001.
    localparam logic [7:0] FAULT_NONE = 8'd0;
    localparam logic [7:0] FAULT_OPCODE = 8'd1;
    localparam logic [7:0] FAULT_FUNCT3 = 8'd2;
    localparam logic [7:0] FAULT_WIDTH = 8'd3;
    localparam logic [7:0] FAULT_DTYPE = 8'd4;
    localparam logic [7:0] FAULT_CVT_SAME = 8'd5;
    localparam logic [7:0] FAULT_CVT_SOURCE = 8'd6;
    localparam logic [7:0] FAULT_CVT_PAIR = 8'd7;
    localparam logic [7:0] FAULT_REGISTER = 8'd8;
    localparam logic [7:0] FAULT_LUT_RANGE = 8'd10;
    localparam logic [7:0] FAULT_MEMORY_RANGE = 8'd11;

    localparam logic [2:0] SPACE_VX = 3'd0;
    localparam logic [2:0] SPACE_MEM = 3'd1;
    localparam logic [2:0] SPACE_LUT_A = 3'd2;
    localparam logic [2:0] SPACE_LUT_B = 3'd3;
    localparam logic [2:0] SPACE_ACC = 3'd4;
endpackage
