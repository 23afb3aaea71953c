// SPDX-License-Identifier: Apache-2.0
// One lane of ARITH and LOGIC. The lanes are sign extended; the result has the low bits of the lane.
module opennpu_int (
    input  logic        is_logic,
    input  logic [2:0]  funct3,
    input  logic [1:0]  width,
    input  logic        saturate,
    input  logic [31:0] a,
    input  logic [31:0] b,
    output logic [31:0] y
);
    logic signed [63:0] wide_a, wide_b, exact, largest, clamped;
    assign wide_a = {{32{a[31]}}, a};
    assign wide_b = {{32{b[31]}}, b};
    assign largest = width == 2'd0 ? 64'sh7F : width == 2'd1 ? 64'sh7FFF : 64'sh7FFFFFFF;
    always @* begin
        case (funct3)
            3'd0: exact = wide_a + wide_b;
            3'd1: exact = wide_a - wide_b;
            3'd2: exact = wide_a * wide_b;
            3'd3: exact = -wide_a;
            3'd4: exact = a[31] ? -wide_a : wide_a;
            3'd5: exact = wide_a > wide_b ? wide_a : wide_b;
            3'd6: exact = wide_a < wide_b ? wide_a : wide_b;
            3'd7: exact = wide_b - wide_a;
        endcase
        clamped = exact;
        if (exact > largest)
            clamped = largest;
        if (exact < ~largest)
            clamped = ~largest;
    end

    // Shifts work on the bits of the lane.
    logic [5:0]  bits;
    logic [4:0]  amount, back;
    logic [31:0] mask, lane;
    logic [31:0] shifted;
    assign bits = width == 2'd0 ? 6'd8 : width == 2'd1 ? 6'd16 : 6'd32;
    assign mask = width == 2'd0 ? 32'hFF : width == 2'd1 ? 32'hFFFF : 32'hFFFFFFFF;
    assign amount = b[4:0] & 5'(bits - 6'd1);
    assign back = 5'(bits - {1'b0, amount}) & 5'(bits - 6'd1);
    assign lane = a & mask;
    always @* begin
        case (funct3)
            3'd0: shifted = lane << amount;
            3'd1: shifted = lane >> amount;
            3'd2: shifted = $signed(a) >>> amount;
            3'd3: shifted = (lane << amount) | (lane >> back);
            3'd4: shifted = a ^ b;
            3'd5: shifted = ~a;
            3'd6: shifted = a | b;
            3'd7: shifted = a & b;
        endcase
    end
    assign y = is_logic ? shifted : saturate ? clamped[31:0] : exact[31:0];
endmodule
