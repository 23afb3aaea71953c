// SPDX-License-Identifier: Apache-2.0
// The parts of a binary32 number: mantissa * 2^exponent, subnormal numbers included.
module f32_unpack (
    input  logic [31:0]        x,
    output logic               sign,
    output logic signed [11:0] exponent,
    output logic [23:0]        mantissa,
    output logic               infinite,
    output logic               nan
);
    logic subnormal;
    assign subnormal = x[30:23] == 8'd0;
    assign sign = x[31];
    assign exponent = $signed({4'd0, x[30:23]}) - 12'sd150 + {11'd0, subnormal};
    assign mantissa = {!subnormal, x[22:0]};
    assign infinite = x[30:23] == 8'hFF && x[22:0] == 23'd0;
    assign nan = x[30:23] == 8'hFF && x[22:0] != 23'd0;
endmodule
