// SPDX-License-Identifier: Apache-2.0
// Rounds sign * mantissa * 2^exponent to a number with P significant bits.
//
// The lowest bit of the mantissa may stand for any lower bits that are not zero ("sticky"); then the leading one is at
// least P + 2 bits above it. SUBNORMALS = 0: a result below the smallest normal number, after rounding with an
// unbounded exponent, becomes a zero. LARGEST is the encoding of the largest finite number; beyond it SATURATE chooses
// between that number and the next encoding, infinity.
module fp_round #(
    parameter int W = 48,
    parameter int P = 24,
    parameter int EBITS = 8,
    parameter int EMIN = -126,
    parameter int LARGEST = 32'h7F7FFFFF,
    parameter int SUBNORMALS = 1,
    parameter int SATURATE = 0
) (
    input  logic               sign,
    input  logic signed [11:0] exponent,
    input  logic [W-1:0]       mantissa,
    input  logic [1:0]         mode,      // 0 nearest even, 1 to zero, 2 floor, 3 ceiling
    output logic [EBITS+P-1:0] y
);
    localparam int MBITS = 14 + P;

    // Leading one to bit W - 1; `top` is its exponent.
    logic [W-1:0]       aligned;
    logic signed [13:0] top;
    always @* begin
        aligned = mantissa;
        top = 14'(exponent) + 14'(W - 1);
        for (int step = $clog2(W) - 1; step >= 0; step--) begin
            if ((aligned >> (W - (1 << step))) == 0) begin
                aligned = aligned << (1 << step);
                top = top - 14'(1 << step);
            end
        end
    end

    // Subnormal numbers keep the exponent of the smallest normal one.
    logic [13:0]        excess;
    logic               denormal;
    logic [W-1:0]       lost;
    logic [W-1:0]       shifted;
    logic signed [13:0] base;
    assign denormal = SUBNORMALS != 0 && top < 14'(EMIN);
    assign excess = denormal ? 14'(EMIN) - top : 14'd0;
    assign lost = excess >= 14'(W) ? aligned : aligned & ~({W{1'b1}} << excess);
    assign shifted = (aligned >> excess) | {{(W - 1) {1'b0}}, lost != 0};
    assign base = denormal ? 14'(EMIN) : top;

    logic         guard;
    logic         rest;
    logic         up;
    logic [P:0]   rounded;
    assign guard = shifted[W-1-P];
    assign rest = |shifted[W-2-P:0];
    assign up = mode == 2'd0 ? guard && (rest || shifted[W-P]) :
                mode == 2'd1 ? 1'b0 :
                mode == 2'd2 ? sign && (guard || rest) : !sign && (guard || rest);
    assign rounded = {1'b0, shifted[W-1:W-P]} + {{P{1'b0}}, up};

    // The leading one of `rounded` adds 1 to the exponent field, a carry another 1.
    logic signed [MBITS-1:0] magnitude;
    logic signed [MBITS-1:0] offset;
    logic                    tiny;
    logic                    overflow;
    assign offset = MBITS'(base) - MBITS'(EMIN);
    assign magnitude = (offset <<< (P - 1)) + $signed({{(MBITS - P - 1) {1'b0}}, rounded});
    assign tiny = mantissa == 0 || (SUBNORMALS == 0 && magnitude < MBITS'(1 << (P - 1)));
    assign overflow = magnitude > MBITS'(LARGEST);
    always @* begin
        y = {sign, magnitude[EBITS+P-2:0]};
        if (overflow)
            y = {sign, (EBITS + P - 1)'(LARGEST + (SATURATE != 0 ? 0 : 1))};
        if (tiny)
            y = {sign, {(EBITS + P - 1) {1'b0}}};
    end
endmodule
