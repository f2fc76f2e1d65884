// Brings rows of weights, one weight per column, through a port of `port` bytes per cycle.
//
// Weight stationary: all rows in use per fold, those behind the dot product empty. Output stationary: one row for every
// value of the dot product. A row takes a cycle for every `port` weights of the columns in use, and at least one.
`timescale 1ns / 1ps

module weight_loader
  import npu_types::*;
#(
    parameter int COLUMNS = 4,
    parameter int PORT = 4
) (
    input  logic                          clk,
    input  logic                          reset,
    input  logic                          start,
    input  logic                          output_stationary,
    input  logic                          depthwise,
    input  fold_t                         fold,
    input  count_t                        rows,         // in use
    input  count_t                        all_channels,
    input  count_t                        all_inner,
    input  count_t                        port,
    input  address_t                      base,
    input  count_t                        stride,       // between rows of weights of all channels; 0: by channels
    input  logic                          code_signed,
    input  logic signed     [        8:0] zero,
    input  logic                          take,         // a complete row is taken this cycle
    output logic                          active,
    output logic                          complete,     // the row in `weights` is complete
    output logic            [       15:0] row,
    output operand_t        [COLUMNS-1:0] weights,
    output logic                          finishing,    // complete, and the last row of the fold
    output address_t        [   PORT-1:0] address,
    output logic            [   PORT-1:0] enable,
    input  code_t           [   PORT-1:0] data
);
  count_t index, column;
  operand_t [COLUMNS-1:0] collected;
  count_t columns_here, rows_here;

  assign rows_here = output_stationary ? all_inner : rows;
  assign columns_here = !output_stationary && index >= fold.rows ? 0 : fold.columns;
  assign complete = active && column + port >= columns_here;
  assign row = 16'(index);
  assign finishing = complete && take && index == rows_here - 1;

  always_comb begin
    address = '0;
    enable  = '0;
    for (int p = 0; p < PORT; p++) begin
      automatic count_t at = column + count_t'(p);
      automatic count_t k = output_stationary ? index : fold.inner + index;
      if (active && count_t'(p) < port && at < columns_here) begin
        enable[p] = 1;
        address[p] = depthwise ? base + address_t'(k * all_channels + fold.channel + at)
                   : stride != 0 ? base + address_t'(k * stride + fold.channel + at)
                                 : base + address_t'((fold.channel + at) * all_inner + k);
      end
    end
  end

  always_comb begin
    weights = column == 0 ? '0 : collected;
    for (int p = 0; p < PORT; p++) begin
      if (enable[p]) weights[column+count_t'(p)] = {code_signed && data[p][7], data[p]} - zero;
    end
  end

  always_ff @(posedge clk) begin
    if (reset) active <= 0;
    else if (start) begin
      active <= 1;
      index  <= 0;
      column <= 0;
    end else if (active) begin
      if (complete && take) begin
        index  <= index + 1;
        column <= 0;
        if (finishing) active <= 0;
      end else begin
        column <= column + port;
      end
    end
    collected <= weights;
  end
endmodule
