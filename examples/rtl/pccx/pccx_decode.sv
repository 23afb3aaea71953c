// SPDX-License-Identifier: Apache-2.0
// Decode faults of an instruction word, the topmost field first, and what this design does not implement.
module pccx_decode (
    input  logic [63:0] word,
    output logic [7:0]  fault
);
    import pccx_pkg::*;

    logic [3:0] opcode;
    logic       matrix, memcpy, memset, cvo, l2_copy;
    assign opcode = word[63:60];
    assign matrix = opcode == OP_GEMV || opcode == OP_GEMM;
    assign memcpy = opcode == OP_MEMCPY;
    assign memset = opcode == OP_MEMSET;
    assign cvo = opcode == OP_CVO;
    assign l2_copy = memcpy && word[59:58] == 2'd0;

    logic scale, by_table, gemv_fifo, cvo_fifo, unsupported;
    assign scale = word[58:56] == CVO_SCALE;
    assign by_table = word[58:56] != CVO_SCALE && word[58:56] != CVO_REDUCE_SUM;
    assign gemv_fifo = word[59:43] == FIFO_TAG || word[42:26] == FIFO_TAG;
    assign cvo_fifo = (!scale && word[55:39] == FIFO_TAG) || word[38:22] == FIFO_TAG;
    assign unsupported = opcode == OP_GEMM || (opcode == OP_GEMV && gemv_fifo) ||
                         (cvo && (cvo_fifo || (by_table && word[5])));

    always @* begin
        fault = FAULT_NONE;
        if (unsupported)
            fault = FAULT_UNSUPPORTED;
        if (matrix && (word[22:20] != 3'd0 || word[2:0] != 3'd0))
            fault = FAULT_RESERVED_BIT;
        if (memset && word[3:0] != 4'd0)
            fault = FAULT_RESERVED_BIT;
        if (cvo && word[2:1] != 2'd0)
            fault = FAULT_RESERVED_BIT;
        if (memset && word[59])
            fault = FAULT_CACHE;
        if (cvo && word[59])
            fault = FAULT_FUNCTION;
        if (memcpy && word[59:58] == 2'd3)
            fault = FAULT_HOST_TO_HOST;
        if (l2_copy && word[23:7] != 17'd0)
            fault = FAULT_AUX;
        if (!matrix && !memcpy && !memset && !cvo)
            fault = FAULT_OPCODE;
    end
endmodule
