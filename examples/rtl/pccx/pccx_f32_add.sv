// SPDX-License-Identifier: Apache-2.0
// y = a + b in binary32, rounded to nearest even; the only NaN is 0x7FC00000.
module pccx_f32_add (
    input  logic [31:0] a,
    input  logic [31:0] b,
    output logic [31:0] y
);
    logic               a_sign, b_sign, a_infinite, b_infinite, a_nan, b_nan;
    logic signed [11:0] a_exponent, b_exponent;
    logic [23:0]        a_mantissa, b_mantissa;
    f32_unpack unpack_a (.x(a), .sign(a_sign), .exponent(a_exponent), .mantissa(a_mantissa), .infinite(a_infinite), .nan(a_nan));
    f32_unpack unpack_b (.x(b), .sign(b_sign), .exponent(b_exponent), .mantissa(b_mantissa), .infinite(b_infinite), .nan(b_nan));

    logic               sign;
    logic signed [11:0] exponent;
    logic [52:0]        mantissa;
    logic [31:0]        rounded;
    fp_sum #(.M(24), .G(28)) sum (
        .a_sign(a_sign), .a_exponent(a_exponent), .a_mantissa(a_mantissa),
        .b_sign(b_sign), .b_exponent(b_exponent), .b_mantissa(b_mantissa),
        .floor(1'b0), .sign(sign), .exponent(exponent), .mantissa(mantissa));
    fp_round #(.W(53)) round (.sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(2'd0), .y(rounded));

    logic invalid;
    assign invalid = a_nan || b_nan || (a_infinite && b_infinite && a_sign != b_sign);
    assign y = invalid ? 32'h7FC00000 : a_infinite ? a : b_infinite ? b : rounded;
endmodule
