// SPDX-License-Identifier: Apache-2.0
// Program faults that are found before an instruction begins, in the order in which the model reports them, and the
// sizes that it works on.
module pccx_check #(
    parameter int L2_WORDS = 1024,
    parameter int HOST_WORDS = 4096
) (
    input  logic [63:0] word,
    input  logic [47:0] shape,         // weight_shape[shape_ptr_addr] of GEMV: M, N, K from the top
    input  logic [47:0] size,          // fmap_shape[size_ptr_addr] of GEMV, fmap_shape[shape_ptr_addr] of MEMCPY
    input  logic [31:0] stream_beats,  // left in the weight stream
    output logic [7:0]  fault,
    output logic [47:0] copy_words
);
    import pccx_pkg::*;

    // MEMCPY
    logic [47:0] elements;
    logic [47:0] host_word;
    logic [7:0]  copy_fault;
    logic        load, store;
    logic        source_outside, target_outside, host_outside;
    assign load = word[59];
    assign store = word[58];
    assign elements = {32'd0, size[47:32]} * {32'd0, size[31:16]} * {32'd0, size[15:0]};
    assign copy_words = {3'd0, elements[47:3]} + {47'd0, elements[2:0] != 3'd0};
    assign source_outside = {31'd0, word[40:24]} + copy_words > 48'(L2_WORDS);
    assign target_outside = {31'd0, word[57:41]} + copy_words > 48'(L2_WORDS);
    assign host_word = {14'd0, word[23:7], load ? word[40:24] : word[57:41]};
    assign host_outside = host_word + copy_words > 48'(HOST_WORDS);
    always @* begin
        copy_fault = FAULT_NONE;
        if ((load || store) && host_outside)
            copy_fault = FAULT_HOST_RANGE;
        if ((!load && source_outside) || (!store && target_outside))
            copy_fault = FAULT_L2_RANGE;
        if (copy_words == 48'd0)
            copy_fault = FAULT_ZERO_DIMENSION;
    end

    // CVO
    logic [17:0] length_words, read_words, result_words;
    logic        scale, reduce;
    logic [7:0]  cvo_fault;
    assign scale = word[58:56] == CVO_SCALE;
    assign reduce = word[58:56] == CVO_REDUCE_SUM;
    assign length_words = ({2'd0, word[21:6]} + 18'd7) >> 3;
    assign read_words = length_words + {17'd0, scale};
    assign result_words = reduce ? 18'd1 : length_words;
    always @* begin
        cvo_fault = FAULT_NONE;
        if ({1'b0, word[55:39]} + read_words > 18'(L2_WORDS) || {1'b0, word[38:22]} + result_words > 18'(L2_WORDS))
            cvo_fault = FAULT_L2_RANGE;
        if (word[21:6] == 16'd0)
            cvo_fault = FAULT_LENGTH;
        if (scale && word[55:39] == FIFO_TAG)
            cvo_fault = FAULT_SCALE_FIFO;
    end

    // GEMV
    logic [15:0] m, n, k, act_scale;
    logic [17:0] n_words, k_words;
    logic [31:0] row_beats, scale_beats, beats;
    logic [7:0]  gemv_fault;
    assign m = shape[47:32];
    assign n = shape[31:16];
    assign k = shape[15:0];
    assign act_scale = size[15:0];
    assign n_words = ({2'd0, n} + 18'd7) >> 3;
    assign k_words = ({2'd0, k} + 18'd7) >> 3;
    assign row_beats = ({16'd0, k} + 32'd31) >> 5;
    assign scale_beats = word[23] ? {14'd0, n_words} : 32'd0;
    assign beats = row_beats * {16'd0, n} + scale_beats;
    always @* begin
        gemv_fault = FAULT_NONE;
        if (beats > stream_beats)
            gemv_fault = FAULT_UNDERRUN;
        if ({1'b0, word[42:26]} + k_words > 18'(L2_WORDS) || {1'b0, word[59:43]} + n_words > 18'(L2_WORDS))
            gemv_fault = FAULT_L2_RANGE;
        if (act_scale[15] || act_scale[14:7] == 8'hFF)
            gemv_fault = FAULT_ACT_SCALE;
        if (word[7:3] > 5'd4)
            gemv_fault = FAULT_LANES;
        if (m != 16'd1)
            gemv_fault = FAULT_GEMV_ROWS;
        if (m == 16'd0 || n == 16'd0 || k == 16'd0)
            gemv_fault = FAULT_ZERO_DIMENSION;
    end

    logic [7:0] decode_fault;
    pccx_decode decode (.word(word), .fault(decode_fault));
    always @* begin
        fault = decode_fault;
        if (decode_fault == FAULT_NONE && word[63:60] == OP_MEMCPY)
            fault = copy_fault;
        if (decode_fault == FAULT_NONE && word[63:60] == OP_CVO)
            fault = cvo_fault;
        if (decode_fault == FAULT_NONE && word[63:60] == OP_GEMV)
            fault = gemv_fault;
    end
endmodule
