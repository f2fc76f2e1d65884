// Cuts an instruction into folds: along the dot product inside, over channels, over blocks of pixels outside.
`timescale 1ns / 1ps

module fold_sequencer
  import npu_types::*;
(
    input  logic   clk,
    input  logic   reset,
    input  logic   start,
    input  logic   advance,
    input  logic   output_stationary,
    input  corner_t corner,
    input  count_t all_pixels,
    input  count_t all_channels,
    input  count_t all_inner,
    output logic   present,            // there is a fold
    output logic   pending,            // the same without the instruction that starts
    output fold_t  fold
);
  count_t pixels_left, channel, inner, block;
  count_t held_pixels_left, held_channel, held_inner;

  // Output stationary, the rows of the array are the pixels.
  assign block = output_stationary && corner.half_accumulators > corner.rows ? corner.rows : corner.half_accumulators;

  // The first fold is there with the instruction.
  assign present = start || pending;
  assign pixels_left = start ? all_pixels : held_pixels_left;
  assign channel = start ? 0 : held_channel;
  assign inner = start ? 0 : held_inner;

  always_comb begin
    fold.pixels = pixels_left < block ? pixels_left : block;
    fold.channel = channel;
    fold.columns = all_channels - channel < corner.columns ? all_channels - channel : corner.columns;
    fold.inner = inner;
    fold.opens_group = inner == 0;
    fold.opens_block = inner == 0 && channel == 0;
    if (output_stationary) begin
      fold.rows = fold.pixels;
      fold.closes_group = 1;
    end else begin
      fold.rows = all_inner - inner < corner.rows ? all_inner - inner : corner.rows;
      fold.closes_group = all_inner - inner <= corner.rows;
    end
    fold.closes_all = fold.closes_group && all_channels - channel <= corner.columns && pixels_left <= block;
  end

  always_ff @(posedge clk) begin
    if (reset) pending <= 0;
    else begin
      pending <= present && !(advance && fold.closes_all);
      held_pixels_left <= pixels_left;
      held_channel <= channel;
      held_inner <= inner;
      if (advance && !fold.closes_group) held_inner <= inner + corner.rows;
      else if (advance) begin
        held_inner <= 0;
        if (all_channels - channel > corner.columns) held_channel <= channel + corner.columns;
        else begin
          held_channel <= 0;
          held_pixels_left <= pixels_left - block;
        end
      end
    end
  end
endmodule
