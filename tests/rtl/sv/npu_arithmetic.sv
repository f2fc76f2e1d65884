// Rescaling with one rounding or two. Written from the definitions of the LiteRT reference kernels
// (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT, single rounding), not from isa/arithmetic/integer.py.
`timescale 1ns / 1ps

package npu_arithmetic;
  import npu_types::*;

  // value * factor * 2^(left - 31)
  function automatic sum_t round_twice(sum_t value, sum_t factor, logic signed [7:0] left);
    logic signed [63:0] product, nudged;
    sum_t moved, high_word, remainder, threshold;
    logic [31:0] mask;
    int right;
    right = left < 0 ? -int'(left) : 0;
    moved = left > 0 ? value <<< left : value;  // wraps to 32 bits
    product = 64'(moved) * 64'(factor);
    nudged = product + (product >= 0 ? 64'sd1 <<< 30 : 64'sd1 - (64'sd1 <<< 30));
    // Division by 2^31 toward zero.
    high_word = 32'(nudged >= 0 ? nudged >>> 31 : -((-nudged) >>> 31));
    mask = (32'd1 << right) - 1;
    remainder = high_word & mask;
    threshold = 32'(mask >> 1) + (high_word < 0 ? 1 : 0);
    return (high_word >>> right) + (remainder > threshold ? 1 : 0);
  endfunction

  // A result that 32 bits cannot hold, of either sign, is the smallest number.
  function automatic sum_t round_once(sum_t value, sum_t factor, logic signed [7:0] left);
    localparam logic signed [63:0] Limit = 64'sd1 <<< 31;
    logic signed [63:0] product;
    int right;
    right   = 31 - int'(left);
    product = 64'(value) * 64'(factor);
    if (right > 0) product = (product + (64'sd1 <<< (right - 1))) >>> right;
    else if (product <= Limit && product >= -Limit) product = product <<< (right < -31 ? 31 : -right);
    return product >= Limit || product < -Limit ? 32'h8000_0000 : 32'(product);
  endfunction

  function automatic code_t clamped(sum_t value, operand_t low, operand_t high);
    if (value < 32'(low)) return low[7:0];
    if (value > 32'(high)) return high[7:0];
    return value[7:0];
  endfunction

  function automatic operand_t extended(code_t code, logic is_signed);
    return {is_signed && code[7], code};
  endfunction

  // Bytes of one result of a vector instruction: of positions 4 or 8.
  function automatic count_t result_bytes(logic [575:0] word);
    isa_words::reduce_t reduce;
    reduce = isa_words::reduce_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::reduce_t)]);
    if (word[7:0] != isa_words::REDUCE_OPCODE) return 1;
    if (reduce.function_ != isa_words::R_ARG_MAX && reduce.function_ != isa_words::R_ARG_MIN) return 1;
    return reduce.wide ? 8 : 4;
  endfunction

  // sum / count, to nearest, halves away from zero.
  function automatic sum_t averaged(sum_t sum, sum_t count);
    sum_t half = count / 2;
    if (count == 0) return 0;
    return sum > 0 ? (sum + half) / count : (sum - half) / count;
  endfunction
endpackage
