// SPDX-License-Identifier: Apache-2.0
// The exact product a * b, or quotient a / b with `divide`, rounded once to binary32 and once to BF16. Only the top 16
// bits of a divisor count, which is a normal BF16 number, and anything divided by a zero is +0.
module pccx_f32_scale (
    input  logic [31:0] a,
    input  logic [31:0] b,
    input  logic        divide,
    output logic [31:0] y,
    output logic [15:0] y_bf16
);
    logic               a_sign, b_sign, a_infinite, b_infinite, a_nan, b_nan;
    logic signed [11:0] a_exponent, b_exponent;
    logic [23:0]        a_mantissa, b_mantissa;
    f32_unpack unpack_a (.x(a), .sign(a_sign), .exponent(a_exponent), .mantissa(a_mantissa), .infinite(a_infinite), .nan(a_nan));
    f32_unpack unpack_b (.x(b), .sign(b_sign), .exponent(b_exponent), .mantissa(b_mantissa), .infinite(b_infinite), .nan(b_nan));

    // The quotient of the mantissas has 32 bits below the point and a sticky one.
    logic [55:0]        dividend;
    logic [7:0]         divisor;
    logic [55:0]        quotient;
    logic               remainder;
    logic [56:0]        mantissa;
    logic signed [11:0] exponent;
    logic               sign;
    assign dividend = {a_mantissa, 32'd0};
    assign divisor = b_mantissa[23:16] == 8'd0 ? 8'd1 : b_mantissa[23:16];
    assign quotient = dividend / {48'd0, divisor};
    assign remainder = quotient * {48'd0, divisor} != dividend;
    assign sign = a_sign ^ b_sign;
    always @* begin
        mantissa = {9'd0, {24'd0, a_mantissa} * {24'd0, b_mantissa}};
        exponent = a_exponent + b_exponent;
        if (divide) begin
            mantissa = {quotient, remainder};
            exponent = a_exponent - b_exponent - 12'sd49;
        end
    end

    logic [31:0] rounded;
    logic [15:0] rounded_bf16;
    fp_round #(.W(57)) round (.sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(2'd0), .y(rounded));
    fp_round #(.W(57), .P(8), .LARGEST(32'h7F7F), .SUBNORMALS(0)) round_bf16 (
        .sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(2'd0), .y(rounded_bf16));

    logic a_zero, b_zero, invalid, infinite, zero;
    assign a_zero = a_mantissa == 24'd0;
    assign b_zero = b_mantissa == 24'd0;
    always @* begin
        invalid = a_nan || b_nan || (a_infinite && b_zero) || (b_infinite && a_zero);
        infinite = a_infinite || b_infinite;
        zero = 1'b0;
        if (divide) begin
            invalid = a_nan || b_nan || (a_infinite && b_infinite);
            infinite = a_infinite;
            zero = b_infinite;
        end
        y = rounded;
        y_bf16 = rounded_bf16;
        if (zero) begin
            y = {sign, 31'd0};
            y_bf16 = {sign, 15'd0};
        end
        if (infinite) begin
            y = {sign, 31'h7F800000};
            y_bf16 = {sign, 15'h7F80};
        end
        if (invalid) begin
            y = 32'h7FC00000;
            y_bf16 = 16'h7FC0;
        end
        if (divide && b_zero) begin
            y = 32'd0;
            y_bf16 = 16'd0;
        end
    end
endmodule
