// One lane of the vector unit on codes in float32: up to two codes and what it has gathered so far to a code.
`timescale 1ns / 1ps

module float_lane
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_reals::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic           first,
    input  logic           opens,     // a column of a window
    input  logic           covered,
    input  code_t          a,
    input  code_t          b,
    input  wide_t          gathered,  // of the elements before this one
    input  count_t         number,    // of covered elements, this one included
    output wide_t          gathers,
    output code_t          code
);
  binary_t binary;
  pool_t pool;
  reduce_t reduce;
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);

  function automatic int least(logic is_signed);
    return is_signed ? -128 : 0;
  endfunction

  int unsigned result;
  always_comb begin
    gathers = gathered;
    result = 0;
    case (word[7:0])
      BINARY_OPCODE:
      result = float_pair(32'(binary.function_), 32'(extended(a, binary.a_signed)), 32'(extended(b, binary.b_signed)),
                          binary.a_multiplier, binary.b_multiplier, binary.output_multiplier, 32'(binary.a_zero),
                          32'(binary.b_zero), 32'(binary.output_zero), 32'(binary.low), 32'(binary.high),
                          least(binary.signed_));
      POOL_OPCODE: begin
        gathers = float_pool_step(32'(pool.by_columns), 32'(first), 32'(opens), 32'(covered), gathered,
                                  32'(extended(a, pool.input_signed)), pool.input_scale, 32'(pool.input_zero));
        result = float_pool_result(32'(pool.fused), gathers, number, pool.output_scale, 32'(pool.output_zero),
                                   32'(pool.low), 32'(pool.high), least(pool.signed_));
      end
      REDUCE_OPCODE: begin
        gathers = float_reduce_step(32'(reduce.function_), 32'(first), gathered,
                                    32'(extended(a, reduce.input_signed)), reduce.input_scale,
                                    32'(reduce.input_zero));
        result = float_reduce_result(32'(reduce.function_), gathers, number, reduce.output_scale,
                                     32'(reduce.output_zero), 32'(reduce.low), 32'(reduce.high),
                                     least(reduce.signed_));
      end
      default: ;
    endcase
    code = result[7:0];
  end
endmodule
