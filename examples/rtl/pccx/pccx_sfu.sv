// SPDX-License-Identifier: Apache-2.0
// The special function unit: one element a cycle. EXP, SQRT, GELU, SIN, COS and RECIP are read from a table with a row
// for each function and BF16 input: the result in binary32, for accm, and in BF16. A vector whose destination is above
// its source is processed from its last word, so that no word is overwritten before it is read.
module pccx_sfu #(
    parameter TABLE = "sfu_table.memh"
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  logic [63:0]  word,
    input  logic [15:0]  e_max,
    output logic [16:0]  source_addr,
    input  logic [127:0] source,
    output logic [16:0]  target_addr,
    input  logic [127:0] target,       // the old destination
    output logic         write_valid,
    output logic [127:0] write_data,   // to target_addr
    output logic         value_valid,  // the argument of an element in binary32, or the sum with it
    output logic         value_sum,
    output logic [15:0]  value_element,
    output logic [31:0]  value_bits,
    output logic         done
);
    import pccx_pkg::*;

    localparam logic [1:0] IDLE = 2'd0, SCALAR = 2'd1, RUN = 2'd2, REDUCED = 2'd3;

    logic [47:0] table_rows[8 * 65536];
    initial $readmemh(TABLE, table_rows);

    logic [2:0]  func;
    logic [16:0] vector_addr;
    logic [13:0] last_word;
    logic [15:0] last_element;
    logic        scale, reduce, sub_emax, divide, accm, descend;
    assign func = word[58:56];
    assign scale = func == CVO_SCALE;
    assign reduce = func == CVO_REDUCE_SUM;
    assign vector_addr = word[55:39] + {16'd0, scale};
    assign last_element = word[21:6] - 16'd1;
    assign last_word = {1'b0, last_element[15:3]};
    assign sub_emax = word[5];
    assign divide = word[4];
    assign accm = word[3];
    assign descend = word[38:22] > vector_addr && !reduce;

    logic [1:0]   state;
    logic [13:0]  position;  // word of the vector
    logic [2:0]   lane;
    logic [15:0]  scalar;
    logic [31:0]  sum;
    logic [127:0] result;    // of the lanes before `lane`
    assign source_addr = state == SCALAR ? word[55:39] : vector_addr + {3'd0, position};
    assign target_addr = word[38:22] + (reduce ? 17'd0 : {3'd0, position});

    // The element: x, or x - e_max; subnormal numbers count as zeros.
    logic [15:0] x_bits, x_flushed, e_max_flushed, old, old_flushed;
    logic [31:0] difference, x;
    assign x_bits = source[lane*16 +: 16];
    assign x_flushed = x_bits[14:7] == 8'd0 ? {x_bits[15], 15'd0} : x_bits;
    assign e_max_flushed = e_max[14:7] == 8'd0 ? {e_max[15], 15'd0} : e_max;
    pccx_f32_add subtract_e_max (.a({x_flushed, 16'd0}), .b({~e_max_flushed[15], e_max_flushed[14:0], 16'd0}), .y(difference));
    assign x = sub_emax ? difference : {x_flushed, 16'd0};

    logic [31:0] scaled;
    logic [15:0] scaled_bf16;
    pccx_f32_scale scaling (.a(x), .b({scalar, 16'd0}), .divide(divide), .y(scaled), .y_bf16(scaled_bf16));

    logic [47:0] row;
    logic [31:0] value, term, total;
    logic [15:0] value_bf16, total_bf16, y;
    assign row = table_rows[{func, x_flushed}];
    assign value = scale ? scaled : row[47:16];
    assign value_bf16 = scale ? scaled_bf16 : row[15:0];

    // The adder of accm also sums: sum + x, and at the end sum + lane 0 of the destination.
    assign old = reduce ? target[15:0] : target[lane*16 +: 16];
    assign old_flushed = old[14:7] == 8'd0 ? {old[15], 15'd0} : old;
    assign term = reduce && state == RUN ? x : {old_flushed, 16'd0};
    pccx_f32_add accumulate (.a(reduce ? sum : value), .b(term), .y(total));
    pccx_f32_to_bf16 narrow (.x(reduce && !accm ? sum : total), .y(total_bf16));
    assign y = accm ? total_bf16 : value_bf16;

    assign value_valid = state == RUN;
    assign value_sum = reduce;
    assign value_element = {position[12:0], lane};
    assign value_bits = reduce ? total : x;

    logic last_lane, last_position;
    assign last_lane = position == last_word ? lane == last_element[2:0] : lane == 3'd7;
    assign last_position = position == (descend ? 14'd0 : last_word);

    always @* begin
        write_valid = state == RUN && last_lane && !reduce;
        write_data = result | ({112'd0, y} << {lane, 4'd0});
        done = write_valid && last_position;
        if (state == REDUCED) begin
            write_valid = 1'b1;
            write_data = {112'd0, total_bf16};
            done = 1'b1;
        end
    end

    always_ff @(posedge clk) begin
        if (state == IDLE && start) begin
            state <= scale ? SCALAR : RUN;
            position <= descend ? last_word : 14'd0;
            lane <= 3'd0;
            sum <= 32'd0;
            result <= 128'd0;
        end
        if (state == SCALAR) begin
            scalar <= source[14:7] == 8'd0 ? {source[15], 15'd0} : source[15:0];
            state <= RUN;
        end
        if (state == RUN) begin
            lane <= lane + 3'd1;
            sum <= total;
            result <= write_data;
            if (last_lane) begin
                lane <= 3'd0;
                result <= 128'd0;
                position <= descend ? position - 14'd1 : position + 14'd1;
            end
            if (last_lane && last_position)
                state <= reduce ? REDUCED : IDLE;
        end
        if (state == REDUCED)
            state <= IDLE;
        if (rst)
            state <= IDLE;
    end
endmodule
