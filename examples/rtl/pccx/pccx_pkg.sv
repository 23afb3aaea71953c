// SPDX-License-Identifier: Apache-2.0
// Numbers of the pccx instruction set: operation codes, functions, faults, and the spaces that writes are reported in.
package pccx_pkg;
    localparam logic [3:0] OP_GEMV = 4'd0;
    localparam logic [3:0] OP_GEMM = 4'd1;
    localparam logic [3:0] OP_MEMCPY = 4'd2;
    localparam logic [3:0] OP_MEMSET = 4'd3;
    localparam logic [3:0] OP_CVO = 4'd4;

    localparam logic [2:0] CVO_REDUCE_SUM = 3'd5;
    localparam logic [2:0] CVO_SCALE = 3'd6;

    localparam logic [16:0] FIFO_TAG = 17'h1FFFF;

    // The number of the model's code: 1 is TV-P001. The last one is not the model's.
    localparam logic [7:0] FAULT_NONE = 8'd0;
    localparam logic [7:0] FAULT_OPCODE = 8'd1;
    localparam logic [7:0] FAULT_RESERVED_BIT = 8'd2;
    localparam logic [7:0] FAULT_CACHE = 8'd3;
    localparam logic [7:0] FAULT_FUNCTION = 8'd4;
    localparam logic [7:0] FAULT_HOST_TO_HOST = 8'd5;
    localparam logic [7:0] FAULT_AUX = 8'd6;
    localparam logic [7:0] FAULT_L2_RANGE = 8'd10;
    localparam logic [7:0] FAULT_HOST_RANGE = 8'd11;
    localparam logic [7:0] FAULT_ZERO_DIMENSION = 8'd12;
    localparam logic [7:0] FAULT_GEMV_ROWS = 8'd13;
    localparam logic [7:0] FAULT_LANES = 8'd14;
    localparam logic [7:0] FAULT_UNDERRUN = 8'd16;
    localparam logic [7:0] FAULT_LENGTH = 8'd19;
    localparam logic [7:0] FAULT_SCALE_FIFO = 8'd20;
    localparam logic [7:0] FAULT_NON_FINITE = 8'd21;
    localparam logic [7:0] FAULT_ACT_SCALE = 8'd22;
    localparam logic [7:0] FAULT_UNSUPPORTED = 8'd255;  // GEMM, direct FIFOs, and sub_emax of a function by table

    localparam logic [2:0] SPACE_L2 = 3'd0;
    localparam logic [2:0] SPACE_HOST = 3'd1;
    localparam logic [2:0] SPACE_CONST = 3'd2;
    localparam logic [2:0] SPACE_EMAX = 3'd3;
endpackage
