// One real lane of the vector unit: two stored operands and what it has gathered so far to a stored result.
`timescale 1ns / 1ps

module real_lane
  import npu_types::*;
  import npu_reals::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic   [  2:0] source,    // types of the operands
    input  logic   [  2:0] target,    // and of the result
    input  logic           first,
    input  logic           covered,
    input  wide_t          a,
    input  wide_t          b,
    input  wide_t          gathered,  // of the elements before this one
    input  count_t         number,    // of covered elements, this one included
    output wide_t          gathers,
    output wide_t          result
);
  binary_t binary;
  unary_t unary;
  reduce_t reduce;
  pool_t pool;
  convert_t convert;
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign unary = unary_t'(word[VECTOR_OFFSET+:$bits(unary_t)]);
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign convert = convert_t'(word[VECTOR_OFFSET+:$bits(convert_t)]);

  real_t x, y, value;
  always_comb begin
    x = real_widened(32'(source), a);
    y = real_widened(32'(source), b);
    gathers = gathered;
    value = x;
    result = 0;
    case (word[7:0])
      BINARY_OPCODE:
      if (32'(source) <= STORED_FLOAT32) value = real_binary(32'(binary.function_), 32'(binary.activation), x, y);
      UNARY_OPCODE: value = real_unary(32'(unary.function_), unary.alpha, x);
      REDUCE_OPCODE: begin
        gathers = real_reduce_step(32'(reduce.function_), 32'(first), gathered, x);
        value = real_reduce_result(32'(reduce.function_), gathers, number);
      end
      POOL_OPCODE: begin
        gathers = real_pool_step(32'(pool.function_), 32'(first), 32'(covered), gathered, x);
        value = real_pool_result(32'(pool.function_), 32'(pool.activation), gathers, number);
      end
      default:
      if (32'(source) < STORED_FLOAT16 || 32'(source) > STORED_FLOAT32)
        value = real_of_code(convert.scale, 32'(convert.input_zero), x);
    endcase
    if (word[7:0] == BINARY_OPCODE && 32'(source) > STORED_FLOAT32)
      result = whole_binary(32'(binary.function_), 8 * stored_bytes(source), a, b);
    else if (32'(target) >= STORED_FLOAT16) result = 64'(real_narrowed(32'(target), value));
    else if (word[7:0] == BINARY_OPCODE) result = 64'(value);  // a truth
    else result = 64'(code_of_real(32'(target), convert.scale, 32'(convert.output_zero), value));
  end
endmodule
