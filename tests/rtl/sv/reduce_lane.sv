// One lane of a reduction: an element and the best so far, or the sum so far, to a result.
`timescale 1ns / 1ps

module reduce_lane
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic           first,
    input  logic           int16,
    input  element_t       a,
    input  sum_t           gathered,   // sum or extreme of the elements before this one
    input  count_t         position,   // of that extreme
    input  count_t         number,     // of elements, this one included
    output sum_t           gathers,
    output count_t         positions,
    output element_t       code
);
  reduce_t reduce;
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);

  sum_t element, scaled;
  logic wins;
  always_comb begin
    element = value_of(a, int16, reduce.signed_);
    wins = 32'(reduce.function_) == REDUCE_MIN || 32'(reduce.function_) == REDUCE_ARG_MIN ? element < gathered : element > gathered;
    positions = first || wins ? number - 1 : position;
    scaled = 0;
    if (32'(reduce.function_) == REDUCE_SUM) begin
      gathers = (first ? 0 : gathered) + element - 32'(reduce.input_zero);
      scaled = round_twice(gathers, {1'b0, reduce.multiplier}, 8'(reduce.shift));
      code = limited(scaled + 32'(reduce.output_zero), reduce.low, reduce.high);
    end else begin
      gathers = first || wins ? element : gathered;
      code = limited(gathers, reduce.low, reduce.high);
    end
  end
endmodule
