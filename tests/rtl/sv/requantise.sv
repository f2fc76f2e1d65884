// One lane of the output stage: int32 accumulator to code, or to a word of 16 or 32 bits.
`timescale 1ns / 1ps

module requantise
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_floats::*;
(
    input  logic               in_float32,  // the multiplier is a float32, and there is no shift
    input  logic               single,      // rounding: one, or two
    input  sum_t               accumulator,
    input  sum_t               bias,
    input  sum_t               multiplier,
    input  logic signed [ 7:0] shift,       // left if positive
    input  logic signed [ 8:0] zero,
    input  logic signed [ 8:0] low,
    input  logic signed [ 8:0] high,
    input  logic        [ 1:0] wide,        // a code, 16 bits, 32 bits
    output code_t [3:0]        code         // low byte first
);
  sum_t biased, scaled;
  logic no_number;
  always_comb begin
    biased = accumulator + bias;
    no_number = in_float32 && undefined(biased, multiplier);
    if (in_float32) scaled = rescaled(biased, multiplier);
    else scaled = single ? round_once(biased, multiplier, shift) : round_twice(biased, multiplier, shift);
    case (wide)
      0: code = {24'd0, no_number ? low[7:0] : clamped(scaled + 32'(zero), low, high)};
      1: code = {16'd0, scaled < -32768 ? 16'h8000 : scaled > 32767 ? 16'h7fff : scaled[15:0]};
      default: code = scaled;
    endcase
  end
endmodule
