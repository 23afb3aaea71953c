// SPDX-License-Identifier: Apache-2.0
// Binary32 to BF16, rounded to nearest even; a tiny result becomes a zero of its sign.
module pccx_f32_to_bf16 (
    input  logic [31:0] x,
    output logic [15:0] y
);
    logic [31:0] rounded;
    logic        nan;
    logic        tiny;
    assign rounded = x + 32'h7FFF + {31'd0, x[16]};
    assign nan = x[30:0] > 31'h7F800000;
    assign tiny = x[30:0] < 31'h007FC000;  // 2^-126 (1 - 2^-9) rounds to the smallest normal number
    assign y = nan ? 16'h7FC0 : tiny ? {x[31], 15'd0} : rounded[31:16];
endmodule
