// SPDX-License-Identifier: Apache-2.0
// One lane of FP and FMA, and the conversion of an integer to binary32: a * b + c, rounded once. NaN, infinities and
// subnormal numbers count as zeros of their sign, and the largest finite number is the result of an overflow.
module opennpu_fp (
    input  logic        convert,   // y is the integer a
    input  logic        fused,     // FMA; otherwise FP
    input  logic [2:0]  funct3,
    input  logic [1:0]  mode,
    input  logic [31:0] a,
    input  logic [31:0] b,
    input  logic [31:0] c,
    output logic [31:0] y
);
    logic [31:0] flushed_a, flushed_b, flushed_c;
    assign flushed_a = a[30:23] == 8'd0 || a[30:23] == 8'hFF ? {a[31], 31'd0} : a;
    assign flushed_b = b[30:23] == 8'd0 || b[30:23] == 8'hFF ? {b[31], 31'd0} : b;
    assign flushed_c = c[30:23] == 8'd0 || c[30:23] == 8'hFF ? {c[31], 31'd0} : c;

    // The factors and the addend. A product is a * b + 0 with the product's sign, a sum a * 1 + b.
    logic        add, product_sign, addend_sign, addend_zero;
    logic [31:0] factor, addend;
    assign add = !fused && funct3 != 3'd2;
    assign factor = add ? 32'h3F800000 : flushed_b;
    assign addend = fused ? flushed_c : flushed_b;
    assign product_sign = flushed_a[31] ^ factor[31] ^ (fused && funct3[1]);
    assign addend_zero = addend[30:0] == 31'd0 || (!fused && !add);
    assign addend_sign = !fused && !add ? product_sign : addend[31] ^ funct3[0];

    logic signed [11:0] product_exponent, addend_exponent, sum_exponent;
    logic [23:0]        a_mantissa, factor_mantissa, addend_mantissa;
    logic [47:0]        product;
    logic               sum_sign;
    logic [76:0]        sum;
    assign a_mantissa = flushed_a[30:0] == 31'd0 ? 24'd0 : {1'b1, flushed_a[22:0]};
    assign factor_mantissa = factor[30:0] == 31'd0 ? 24'd0 : {1'b1, factor[22:0]};
    assign addend_mantissa = addend_zero ? 24'd0 : {1'b1, addend[22:0]};
    assign product = {24'd0, a_mantissa} * {24'd0, factor_mantissa};
    assign product_exponent = $signed({4'd0, flushed_a[30:23]}) + $signed({4'd0, factor[30:23]}) - 12'sd300;
    assign addend_exponent = $signed({4'd0, addend[30:23]}) - 12'sd174;
    fp_sum #(.M(48), .G(28)) add_up (
        .a_sign(product_sign), .a_exponent(product_exponent), .a_mantissa(product),
        .b_sign(addend_sign), .b_exponent(addend_exponent), .b_mantissa({addend_mantissa, 24'd0}),
        .floor(mode == 2'd2), .sign(sum_sign), .exponent(sum_exponent), .mantissa(sum));

    logic [31:0] magnitude, rounded;
    assign magnitude = a[31] ? 32'd0 - a : a;
    fp_round #(.W(77), .SUBNORMALS(0), .SATURATE(1)) round (
        .sign(convert ? a[31] : sum_sign), .exponent(convert ? 12'sd0 : sum_exponent),
        .mantissa(convert ? {45'd0, magnitude} : sum), .mode(mode), .y(rounded));

    // +0 is above -0.
    logic [31:0] a_order, b_order;
    logic        above;
    assign a_order = flushed_a[31] ? ~flushed_a : {1'b1, flushed_a[30:0]};
    assign b_order = flushed_b[31] ? ~flushed_b : {1'b1, flushed_b[30:0]};
    assign above = a_order > b_order;
    always @* begin
        y = rounded;
        if (!fused && !convert && funct3 == 3'd3)
            y = {!a[31], a[30:0]};
        if (!fused && !convert && funct3 == 3'd4)
            y = {1'b0, a[30:0]};
        if (!fused && !convert && funct3 == 3'd5)
            y = above ? flushed_a : flushed_b;
        if (!fused && !convert && funct3 == 3'd6)
            y = above ? flushed_b : flushed_a;
    end
endmodule
