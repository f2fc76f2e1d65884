// Empties finished groups: `lanes` elements per cycle, pixel by pixel, channels inside.
`timescale 1ns / 1ps

module output_stage
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int COLUMNS = 4,
    parameter int LANES = 4
) (
    input  logic                          clk,
    input  logic                          reset,
    input  window_t                       i,
    input  logic     [ 1:0]               wide,           // results of 1, 2 or 4 bytes
    input  logic                          in_float32,     // scales are float32 numbers
    input  logic                          int16,
    input  logic                          keeps,          // the sums for the next pass, and writes nothing
    input  count_t                        lanes,
    input  logic                          push,           // the array begins to write a group
    input  group_t                        pushed,
    input  logic                          pushed_half,
    input  logic                          group_left,     // the oldest group in the array is complete
    output logic                          half,           // being emptied
    output count_t                        pixel,
    output count_t                        column,
    input  sum_t     [LANES-1:0]          read,
    output logic     [      1:0][1:0]     owners,         // groups that each half holds or is promised to
    output count_t                        cycles_left,    // of the half being emptied, this cycle included
    output logic                          working,
    output logic                          finishing,      // last cycle of a group
    output address_t [LANES-1:0][PARAMETERS-1:0] parameter_address,
    input  parameters_t [LANES-1:0]       parameter_data,
    output logic     [LANES-1:0][3:0]     write,          // bytes, the lowest first
    output address_t [LANES-1:0]          write_address,  // of the low byte
    output code_t    [LANES-1:0][3:0]     write_data
);
  // At most three groups: one being emptied, one finished, one that has begun.
  localparam int SLOTS = 4;
  group_t [SLOTS-1:0] slots;
  logic [1:0] head, tail;
  logic [2:0] complete;  // groups that wait to be emptied
  group_t group;
  place_t place, next_place;
  count_t passes;

  assign group = slots[head];
  assign working = complete != 0;
  assign place = pixel == 0 ? '{row: group.row, column: group.column} : next_place;
  assign passes = (group.columns + lanes - 1) / lanes;
  assign cycles_left = group.pixels * passes - (pixel * passes + column / lanes);
  assign finishing = working && cycles_left == 1;

  sum_t kept[KEPT];
  logic [LANES-1:0] leaves;
  logic [LANES-1:0][$clog2(KEPT)-1:0] result;  // number of the output
  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      automatic address_t channel = address_t'(group.channel + column + count_t'(lane));
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_address[lane][k] = parameter_place(i, int16, in_float32, channel, k);
      end
      leaves[lane] = working && count_t'(lane) < lanes && column + count_t'(lane) < group.columns;
      result[lane] = $clog2(KEPT)'((place.row * 32'(i.ofm_width) + place.column) * 32'(i.ofm_depth) + 32'(channel));
      for (int k = 0; k < 4; k++) write[lane][k] = leaves[lane] && !keeps && k < 1 << (int16 ? 1 : wide);
      write_address[lane] = i.ofm + address_t'(place.row) * address_t'(i.ofm_row_stride) +
          address_t'(place.column) * address_t'(i.ofm_pixel_stride) + (channel << (int16 ? 1 : wide));
    end
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    requantise rescale (
        .in_float32,
        .single     (i.rounding),
        .int16,
        .accumulator(read[lane]),
        .upper      (kept[result[lane]]),
        .parameters (parameter_data[lane]),
        .zero       (i.ofm_zero),
        .low        (i.low),
        .high       (i.high),
        .wide,
        .code       (write_data[lane])
    );
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) if (leaves[lane] && keeps) kept[result[lane]] <= read[lane];
    if (reset) begin
      head <= 0;
      tail <= 0;
      complete <= 0;
      half <= 0;
      owners <= '0;
      pixel <= 0;
      column <= 0;
    end else begin
      complete <= complete + 3'(group_left) - 3'(finishing);
      if (push) begin
        slots[tail] <= pushed;
        tail <= tail + 1;
      end
      for (int h = 0; h < 2; h++) begin
        owners[h] <= owners[h] + 2'(push && pushed_half == 1'(h)) - 2'(finishing && half == 1'(h));
      end
      if (finishing) begin
        head <= head + 1;
        half <= !half;
        pixel <= 0;
        column <= 0;
      end else if (working) begin
        if (column + lanes < group.columns) column <= column + lanes;
        else begin
          column <= 0;
          pixel <= pixel + 1;
          next_place.column <= place.column + 1 < 32'(i.ofm_width) ? place.column + 1 : 0;
          next_place.row <= place.column + 1 < 32'(i.ofm_width) ? place.row : place.row + 1;
        end
      end
    end
  end
endmodule
