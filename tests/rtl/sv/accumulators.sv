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

  // The address follows its vector: R - 1 cycles to the last row, one more per column.
  delay #(
      .WIDTH($bits(store_t)),
      .DEPTH(ROWS - 1)
  ) to_last_row (
      .clk,
      .reset,
      .in (store),
      .out(column_store[0])
  );

  for (genvar c = 0; c < COLUMNS; c++) begin : g_column
    delay #(
        .WIDTH($bits(store_t)),
        .DEPTH(1)
    ) to_next_column (
        .clk,
        .reset,
        .in (column_store[c]),
        .out(column_store[c+1])
    );
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
