// One lane of the vector unit: two codes and what it has gathered so far to a code.
`timescale 1ns / 1ps

module vector_lane
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic           first,
    input  logic           covered,
    input  code_t          a,
    input  code_t          b,
    input  code_t          entry,      // of the look-up table, for a
    input  sum_t           gathered,   // sum or maximum of the elements before this one
    input  count_t         number,     // of covered elements, this one included
    output sum_t           gathers,
    output code_t          code
);
  binary_t binary;
  pool_t pool;
  mean_t mean;
  rescale_t rescale;
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign mean = mean_t'(word[VECTOR_OFFSET+:$bits(mean_t)]);
  assign rescale = rescale_t'(word[VECTOR_OFFSET+:$bits(rescale_t)]);

  function automatic code_t binary_code();
    operand_t x, y;
    sum_t left, right, result;
    x = extended(a, binary.signed_);
    y = extended(b, binary.signed_);
    case (binary.function_)
      F_MAX: return clamped(x > y ? 32'(x) : 32'(y), binary.low, binary.high);
      F_MIN: return clamped(x < y ? 32'(x) : 32'(y), binary.low, binary.high);
      F_MUL: result = (32'(x) - 32'(binary.a_zero)) * (32'(y) - 32'(binary.b_zero));
      default: begin
        left = round_twice((32'(x) - 32'(binary.a_zero)) <<< binary.left_shift, {1'b0, binary.a_multiplier},
                           8'(binary.a_shift));
        right = round_twice((32'(y) - 32'(binary.b_zero)) <<< binary.left_shift, {1'b0, binary.b_multiplier},
                            8'(binary.b_shift));
        result = binary.function_ == F_SUB ? left - right : left + right;
      end
    endcase
    result = round_twice(result, {1'b0, binary.output_multiplier}, 8'(binary.output_shift));
    return clamped(result + 32'(binary.output_zero), binary.low, binary.high);
  endfunction

  sum_t element, scaled;
  always_comb begin
    element = 32'(extended(a, word[7:0] == MEAN_OPCODE ? mean.signed_ : pool.signed_));
    gathers = gathered;
    code = 0;
    scaled = 0;
    case (word[7:0])
      BINARY_OPCODE: code = binary_code();
      POOL_OPCODE: begin
        if (first) gathers = pool.maximum ? (pool.signed_ ? -128 : 0) : 0;
        if (covered) gathers = !pool.maximum ? gathers + element : element > gathers ? element : gathers;
        code = clamped(pool.maximum ? gathers : averaged(gathers, sum_t'(number)), pool.low, pool.high);
      end
      MEAN_OPCODE: begin
        gathers = (first ? 0 : gathered) + element - 32'(mean.input_zero);
        scaled = round_twice(gathers, {1'b0, mean.multiplier}, 8'(mean.shift));
        code = clamped(scaled + 32'(mean.output_zero), mean.low, mean.high);
      end
      RESCALE_OPCODE: begin
        scaled = round_twice(32'(extended(a, rescale.input_signed)) - 32'(rescale.input_zero),
                             {1'b0, rescale.multiplier}, 8'(rescale.shift));
        code = clamped(scaled + 32'(rescale.output_zero), rescale.low, rescale.high);
      end
      LOOKUP_OPCODE: code = entry;
      default: ;
    endcase
  end
endmodule
