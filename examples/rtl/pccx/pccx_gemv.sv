// SPDX-License-Identifier: Apache-2.0
// Matrix times vector: INT8 activations, quantized here, times INT4 weights from the stream.
//
// Pass 1 finds the largest exponent of the activations, pass 2 quantizes them into a buffer. Then two weight rows at a
// time: the first row of a pair is buffered, the second one is multiplied together with it as it arrives, LANES
// elements a cycle, each by a dual multiplier. After WINDOW cycles the sums drain into wider ones.
module pccx_gemv #(
    parameter int L2_WORDS = 1024,
    parameter int LANES = 8,
    parameter int WINDOW = 16
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  logic [63:0]  word,
    input  logic [31:0]  shape,         // N and K
    input  logic [15:0]  act_scale,     // BF16; 0: dynamic
    output logic [16:0]  source_addr,
    input  logic [127:0] source,
    output logic [16:0]  target_addr,
    input  logic [127:0] target,        // the old destination
    output logic         stream_take,
    input  logic [127:0] stream_beat,
    output logic         write_valid,
    output logic         write_emax,    // write_data goes to e_max, not to target_addr
    output logic [127:0] write_data,
    output logic         value_valid,   // the exact sum of an output row
    output logic [15:0]  value_element,
    output logic [31:0]  value,
    output logic         fault,         // an activation is not finite
    output logic         done
);
    localparam logic [3:0] IDLE = 4'd0, SCAN = 4'd1, QUANTIZE = 4'd2, SCALES = 4'd3, FIRST = 4'd4, SECOND = 4'd5,
                           DRAIN = 4'd6, POST0 = 4'd7, POST1 = 4'd8, EMAX = 4'd9;
    localparam int STEPS = 32 / LANES;  // of a beat

    logic [15:0] n, k;
    logic        accm, findemax, w_scale;
    assign n = shape[31:16];
    assign k = shape[15:0];
    assign accm = word[24];
    assign findemax = word[25];
    assign w_scale = word[23];

    logic [3:0]   state;
    logic [15:0]  element;   // of the activations; of the scales in beats
    logic [10:0]  beat;      // of a row
    logic [$clog2(STEPS)-1:0] step;  // of a beat
    logic [15:0]  row;       // the first one of the pair
    logic [15:0]  window;
    logic [7:0]   top;       // largest exponent field
    logic [127:0] result;
    logic [15:0]  e_max;
    logic         has_second;
    logic         last_beat;
    assign has_second = row + 16'd1 < n;
    assign last_beat = {beat, 5'd0} + 16'd32 >= {1'b0, k} || beat == 11'd2047;

    // ---- Activations ----

    logic [255:0] activations[L2_WORDS / 4];  // INT8, 32 a row
    logic [127:0] weights[L2_WORDS / 4];      // the first row of a pair
    logic [127:0] scales[L2_WORDS];

    logic [7:0] word_top;
    logic       word_finite;
    always @* begin
        word_top = top;
        word_finite = 1'b1;
        for (int i = 0; i < 8; i++) begin
            if (element + 16'(i) < k && source[i*16+7 +: 8] > word_top)
                word_top = source[i*16+7 +: 8];
            if (element + 16'(i) < k && source[i*16+7 +: 8] == 8'hFF)
                word_finite = 1'b0;
        end
    end

    logic [7:0]        scale_mantissa;
    logic signed [9:0] scale_exponent;
    logic [31:0]       row_scale;
    pccx_act_scale act (
        .top(top), .act_scale(act_scale), .mantissa(scale_mantissa), .exponent(scale_exponent), .row_scale(row_scale));

    logic [7:0] q;
    pccx_quantize quantize (.x(source[element[2:0]*16 +: 16]), .scale_mantissa(scale_mantissa), .scale_exponent(scale_exponent), .q(q));
    assign source_addr = word[42:26] + {4'd0, element[15:3]};

    // ---- Products ----

    logic [127:0] beat0, beat1;
    logic [255:0] beat_q;
    assign beat0 = weights[beat[7:0]];
    assign beat1 = has_second ? stream_beat : 128'd0;
    assign beat_q = activations[beat[7:0]];

    logic                drain;
    logic [24*LANES-1:0] lane_sums0, lane_sums1;
    assign drain = state == DRAIN;
    for (genvar i = 0; i < LANES; i++) begin : mac
        logic [4:0]  index;
        logic [7:0]  q_lane;
        logic [15:0] position;
        assign index = 5'(32'(step) * LANES + i);
        assign position = {beat, index};
        assign q_lane = position < k ? beat_q[index*8 +: 8] : 8'd0;
        pccx_dual_mac unit (
            .clk(clk), .clear(drain || state == FIRST), .enable(state == SECOND),
            .w0(beat0[index*4 +: 4]), .w1(beat1[index*4 +: 4]), .q(q_lane),
            .sum0(lane_sums0[i*24 +: 24]), .sum1(lane_sums1[i*24 +: 24]));
    end

    logic [31:0] sum0, sum1, next_sum0, next_sum1;
    always @* begin
        next_sum0 = sum0;
        next_sum1 = sum1;
        for (int i = 0; i < LANES; i++) begin
            next_sum0 = next_sum0 + {{8{lane_sums0[i*24+23]}}, lane_sums0[i*24 +: 24]};
            next_sum1 = next_sum1 + {{8{lane_sums1[i*24+23]}}, lane_sums1[i*24 +: 24]};
        end
    end

    // ---- Results ----

    logic         posting;
    assign posting = state == POST0 || state == POST1;
    logic [15:0]  output_row;
    logic [2:0]   lane;
    logic [127:0] row_scales;
    logic [15:0]  weight_scale, y;
    logic         last_lane, last_row;
    assign output_row = state == POST1 ? row + 16'd1 : row;
    assign lane = output_row[2:0];
    assign target_addr = word[59:43] + {4'd0, output_row[15:3]};
    assign row_scales = scales[output_row[12:3]];
    assign weight_scale = w_scale ? row_scales[lane*16 +: 16] : 16'h3F80;
    assign last_row = output_row + 16'd1 == n;
    assign last_lane = last_row || lane == 3'd7;
    assign value_valid = posting;
    assign value_element = output_row;
    assign value = state == POST1 ? sum1 : sum0;
    pccx_post post (
        .sum(value), .row_scale(row_scale), .weight_scale(weight_scale),
        .old(target[lane*16 +: 16]), .accm(accm), .y(y));

    // A NaN is below every number, and -0 below +0.
    logic        y_nan, e_max_nan, larger;
    logic [15:0] y_order, e_max_order;
    assign y_nan = y[14:0] > 15'h7F80;
    assign e_max_nan = e_max[14:0] > 15'h7F80;
    assign y_order = y[15] ? ~y : {1'b1, y[14:0]};
    assign e_max_order = e_max[15] ? ~e_max : {1'b1, e_max[14:0]};
    assign larger = !y_nan && (e_max_nan || y_order > e_max_order);

    always @* begin
        write_valid = posting && last_lane;
        write_data = result | ({112'd0, y} << {lane, 4'd0});
        write_emax = 1'b0;
        if (state == EMAX) begin
            write_valid = 1'b1;
            write_data = {112'd0, e_max};
            write_emax = 1'b1;
        end
    end
    assign fault = state == SCAN && !word_finite;
    assign done = fault || (posting && last_row && !findemax) || state == EMAX;
    assign stream_take = state == SCALES || state == FIRST ||
                         (state == SECOND && has_second && step == ($clog2(STEPS))'(STEPS - 1));

    always_ff @(posedge clk) begin
        case (state)
            IDLE: begin
                element <= 16'd0;
                top <= 8'd0;
                row <= 16'd0;
                beat <= 11'd0;
                step <= 0;
                result <= 128'd0;
                e_max <= 16'h7FC0;
                if (start)
                    state <= SCAN;
            end
            SCAN: begin
                top <= word_top;
                element <= element + 16'd8;
                if ({1'b0, element} + 17'd8 >= {1'b0, k}) begin
                    element <= 16'd0;
                    state <= QUANTIZE;
                end
                if (!word_finite)
                    state <= IDLE;
            end
            QUANTIZE: begin
                activations[element[12:5]][element[4:0]*8 +: 8] <= q;
                element <= element + 16'd1;
                if (element + 16'd1 == k) begin
                    element <= 16'd0;
                    state <= w_scale ? SCALES : FIRST;
                end
            end
            SCALES: begin
                scales[element[9:0]] <= stream_beat;
                element <= element + 16'd1;
                if ({element[12:0], 3'd0} + 16'd8 >= n)
                    state <= FIRST;
            end
            FIRST: begin
                weights[beat[7:0]] <= stream_beat;
                beat <= beat + 11'd1;
                window <= 16'd0;
                sum0 <= 32'd0;
                sum1 <= 32'd0;
                if (last_beat) begin
                    beat <= 11'd0;
                    state <= SECOND;
                end
            end
            SECOND: begin
                step <= step + 1'b1;
                window <= window + 16'd1;
                if (step == ($clog2(STEPS))'(STEPS - 1)) begin
                    step <= 0;
                    beat <= beat + 11'd1;
                    if (last_beat || window >= 16'(WINDOW - 1))
                        state <= DRAIN;
                end
            end
            DRAIN: begin
                sum0 <= next_sum0;
                sum1 <= next_sum1;
                window <= 16'd0;
                state <= SECOND;
                if ({1'b0, beat, 5'd0} >= {1'b0, k}) begin
                    beat <= 11'd0;
                    state <= POST0;
                end
            end
            POST0, POST1: begin
                result <= last_lane ? 128'd0 : write_data;
                if (larger)
                    e_max <= y;
                state <= has_second && state == POST0 ? POST1 : FIRST;
                if (state == POST1)
                    row <= row + 16'd2;
                if (last_row)
                    state <= findemax ? EMAX : IDLE;
            end
            default:
                state <= IDLE;
        endcase
        if (rst)
            state <= IDLE;
    end
endmodule
