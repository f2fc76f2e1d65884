// The feature-map side: makes addresses of window elements, collects a vector of operands through a port of
// `port` bytes per cycle, hands it to the array. Elements in the padding take their turn at the port and read as
// the zero point.
//
// * weight stationary: one vector per pixel, row r holds value `inner + r` of the dot product;
// * depthwise: the same per column with kernel taps as rows; what the window of the pixel to the left holds
//   already moves over from row r + stride, the rest is fetched. Windows of dilated kernels do not overlap so.
// * output stationary: one vector per value of the dot product, row r holds pixel r of the block.
`timescale 1ns / 1ps

module operand_feeder
  import npu_types::*;
  import isa_words::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4,
    parameter int PORT = 4
) (
    input  logic                                clk,
    input  logic                                reset,
    input  logic                                start,              // of a fold
    input  logic                                restart,            // of an instruction
    input  logic                                output_stationary,
    input  logic                                depthwise,
    input  logic                                transposed,         // channels lie a pixel stride apart
    input  logic                                int16,
    input  logic                                upper,              // bytes of int16 values pass, not the lower ones
    input  window_t                             i,
    input  fold_t                               next_fold,          // valid with `start`
    input  corner_t                             corner,
    input  count_t                              all_inner,
    input  count_t                              port,
    input  logic                                take,               // a complete vector is taken this cycle
    output logic                                active,
    output fold_t                               fold,               // the fold being streamed
    output logic                                opening,            // first cycle of the fold
    output logic                                complete,
    output operand_t [ROWS-1:0][COLUMNS-1:0]    operands,
    output logic                                first,              // vector of the fold
    output logic                                last,
    output logic     [15:0]                     pixel,              // in the block
    output place_t                              block_start,
    output logic                                finishing,          // complete, taken, and the last of the fold
    output address_t [PORT-1:0]                 address,
    output logic     [PORT-1:0]                 enable,
    input  code_t    [PORT-1:0]                 data
);
  operand_t [ROWS-1:0][COLUMNS-1:0] window;
  place_t pixel_place, after_block;
  inner_t first_inner;          // of row 0; output stationary: of this vector
  coordinate_t first_channel;   // depthwise: feature-map channel of column 0, and the remainder
  count_t first_remainder;
  count_t step, steps, row, column;
  logic fresh_beat;             // first cycle of a vector
  logic done;

  // Row-major order of output pixels, and of the dot product: kernel row, kernel column, channel.
  function automatic place_t next_pixel(place_t at, window_t w);
    place_t result;
    result = at;
    if (at.column + 1 < coordinate_t'(w.ofm_width)) result.column = at.column + 1;
    else begin
      result.column = 0;
      result.row = at.row + 1;
    end
    return result;
  endfunction

  function automatic inner_t next_inner(inner_t at, window_t w, logic by_channel);
    inner_t result;
    result = at;
    if (!by_channel && at.channel + 1 < coordinate_t'(w.ifm_depth)) result.channel = at.channel + 1;
    else begin
      result.channel = 0;
      if (at.tap.column + 1 < coordinate_t'(w.kernel_width)) result.tap.column = at.tap.column + 1;
      else begin
        result.tap.column = 0;
        result.tap.row = at.tap.row + 1;
      end
    end
    return result;
  endfunction

  // What each row of the array, and each column of a depthwise group, stands for.
  inner_t [ROWS-1:0] row_inner;
  place_t [ROWS-1:0] row_place;
  coordinate_t [COLUMNS-1:0] column_channel;
  inner_t after_inner;
  place_t after_pixel;
  coordinate_t after_channel;
  count_t after_remainder;
  always_comb begin
    automatic inner_t inner = first_inner;
    automatic place_t place = output_stationary ? block_start : pixel_place;
    automatic coordinate_t channel = first_channel;
    automatic count_t remainder = first_remainder;
    for (int r = 0; r < ROWS; r++) begin
      row_inner[r] = inner;
      row_place[r] = place;
      if (!output_stationary) begin
        if (count_t'(r) < corner.rows) inner = next_inner(inner, i, depthwise);
      end
      else if (count_t'(r) < fold.rows) place = next_pixel(place, i);
    end
    after_inner = output_stationary ? next_inner(first_inner, i, 0) : inner;
    after_pixel = output_stationary ? place : next_pixel(pixel_place, i);
    for (int c = 0; c < COLUMNS; c++) begin
      // Output channel c reads channel floor(c * ifm_depth / ofm_depth).
      column_channel[c] = channel;
      if (count_t'(c) < corner.columns) remainder = remainder + 32'(i.ifm_depth);
      if (remainder >= 32'(i.ofm_depth)) begin
        remainder = remainder - 32'(i.ofm_depth);
        channel = channel + 1;
      end
    end
    after_channel = channel;
    after_remainder = remainder;
  end

  // Depthwise: rows that the window of the pixel to the left provides.
  logic [ROWS-1:0] moves, fetches;
  logic whole;
  assign whole = first || pixel_place.column == 0 || i.dilation_width != 1;
  always_comb begin
    for (int r = 0; r < ROWS; r++) begin
      moves[r] = depthwise && !whole && 32'(r) + 32'(i.stride_width) < fold.rows &&
          row_inner[r].tap.column + 32'(i.stride_width) < 32'(i.kernel_width);
      fetches[r] = count_t'(r) < fold.rows && !moves[r];
    end
  end

  // One turn of the port: the next `port` elements of the vector, row by row, columns present.
  logic [PORT-1:0] present;
  count_t [PORT-1:0] slot_row, slot_column;
  count_t next_row, next_column;
  always_comb begin
    automatic count_t at_row = fresh_beat ? 0 : row;
    automatic count_t at_column = fresh_beat ? 0 : column;
    automatic coordinate_t y, x, channel;
    address = '0;
    for (int r = 0; r < ROWS; r++) if (32'(r) == at_row && !fetches[r]) at_row = 32'(r) + 1;
    for (int p = 0; p < PORT; p++) begin
      slot_row[p] = at_row;
      slot_column[p] = at_column;
      enable[p] = active && count_t'(p) < port && at_row < fold.rows;
      y = row_place[at_row].row * 32'(i.stride_height) - 32'(i.pad_top) +
          row_inner[at_row].tap.row * 32'(i.dilation_height);
      x = row_place[at_row].column * 32'(i.stride_width) - 32'(i.pad_left) +
          row_inner[at_row].tap.column * 32'(i.dilation_width);
      channel = depthwise ? column_channel[at_column] : row_inner[at_row].channel;
      present[p] = y >= 0 && y < 32'(i.ifm_height) && x >= 0 && x < 32'(i.ifm_width);
      if (enable[p]) begin
        address[p] = transposed
            ? i.ifm + address_t'(y * 32'(i.ifm_row_stride) + channel * 32'(i.ifm_pixel_stride))
            : i.ifm + address_t'(y * 32'(i.ifm_row_stride) + x * 32'(i.ifm_pixel_stride) +
                                 (int16 ? 2 * channel + 32'(upper) : channel));
        at_column = at_column + 1;
        if (!depthwise || at_column == fold.columns) begin
          at_column = 0;
          at_row = at_row + 1;
          for (int r = 0; r < ROWS; r++) if (32'(r) == at_row && !fetches[r]) at_row = 32'(r) + 1;
        end
      end
    end
    next_row = at_row;
    next_column = at_column;
    done = at_row >= fold.rows;
  end

  always_comb begin
    operands = window;
    if (fresh_beat) begin
      operands = '0;
      for (int r = 0; r < ROWS; r++) if (moves[r]) operands[r] = window[32'(r)+32'(i.stride_width)];
    end
    for (int p = 0; p < PORT; p++) begin
      if (enable[p]) begin
        operands[slot_row[p]][slot_column[p]] = 
            present[p] ? {(int16 ? upper : i.signed_) && data[p][7], data[p]} - i.ifm_zero : 0;
      end
    end
  end

  assign complete = active && done;
  assign steps = output_stationary ? all_inner : fold.pixels;
  assign first = step == 0;
  assign last = step == steps - 1;
  assign pixel = 16'(step);
  assign finishing = complete && take && last;

  always_ff @(posedge clk) begin
    opening <= start;
    if (reset) begin
      active <= 0;
      window <= '0;
    end else begin
      if (active) begin
        window <= operands;
        if (complete && take) begin
          step <= step + 1;
          fresh_beat <= 1;
          pixel_place <= after_pixel;
          if (output_stationary) first_inner <= after_inner;
          if (last) begin
            active <= 0;
            after_block <= after_pixel;
          end
        end else begin  // a vector that is complete and not taken waits and fetches nothing
          fresh_beat <= 0;
          row <= next_row;
          column <= next_column;
        end
      end
      if (restart) after_block <= '0;
      if (start) begin
        active <= 1;
        fold <= next_fold;
        step <= 0;
        fresh_beat <= 1;
        if (next_fold.opens_block) begin
          block_start <= restart ? '0 : finishing ? after_pixel : after_block;
          pixel_place <= restart ? '0 : finishing ? after_pixel : after_block;
        end else pixel_place <= block_start;
        first_inner <= next_fold.opens_group || output_stationary ? '0 : after_inner;
        if (next_fold.opens_block) begin
          first_channel <= 0;
          first_remainder <= 0;
        end else if (next_fold.opens_group) begin
          first_channel <= after_channel;
          first_remainder <= after_remainder;
        end
      end
    end
  end
endmodule
