// Where the elements of reductions lie: [outer, parts, middle, count, inner], of which parts and count are combined.
//
// Lanes hold results that follow each other in [outer, middle, inner]; each has counters of its own.
`timescale 1ns / 1ps

module reduce_places
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                 clk,
    input  logic                 start,
    input  logic                 next,    // to the results behind these
    input  logic     [575:0]     word,
    input  count_t               lanes,
    input  count_t               part,
    input  count_t               index,   // in the part
    output address_t [LANES-1:0] address
);
  typedef struct packed {
    count_t outer;
    count_t middle;
    count_t inner;
  } site_t;

  reduce_t reduce;
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);

  site_t site, next_site;  // of the first lane, now and after these results
  always_comb begin
    automatic site_t at = site;
    next_site = site;
    for (int lane = 0; lane < LANES; lane++) begin
      address[lane] = reduce.input_ + address_t'(source_bytes(word) * ((((at.outer * 32'(reduce.parts) + part) * 32'(reduce.middle) +
          at.middle) * 32'(reduce.count) + index) * 32'(reduce.inner) + at.inner));
      at.inner = at.inner + 1;
      if (at.inner == 32'(reduce.inner)) begin
        at.inner = 0;
        at.middle = at.middle + 1;
      end
      if (at.middle == 32'(reduce.middle)) begin
        at.middle = 0;
        at.outer = at.outer + 1;
      end
      if (count_t'(lane) + 1 == lanes) next_site = at;
    end
  end

  always_ff @(posedge clk) begin
    if (start) site <= '0;
    else if (next) site <= next_site;
  end
endmodule
