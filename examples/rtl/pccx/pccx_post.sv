// SPDX-License-Identifier: Apache-2.0
// A GEMV result from its exact sum: each step is rounded to binary32, the last one to BF16.
module pccx_post (
    input  logic signed [31:0] sum,
    input  logic [31:0]        row_scale,     // of the activations
    input  logic [15:0]        weight_scale,  // BF16
    input  logic [15:0]        old,           // BF16, with accm
    input  logic               accm,
    output logic [15:0]        y
);
    logic        negative;
    logic [31:0] magnitude, converted, scaled, weighted, total;
    logic [15:0] unused_scaled, unused_weighted;
    assign negative = sum[31];
    assign magnitude = negative ? 32'd0 - sum : sum;
    fp_round #(.W(32)) convert (.sign(negative), .exponent(12'sd0), .mantissa(magnitude), .mode(2'd0), .y(converted));
    pccx_f32_scale scale_row (.a(converted), .b(row_scale), .divide(1'b0), .y(scaled), .y_bf16(unused_scaled));
    pccx_f32_scale scale_weight (.a(scaled), .b({weight_scale, 16'd0}), .divide(1'b0), .y(weighted), .y_bf16(unused_weighted));
    pccx_f32_add add_old (.a(weighted), .b({old, 16'd0}), .y(total));
    pccx_f32_to_bf16 narrow (.x(accm ? total : weighted), .y(y));
endmodule
