// One lane of a resize: the pixels around a position, by their shares, to a code.
`timescale 1ns / 1ps

module resize_lane
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic           first,
    input  code_t          a,
    input  sum_t           share,
    input  sum_t           gathered,   // of the pixels before this one
    output sum_t           gathers,
    output code_t          code
);
  resize_t resize;
  sum_t nearest;
  assign resize = resize_t'(word[VECTOR_OFFSET+:$bits(resize_t)]);
  assign gathers = (first ? 0 : gathered) + 32'(extended(a, resize.signed_)) * share;
  assign nearest = averaged(gathers, 32'd1 <<< 22);
  assign code = nearest[7:0];
endmodule
