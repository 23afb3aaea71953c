// SPDX-License-Identifier: Apache-2.0
// The sum of two numbers sign * mantissa * 2^exponent, ready for fp_round.
//
// The leading one of a mantissa is in one of its two top bits, unless its exponent is the smallest that occurs. G bits
// below the larger number are exact, the lowest one is sticky. A sum of zero is +0, or -0 with `floor`, unless both
// signs are equal.
module fp_sum #(
    parameter int M = 24,
    parameter int G = 28
) (
    input  logic               a_sign,
    input  logic signed [11:0] a_exponent,
    input  logic [M-1:0]       a_mantissa,
    input  logic               b_sign,
    input  logic signed [11:0] b_exponent,
    input  logic [M-1:0]       b_mantissa,
    input  logic               floor,
    output logic               sign,
    output logic signed [11:0] exponent,
    output logic [M+G:0]       mantissa
);
    // The number with the larger exponent comes first; a zero comes last.
    logic               swap;
    logic               first_sign;
    logic               second_sign;
    logic signed [11:0] second_exponent;
    logic [M-1:0]       first_mantissa;
    logic [M-1:0]       second_mantissa;
    assign swap = a_mantissa == 0 || (b_mantissa != 0 && b_exponent > a_exponent);
    assign first_sign = swap ? b_sign : a_sign;
    assign second_sign = swap ? a_sign : b_sign;
    assign second_exponent = swap ? a_exponent : b_exponent;
    assign first_mantissa = swap ? b_mantissa : a_mantissa;
    assign second_mantissa = swap ? a_mantissa : b_mantissa;

    logic [11:0]  distance;
    logic [M+G:0] first;
    logic [M+G:0] second;
    logic [M+G:0] lost;
    logic [M+G:0] aligned;
    logic [M+G:0] difference;
    logic [11:0]  first_exponent;
    assign first_exponent = swap ? b_exponent : a_exponent;
    assign distance = first_exponent - second_exponent;
    assign first = {1'b0, first_mantissa, {G{1'b0}}};
    assign second = {1'b0, second_mantissa, {G{1'b0}}};
    assign lost = distance > 12'(M + G) ? second : second & ~({(M + G + 1) {1'b1}} << distance);
    assign aligned = (second >> distance) | {{(M + G) {1'b0}}, lost != 0};

    logic subtract;
    logic negative;
    assign subtract = first_sign != second_sign;
    assign negative = subtract && aligned > first;
    assign difference = negative ? aligned - first : first - aligned;
    assign mantissa = subtract ? difference : first + aligned;
    assign exponent = first_exponent - 12'(G);
    always @* begin
        sign = first_sign ^ negative;
        if (subtract && mantissa == 0)
            sign = floor;
    end
endmodule
