// SPDX-License-Identifier: Apache-2.0
// Two weights times one activation, in one multiplier and one 48-bit accumulator.
//
// The weights are packed as w1 * 2^24 + w0, so that an accumulator holds the two sums as sum1 * 2^24 + sum0. A product
// needs 11 bits with its sign; the 13 bits above are guard bits, so that 4,096 products add up without overflow. A
// negative sum0 has taken one from the upper half, which the outputs add again.
module pccx_dual_mac (
    input  logic               clk,
    input  logic               clear,
    input  logic               enable,
    input  logic [3:0]         w0,
    input  logic [3:0]         w1,
    input  logic [7:0]         q,
    output logic signed [23:0] sum0,
    output logic signed [23:0] sum1
);
    logic signed [28:0] packed_weights;
    logic signed [47:0] product;
    logic signed [47:0] accumulator;
    assign packed_weights = $signed({w1[3], w1, 24'd0}) + $signed({{25{w0[3]}}, w0});
    assign product = 48'(packed_weights) * 48'($signed(q));
    assign sum0 = accumulator[23:0];
    assign sum1 = accumulator[47:24] + {23'd0, accumulator[23]};
    always_ff @(posedge clk) begin
        if (enable)
            accumulator <= accumulator + product;
        if (clear)
            accumulator <= 48'd0;
    end
endmodule
