// One lane of the output stage: int32 accumulator to code. Written from the definitions of the LiteRT reference
// kernels (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT, single rounding), not from isa/arithmetic.py.
`timescale 1ns / 1ps

module requantise
  import npu_types::*;
(
    input  logic               single,      // rounding: one, or two
    input  sum_t               accumulator,
    input  sum_t               bias,
    input  sum_t               multiplier,
    input  logic signed [ 7:0] shift,       // left if positive
    input  logic signed [ 8:0] zero,
    input  logic signed [ 8:0] low,
    input  logic signed [ 8:0] high,
    output code_t              code
);
  function automatic sum_t round_twice(sum_t value, sum_t factor, logic signed [7:0] left);
    logic signed [63:0] product, nudged;
    sum_t moved, high_word, remainder, threshold;
    logic [31:0] mask;
    int right;
    right = left < 0 ? -int'(left) : 0;
    moved = left > 0 ? value <<< left : value;  // wraps to 32 bits
    product = 64'(moved) * 64'(factor);
    nudged = product + (product >= 0 ? 64'sd1 <<< 30 : 64'sd1 - (64'sd1 <<< 30));
    // Division by 2^31 toward zero.
    high_word = 32'(nudged >= 0 ? nudged >>> 31 : -((-nudged) >>> 31));
    mask = (32'd1 << right) - 1;
    remainder = high_word & mask;
    threshold = 32'(mask >> 1) + (high_word < 0 ? 1 : 0);
    return (high_word >>> right) + (remainder > threshold ? 1 : 0);
  endfunction

  function automatic sum_t round_once(sum_t value, sum_t factor, logic signed [7:0] left);
    logic signed [63:0] product;
    int right;
    right   = 31 - (left > 30 ? 30 : int'(left));
    product = 64'(value) * 64'(factor) + (64'sd1 <<< (right - 1));
    return 32'(product >>> right);
  endfunction

  sum_t biased, scaled, shifted;
  always_comb begin
    biased  = accumulator + bias;
    scaled  = single ? round_once(biased, multiplier, shift) : round_twice(biased, multiplier, shift);
    shifted = scaled + 32'(zero);
    if (shifted < 32'(low)) code = low[7:0];
    else if (shifted > 32'(high)) code = high[7:0];
    else code = shifted[7:0];
  end
endmodule
