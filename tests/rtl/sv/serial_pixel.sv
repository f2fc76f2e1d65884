// The binary multipliers of one output pixel: operands whose weight has a bit set are added up, in the place of the bit.
`timescale 1ns / 1ps

module serial_pixel
  import npu_types::*;
#(
    parameter int TAPS = 9,
    parameter int INPUTS = 16
) (
    input  operand_t [TAPS-1:0][INPUTS-1:0] operands,
    input  logic     [TAPS-1:0][INPUTS-1:0] set,       // the bit of the weight that passes
    input  logic     [TAPS-1:0][       3:0] place,     // of that bit
    input  logic     [TAPS-1:0]             negative,  // it is the one of the sign
    input  logic     [TAPS-1:0][INPUTS-1:0] counts,    // there is a weight, once for all its bits
    input  operand_t                        zero,      // of the weights
    output sum_t                            products
);
  always_comb begin
    products = 0;
    for (int t = 0; t < TAPS; t++) begin
      automatic sum_t under = 0;
      automatic sum_t all = 0;
      for (int k = 0; k < INPUTS; k++) begin
        if (set[t][k]) under = under + 32'(operands[t][k]);
        if (counts[t][k]) all = all + 32'(operands[t][k]);
      end
      under = under <<< place[t];
      products = products + (negative[t] ? -under : under) - all * 32'(zero);
    end
  end
endmodule
