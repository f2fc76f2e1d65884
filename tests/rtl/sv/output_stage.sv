// Empties finished groups: `lanes` elements per cycle, pixel by pixel, channels inside.
`timescale 1ns / 1ps

module output_stage
  import npu_types::*;
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
    output address_t [LANES-1:0][8:0]     parameter_address,
    input  code_t    [LANES-1:0][8:0]     parameter_data,
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

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      automatic address_t channel = address_t'(group.channel + column + count_t'(lane));
      automatic address_t depth = address_t'(i.ofm_depth);
      automatic address_t scale = i.per_channel ? channel : 0;
      automatic address_t scales = i.per_channel ? depth : 1;
      for (int k = 0; k < 4; k++) begin
        parameter_address[lane][k] = i.parameters + 4 * channel + address_t'(k);
        parameter_address[lane][4+k] = i.parameters + 4 * depth + 4 * scale + address_t'(k);
      end
      parameter_address[lane][8] = i.parameters + 4 * depth + 4 * scales + scale;
      for (int k = 0; k < 4; k++) begin
        write[lane][k] = working && count_t'(lane) < lanes && column + count_t'(lane) < group.columns && k < 1 << wide;
      end
      write_address[lane] = i.ofm + address_t'(place.row) * address_t'(i.ofm_row_stride) +
          address_t'(place.column) * address_t'(i.ofm_pixel_stride) + (channel << wide);
    end
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    requantise rescale (
        .in_float32,
        .single     (i.rounding),
        .accumulator(read[lane]),
        .bias       (parameter_data[lane][3:0]),
        .multiplier (parameter_data[lane][7:4]),
        .shift      (parameter_data[lane][8]),
        .zero       (i.ofm_zero),
        .low        (i.low),
        .high       (i.high),
        .wide,
        .code       (write_data[lane])
    );
  end

  always_ff @(posedge clk) begin
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
