// One lane of a look-up of int16 values: between two entries of a table, which the lane reads one after the other.
//
// "interpolated" has an entry for every 128th value. The logistic function and the hyperbolic tangent share entries of
// the logistic function for arguments from 0 on, in steps of 1/24; an argument has 1/12288 as its unit.
`timescale 1ns / 1ps

module interpolating_lane
  import npu_types::*;
  import isa_words::*;
(
    input  logic     [575:0] word,
    input  element_t         a,
    output count_t           position,  // of the entry at or before the value
    input  element_t         here,
    input  element_t         behind,
    output element_t         code
);
  lookup_t look_up;
  assign look_up = lookup_t'(word[VECTOR_OFFSET+:$bits(lookup_t)]);

  logic signed [63:0] steps, magnitude, beyond, between, result;
  logic tanh, far;
  int places;  // of an argument within the step of an entry
  always_comb begin
    tanh = 32'(look_up.int16) == TABLE_TANH;
    places = 32'(look_up.int16) == TABLE_INTERPOLATED ? 7 : tanh ? 8 : 9;
    steps = 64'($signed(a));
    if (places != 7)
      steps = (steps * $signed({49'd0, look_up.multiplier}) + ((64'sd1 <<< look_up.right) >>> 1)) >>> look_up.right;
    magnitude = steps < 0 ? -steps : steps;
    far = places != 7 && magnitude >>> places >= 255;
    position = places == 7 ? 32'(steps >>> 7) + 256 : far ? 254 : 32'(magnitude >>> places);
    beyond = (places == 7 ? steps : magnitude) & ((64'sd1 <<< places) - 1);
  end
  always_comb begin
    if (places == 7) begin  // slope and result wrap to 16 bits
      between = 64'($signed(16'(behind - here))) * beyond;
      result = 64'($signed(here)) + ((between + 64) >>> 7);
    end else begin
      between = ($signed({48'd0, here}) <<< places) + beyond * ($signed({48'd0, behind}) - $signed({48'd0, here}));
      if (tanh) begin  // twice the logistic function less 1, with 15 fraction bits
        if (far) between = 64'shffff <<< 8;
        result = steps >= 0 ? (between - (64'sd1 <<< 23) + 128) >>> 8 : ((64'sd1 <<< 23) - between + 127) >>> 8;
      end else begin
        if (far) between = 64'sh7fff <<< 10;
        result = steps >= 0 ? (between + 512) >>> 10 : ((64'sd1 <<< 25) - between + 511) >>> 10;
      end
    end
    code = result[15:0];
  end
endmodule
