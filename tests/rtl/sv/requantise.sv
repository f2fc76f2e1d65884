// One lane of the output stage: int32 accumulator to code, or to a word of 16 or 32 bits. A sum of int16 values is that of
// their lower bytes, in the accumulator, and 256 times that of their upper bytes, from the pass before.
`timescale 1ns / 1ps

module requantise
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_floats::*;
(
    input  logic               in_float32,  // the multiplier is a float32, and there is no shift
    input  logic               single,      // rounding: one, or two
    input  logic               int16,
    input  sum_t               accumulator,
    input  sum_t               upper,
    input  parameters_t        parameters,
    input  logic signed [ 8:0] zero,
    input  logic signed [ 8:0] low,
    input  logic signed [ 8:0] high,
    input  logic        [ 1:0] wide,        // a code, 16 bits, 32 bits
    output code_t [3:0]        code         // low byte first
);
  wide_sum_t biased;
  sum_t multiplier, scaled;
  logic signed [7:0] shift;  // left if positive
  logic signed [15:0] least, most;
  logic no_number;
  always_comb begin
    multiplier = parameters[11:8];
    shift = parameters[12];
    least = int16 ? parameters[14:13] : 16'(low);
    most = int16 ? parameters[16:15] : 16'(high);
    if (int16) biased = (48'(upper) <<< 8) + 48'(accumulator) + $signed(parameters[5:0]);
    else biased = 48'(sum_t'(accumulator + $signed(parameters[3:0])));
    no_number = in_float32 && undefined(biased, multiplier);
    if (in_float32) scaled = rescaled(biased, multiplier);
    else if (!single) scaled = round_twice(32'(biased), multiplier, shift);
    else scaled = int16 ? round_wide_once(biased, multiplier, shift) : round_once(32'(biased), multiplier, shift);
    case (wide)
      0: code = {16'd0, no_number ? least : limited(scaled + 32'(zero), least, most)};
      1: code = {16'd0, scaled < -32768 ? 16'h8000 : scaled > 32767 ? 16'h7fff : scaled[15:0]};
      default: code = scaled;
    endcase
  end
endmodule
