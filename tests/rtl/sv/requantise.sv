// One lane of the output stage: int32 accumulator to code, or to a word of 16 bits.
`timescale 1ns / 1ps

module requantise
  import npu_types::*;
  import npu_arithmetic::*;
(
    input  logic               single,      // rounding: one, or two
    input  sum_t               accumulator,
    input  sum_t               bias,
    input  sum_t               multiplier,
    input  logic signed [ 7:0] shift,       // left if positive
    input  logic signed [ 8:0] zero,
    input  logic signed [ 8:0] low,
    input  logic signed [ 8:0] high,
    input  logic               wide,
    output code_t [1:0]        code         // low byte first; of a code the low one
);
  sum_t biased, scaled;
  always_comb begin
    biased  = accumulator + bias;
    scaled  = single ? round_once(biased, multiplier, shift) : round_twice(biased, multiplier, shift);
    code    = {8'd0, clamped(scaled + 32'(zero), low, high)};
    if (wide) code = scaled < -32768 ? 16'h8000 : scaled > 32767 ? 16'h7fff : scaled[15:0];
  end
endmodule
