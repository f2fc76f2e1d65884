// One real lane of the vector unit: two stored operands and what it has gathered so far to a stored result.
`timescale 1ns / 1ps

module real_lane
  import npu_types::*;
  import npu_reals::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic   [  1:0] source,    // types of the operands
    input  logic   [  1:0] target,    // and of the result
    input  logic           first,
    input  logic           covered,
    input  real_t          a,
    input  real_t          b,
    input  wide_t          gathered,  // of the elements before this one
    input  count_t         number,    // of covered elements, this one included
    output wide_t          gathers,
    output real_t          result
);
  real_binary_t binary;
  real_unary_t unary;
  real_reduce_t reduce;
  real_pool_t pool;
  real_convert_t convert;
  assign binary = real_binary_t'(word[REAL_OFFSET+:$bits(real_binary_t)]);
  assign unary = real_unary_t'(word[REAL_OFFSET+:$bits(real_unary_t)]);
  assign reduce = real_reduce_t'(word[REAL_OFFSET+:$bits(real_reduce_t)]);
  assign pool = real_pool_t'(word[REAL_OFFSET+:$bits(real_pool_t)]);
  assign convert = real_convert_t'(word[REAL_OFFSET+:$bits(real_convert_t)]);

  real_t x, y, value;
  always_comb begin
    x = real_widened(32'(source), a);
    y = real_widened(32'(source), b);
    gathers = gathered;
    value = x;
    result = 0;
    case (word[7:0])
      REAL_BINARY_OPCODE: value = real_binary(32'(binary.function_), 32'(binary.activation), x, y);
      REAL_UNARY_OPCODE: value = real_unary(32'(unary.function_), unary.alpha, x);
      REAL_REDUCE_OPCODE: begin
        gathers = real_reduce_step(32'(reduce.function_), 32'(first), gathered, x);
        value = real_reduce_result(32'(reduce.function_), gathers, number);
      end
      REAL_POOL_OPCODE: begin
        gathers = real_pool_step(32'(pool.function_), 32'(first), 32'(covered), gathered, x);
        value = real_pool_result(32'(pool.function_), 32'(pool.activation), gathers, number);
      end
      default: if (32'(source) < STORED_FLOAT16) value = real_of_code(convert.scale, 32'(convert.zero), x);
    endcase
    if (32'(target) >= STORED_FLOAT16) result = real_narrowed(32'(target), value);
    else if (word[7:0] == REAL_BINARY_OPCODE) result = value;  // a truth
    else result = code_of_real(32'(target), convert.scale, 32'(convert.zero), value);
  end
endmodule
