// R x C processing elements. What enters in cycle t reaches element (r, c) in cycle t + r + c.
//
// Operands enter on the left and move right, weights enter at the top and move down, sums move down. The last
// row in use adds straight into the accumulators: their registers are the last of the column. It drives the bus of the
// column, over which output-stationary sums leave too.
`timescale 1ns / 1ps

module systolic_array
  import npu_types::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4
) (
    input  logic                              clk,
    input  logic                              reset,
    input  logic                              shadow,
    input  logic                              output_stationary,
    input  logic                              depthwise,
    input  corner_t                           corner,
    input  wave_t                             wave,         // flags of the vector that enters
    input  operand_t [   ROWS-1:0][COLUMNS-1:0] operands,     // only depthwise uses more than column 0
    input  logic                              weight_valid,
    input  logic     [       15:0]            weight_row,
    input  operand_t [COLUMNS-1:0]            weights,
    output sum_t     [COLUMNS-1:0]            sums,         // weight stationary: below the last row in use
    output logic     [COLUMNS-1:0]            result_valid, // output stationary: a finished sum of any row
    output logic     [COLUMNS-1:0]            result_half,
    output logic     [COLUMNS-1:0][15:0]      result_row,
    output sum_t     [COLUMNS-1:0]            result,
    output logic                              fold_left,    // the last vector of a fold is in the last corner in use
    output logic                              group_left,
    output logic                              all_left
);
  wave_t [ROWS-1:0][COLUMNS:0] waves;
  weight_t [ROWS:0][COLUMNS-1:0] falling;
  sum_t [ROWS-1:0][COLUMNS-1:0] sum_out;
  sum_t [ROWS:0][COLUMNS-1:0] sum_in;

  assign sum_in[0]  = '0;
  assign fold_left  = waves[corner.rows-1][corner.columns-1].closes_fold;
  assign group_left = waves[corner.rows-1][corner.columns-1].closes_group;
  assign all_left   = waves[corner.rows-1][corner.columns-1].closes_all;
  assign sums       = sum_out[corner.rows-1];

  for (genvar c = 0; c < COLUMNS; c++) begin : g_top
    weight_t entering;
    assign entering = '{valid: weight_valid, row: weight_row, value: weights[c]};
    delay #(
        .WIDTH($bits(weight_t)),
        .DEPTH(c)
    ) skew (
        .clk,
        .reset,
        .in (entering),
        .out(falling[0][c])
    );
  end

  for (genvar r = 0; r < ROWS; r++) begin : g_row
    wave_t entering;
    always_comb begin
      entering = count_t'(r) < corner.rows ? wave : '0;
      entering.operand = operands[r][0];
    end
    delay #(
        .WIDTH($bits(wave_t)),
        .DEPTH(r)
    ) skew (
        .clk,
        .reset,
        .in (entering),
        .out(waves[r][0])
    );

    for (genvar c = 0; c < COLUMNS; c++) begin : g_column
      operand_t own;
      wave_t passed;
      // Nothing leaves the corner: the next instruction may use a larger one.
      assign waves[r][c+1] = count_t'(c) + 1 < corner.columns ? passed : '0;
      delay #(
          .WIDTH($bits(operand_t)),
          .DEPTH(r + c)
      ) own_skew (
          .clk,
          .reset,
          .in (operands[r][c]),
          .out(own)
      );
      processing_element #(
          .ROW(r)
      ) element (
          .clk,
          .reset,
          .shadow,
          .output_stationary,
          .depthwise,
          .wave_in    (waves[r][c]),
          .wave_out   (passed),
          .own_operand(own),
          .weight_in  (falling[r][c]),
          .weight_out (falling[r+1][c]),
          .sum_in     (sum_in[r][c]),
          .sum_out    (sum_out[r][c]),
          .sum_down   (sum_in[r+1][c])
      );
    end
  end

  // Output stationary: the rows of a column finish one cycle after the other and share a bus.
  always_comb begin
    for (int c = 0; c < COLUMNS; c++) begin
      result_valid[c] = 0;
      result_half[c]  = 0;
      result_row[c]   = 0;
      result[c]       = 0;
      for (int r = 0; r < ROWS; r++) begin
        if (waves[r][c].valid && waves[r][c].last) begin
          result_valid[c] = 1;
          result_half[c]  = waves[r][c].half;
          result_row[c]   = 16'(r);
          result[c]       = sum_out[r][c];
        end
      end
    end
  end

`ifndef SYNTHESIS
  // The bus of a column carries one sum per cycle.
  always_ff @(posedge clk) begin
    for (int c = 0; c < COLUMNS; c++) begin
      int driving;
      driving = 0;
      for (int r = 0; r < ROWS; r++) driving += int'(waves[r][c].valid && waves[r][c].last);
      if (driving > 1) $fatal(1, "column %0d: %0d sums on one bus", c, driving);
    end
  end
`endif
endmodule
