// The pixels that make up elements of a resized image: where each lies, and its share.
//
// Lanes hold elements that follow each other in [row, column, channel]; each has counters of its own.
`timescale 1ns / 1ps

module resize_places
  import npu_types::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                 clk,
    input  logic                 start,
    input  logic                 next,     // to the elements behind these
    input  logic     [575:0]     word,
    input  count_t               lanes,
    input  logic                 behind_row,     // the pixel below the position, not above it
    input  logic                 behind_column,  // right of it, not left
    output address_t [LANES-1:0] address,
    output sum_t     [LANES-1:0] share           // of the pixel, in 1/2^22
);
  typedef struct packed {
    count_t row;
    count_t column;
    count_t channel;
  } site_t;

  typedef struct packed {
    count_t pixel;
    count_t share;  // in 1/2^24
  } tap_t;

  resize_t resize;
  assign resize = resize_t'(word[VECTOR_OFFSET+:$bits(resize_t)]);

  // The pixel before or behind a position along one axis.
  function automatic tap_t tap_of(count_t number, logic [39:0] scale, logic signed [39:0] offset, logic [15:0] size,
                                  logic behind);
    logic signed [63:0] place, last;
    logic [63:0] pixel;
    tap_t tap;
    last  = (64'(size) - 1) <<< 24;
    place = 64'(number) * 64'(scale) + 64'(offset);
    if (place < 0) place = 0;
    if (place > last) place = last;
    pixel = place[63:24] + (behind && place[23:0] != 0 ? 1 : 0);
    tap.pixel = count_t'(pixel);
    tap.share = behind ? 32'(place[23:0]) : (32'd1 << 24) - 32'(place[23:0]);
    return tap;
  endfunction

  site_t site, next_site;  // of the first lane, now and after these elements
  always_comb begin
    automatic site_t at = site;
    automatic tap_t row, column;
    next_site = site;
    for (int lane = 0; lane < LANES; lane++) begin
      row = tap_of(at.row, resize.row_scale, resize.row_offset, resize.ifm_height, behind_row);
      column = tap_of(at.column, resize.column_scale, resize.column_offset, resize.ifm_width, behind_column);
      address[lane] = resize.input_ + address_t'((row.pixel * 32'(resize.ifm_width) + column.pixel) *
          32'(resize.depth) + at.channel);
      share[lane] = resize.bilinear ? 32'((64'(row.share) * 64'(column.share) + (64'd1 << 25)) >> 26) : 32'd1 <<< 22;
      at.channel = at.channel + 1;
      if (at.channel == 32'(resize.depth)) begin
        at.channel = 0;
        at.column = at.column + 1;
      end
      if (at.column == 32'(resize.ofm_width)) begin
        at.column = 0;
        at.row = at.row + 1;
      end
      if (count_t'(lane) + 1 == lanes) next_site = at;
    end
  end

  always_ff @(posedge clk) begin
    if (start) site <= '0;
    else if (next) site <= next_site;
  end
endmodule
