// SPDX-License-Identifier: Apache-2.0
// The scale of an activation row, as mantissa * 2^exponent for the quantizer and in binary32: act_scale, or 2^(E-6) with
// E the largest exponent, which may be subnormal.
module pccx_act_scale (
    input  logic [7:0]        top,        // largest exponent field of the row
    input  logic [15:0]       act_scale,  // BF16; 0: dynamic
    output logic [7:0]        mantissa,
    output logic signed [9:0] exponent,
    output logic [31:0]       row_scale
);
    logic signed [9:0] dynamic_field;
    logic [22:0]       dynamic_fraction;
    assign dynamic_field = $signed({2'd0, top}) - 10'sd6;
    assign dynamic_fraction = 23'h400000 >> 4'(10'sd0 - dynamic_field);
    always @* begin
        mantissa = 8'd1;
        exponent = dynamic_field - 10'sd127;
        row_scale = {1'b0, dynamic_field[7:0], 23'd0};
        if (dynamic_field <= 10'sd0)
            row_scale = {9'd0, dynamic_fraction};
        if (top == 8'd0)
            row_scale = 32'h3F800000;
        if (act_scale != 16'd0) begin
            mantissa = {act_scale[14:7] != 8'd0, act_scale[6:0]};
            exponent = $signed({2'd0, act_scale[14:7]}) - 10'sd134 + {9'd0, act_scale[14:7] == 8'd0};
            row_scale = {act_scale, 16'd0};
        end
    end
endmodule
