// SPDX-License-Identifier: Apache-2.0
// One lane of CVT but integers to binary32. The lane is sign extended from its class.
module opennpu_cvt (
    input  logic [2:0]  source,
    input  logic [2:0]  target,
    input  logic        saturate,
    input  logic [1:0]  mode,
    input  logic        e5m2,
    input  logic [31:0] a,
    output logic [31:0] y
);
    import opennpu_pkg::*;

    logic               sign, zero;
    logic [23:0]        mantissa;
    logic signed [11:0] exponent;  // of the mantissa's lowest bit
    assign sign = a[31];
    assign zero = a[30:23] == 8'd0 || a[30:23] == 8'hFF;
    assign mantissa = zero ? 24'd0 : {1'b1, a[22:0]};
    assign exponent = $signed({4'd0, a[30:23]}) - 12'sd150;

    // To an integer: two bits below the point, the lower one sticky. From 2^40 on the low bits are zero.
    logic               far;
    logic [5:0]         left, right;
    logic [65:0]        moved, lost, scaled;
    logic               up;
    logic [64:0]        magnitude;
    logic signed [65:0] integer_value, largest, clamped;
    assign far = !zero && exponent > 12'sd38;
    assign left = exponent < 12'sd0 ? 6'd0 : exponent[5:0];
    assign right = exponent >= 12'sd0 ? 6'd0 : exponent < -12'sd30 ? 6'd30 : 6'(12'sd0 - exponent);
    assign moved = {40'd0, mantissa, 2'd0} << left;
    assign lost = moved & ~({66{1'b1}} << right);
    assign scaled = (moved >> right) | {65'd0, lost != 66'd0};
    assign up = mode == 2'd0 ? scaled[1] && (scaled[0] || scaled[2]) :
                mode == 2'd1 ? 1'b0 :
                mode == 2'd2 ? sign && scaled[1:0] != 2'd0 : !sign && scaled[1:0] != 2'd0;
    assign magnitude = far ? {1'b1, 64'd0} : {1'b0, scaled[65:2]} + {64'd0, up};
    assign integer_value = sign ? -$signed({1'b0, magnitude}) : $signed({1'b0, magnitude});
    assign largest = target == S8 ? 66'sh7F : target == S16 ? 66'sh7FFF : 66'sh7FFFFFFF;

    // Integers to narrower ones are clamped by the same comparison.
    logic signed [65:0] number;
    assign number = source == F32 ? integer_value : {{34{a[31]}}, a};
    always @* begin
        clamped = number;
        if (saturate && number > largest)
            clamped = largest;
        if (saturate && number < ~largest)
            clamped = ~largest;
    end

    logic [15:0] bf16;
    logic [7:0]  e4m3_bits, e5m2_bits;
    fp_round #(.W(24), .P(8), .LARGEST(32'h7F7F), .SUBNORMALS(0), .SATURATE(1)) round_bf16 (
        .sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(mode), .y(bf16));
    fp_round #(.W(24), .P(4), .EBITS(4), .EMIN(-6), .LARGEST(32'h7E), .SUBNORMALS(0), .SATURATE(1)) round_e4m3 (
        .sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(mode), .y(e4m3_bits));
    fp_round #(.W(24), .P(3), .EBITS(5), .EMIN(-14), .LARGEST(32'h7B), .SUBNORMALS(0), .SATURATE(1)) round_e5m2 (
        .sign(sign), .exponent(exponent), .mantissa(mantissa), .mode(mode), .y(e5m2_bits));

    // BF16 and BF8 to binary32
    logic        from_bf8_zero;
    logic [7:0]  from_bf8_exponent;
    logic [2:0]  from_bf8_fraction;
    logic [31:0] from_bf8, from_bf16;
    assign from_bf8_zero = e5m2 ? a[6:2] == 5'd0 || a[6:2] == 5'h1F : a[6:3] == 4'd0 || a[6:0] == 7'h7F;
    assign from_bf8_exponent = e5m2 ? {3'd0, a[6:2]} + 8'd112 : {4'd0, a[6:3]} + 8'd120;
    assign from_bf8_fraction = e5m2 ? {a[1:0], 1'b0} : a[2:0];
    assign from_bf8 = {a[7], from_bf8_zero ? 31'd0 : {from_bf8_exponent, from_bf8_fraction, 20'd0}};
    assign from_bf16 = {a[15], a[14:7] == 8'd0 || a[14:7] == 8'hFF ? 31'd0 : {a[14:0], 16'd0}};

    always @* begin
        case (target)
            BF16: y = {16'd0, bf16};
            BF8: y = {24'd0, e5m2 ? e5m2_bits : e4m3_bits};
            F32: y = source == BF16 ? from_bf16 : from_bf8;
            S32: y = source == F32 ? clamped[31:0] : a;
            default: y = clamped[31:0];
        endcase
    end
endmodule
