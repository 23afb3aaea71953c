// SPDX-License-Identifier: Apache-2.0
// INT8 of a BF16 activation: x / (scale_mantissa * 2^scale_exponent), rounded to nearest even, clamped to +-127.
module pccx_quantize (
    input  logic [15:0]       x,
    input  logic [7:0]        scale_mantissa,  // not 0
    input  logic signed [9:0] scale_exponent,
    output logic [7:0]        q
);
    logic signed [9:0] shift;
    logic [7:0]        mantissa;
    assign mantissa = x[14:7] == 8'd0 ? 8'd0 : {1'b1, x[6:0]};
    assign shift = $signed({2'd0, x[14:7]}) - 10'sd134 - scale_exponent;

    // From 8 on the quotient is at least 128 * 256 / 255, below -9 it is less than a half.
    logic        above, below;
    logic [3:0]  up, down;
    logic [14:0] dividend, quotient;
    logic [16:0] divisor, remainder;
    assign above = shift >= 10'sd8;
    assign below = shift < -10'sd9;
    assign up = shift < 10'sd0 ? 4'd0 : shift[3:0];
    assign down = shift < 10'sd0 ? 4'(10'sd0 - shift) : 4'd0;
    assign dividend = {7'd0, mantissa} << up;
    assign divisor = {9'd0, scale_mantissa} << down;
    assign quotient = 15'({2'd0, dividend} / divisor);
    assign remainder = {2'd0, dividend} - {2'd0, quotient} * divisor;

    logic        round_up;
    logic [14:0] rounded;
    logic [7:0]  magnitude;
    assign round_up = {remainder, 1'b0} > {1'b0, divisor} || ({remainder, 1'b0} == {1'b0, divisor} && quotient[0]);
    assign rounded = quotient + {14'd0, round_up};
    always @* begin
        magnitude = rounded[7:0];
        if (above || rounded > 15'd127)
            magnitude = 8'd127;
        if (below || mantissa == 8'd0)
            magnitude = 8'd0;
        q = x[15] ? 8'd0 - magnitude : magnitude;
    end
endmodule
