// Two halves of int32 accumulators per column: the array fills one while the output stage empties the other.
`timescale 1ns / 1ps

module accumulators
  import npu_types::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4,
    parameter int DEPTH = 64,
    parameter int LANES = 4
) (
    input  logic                     clk,
    input  logic                     reset,
    input  logic                     output_stationary,
    input  corner_t                  corner,
    input  store_t                   store,         // of the vector that enters the array now
    input  sum_t [COLUMNS-1:0]       sums,
    input  logic [COLUMNS-1:0]       result_valid,
    input  logic [COLUMNS-1:0]       result_half,
    input  logic [COLUMNS-1:0][15:0] result_row,
    input  sum_t [COLUMNS-1:0]       result,
    input  logic                     read_half,
    input  count_t                   read_pixel,
    input  count_t                   read_column,   // first of LANES columns
    output sum_t [LANES-1:0]         read
);
  sum_t memory[2][COLUMNS][DEPTH];
  store_t [COLUMNS:0] column_store;

  // The address follows its vector: R - 1 cycles to the last row in use, one more per column.
  // Nothing leaves the corner.
  store_t [ROWS-1:0] row_store;
  store_t [COLUMNS:0] passed;
  assign row_store[0] = store;
  for (genvar r = 1; r < ROWS; r++) begin : g_row
    delay #(
        .WIDTH($bits(store_t)),
        .DEPTH(1)
    ) to_next_row (
        .clk,
        .reset,
        .in (count_t'(r) < corner.rows ? row_store[r-1] : '0),
        .out(row_store[r])
    );
  end
  assign column_store[0] = row_store[corner.rows-1];

  for (genvar c = 0; c < COLUMNS; c++) begin : g_column
    delay #(
        .WIDTH($bits(store_t)),
        .DEPTH(1)
    ) to_next_column (
        .clk,
        .reset,
        .in (column_store[c]),
        .out(passed[c+1])
    );
    assign column_store[c+1] = count_t'(c) + 1 < corner.columns ? passed[c+1] : '0;
    always_ff @(posedge clk) begin
      if (output_stationary) begin
        if (result_valid[c] && int'(result_row[c]) < DEPTH) begin
          memory[result_half[c]][c][result_row[c]] <= result[c];
        end
      end else if (column_store[c].valid) begin
        memory[column_store[c].half][c][column_store[c].pixel] <=
            (column_store[c].overwrite ? 0 : memory[column_store[c].half][c][column_store[c].pixel]) + sums[c];
      end
    end
  end

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      read[lane] = 0;
      if (read_column + count_t'(lane) < COLUMNS) begin
        read[lane] = memory[read_half][read_column+count_t'(lane)][read_pixel];
      end
    end
  end
endmodule
