// One multiplier of the array with its weight registers and, output stationary, its sum.
`timescale 1ns / 1ps

module processing_element
  import npu_types::*;
#(
    parameter int ROW = 0
) (
    input  logic     clk,
    input  logic     reset,
    input  logic     shadow,
    input  logic     output_stationary,
    input  logic     depthwise,
    input  wave_t    wave_in,
    output wave_t    wave_out,
    input  operand_t own_operand,  // depthwise: each column has operands of its own
    input  weight_t  weight_in,
    output weight_t  weight_out,
    input  sum_t     sum_in,
    output sum_t     sum_out,
    output sum_t     sum_down      // one cycle later, to the next row
);
  operand_t waiting, resting, weight, operand;
  sum_t kept, product;

  // The swap arrives with or before the first operand of a fold, never after.
  assign weight = output_stationary ? weight_in.value : (wave_in.swap && shadow) ? waiting : resting;
  assign operand = depthwise ? own_operand : wave_in.operand;
  assign product = operand * weight;
  assign sum_out = output_stationary ? (wave_in.first ? product : kept + product) : sum_in + product;

  always_ff @(posedge clk) begin
    if (reset) begin
      wave_out   <= '0;
      weight_out <= '0;
      waiting    <= '0;
      resting    <= '0;
      kept       <= '0;
      sum_down   <= '0;
    end else begin
      wave_out   <= wave_in;
      weight_out <= weight_in;
      sum_down   <= sum_out;
      if (wave_in.valid) kept <= sum_out;
      if (wave_in.swap && shadow) resting <= waiting;
      if (weight_in.valid && weight_in.row == 16'(ROW)) begin
        if (shadow) waiting <= weight_in.value;
        else resting <= weight_in.value;
      end
    end
  end
endmodule
