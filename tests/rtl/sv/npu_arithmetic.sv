// Rescaling with one rounding or two. Written from the definitions of the LiteRT reference kernels
// (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT, single rounding), not from isa/arithmetic/integer.py.
`timescale 1ns / 1ps

package npu_arithmetic;
  import npu_types::*;

  // a * b / 2^31, to nearest.
  function automatic sum_t high_product(sum_t a, sum_t b);
    logic signed [63:0] product, nudged;
    product = 64'(a) * 64'(b);
    nudged = product + (product >= 0 ? 64'sd1 <<< 30 : 64'sd1 - (64'sd1 <<< 30));
    // Division by 2^31 toward zero.
    return 32'(nudged >= 0 ? nudged >>> 31 : -((-nudged) >>> 31));
  endfunction

  // value / 2^right for right of 0..31, to nearest, halves away from zero.
  function automatic sum_t moved_right(sum_t value, int right);
    logic [31:0] mask;
    sum_t remainder, threshold;
    mask = (32'd1 << right) - 1;
    remainder = value & mask;
    threshold = 32'(mask >> 1) + (value < 0 ? 1 : 0);
    return (value >>> right) + (remainder > threshold ? 1 : 0);
  endfunction

  // value * factor * 2^(left - 31)
  function automatic sum_t round_twice(sum_t value, sum_t factor, logic signed [7:0] left);
    sum_t moved;
    moved = left > 0 ? value <<< left : value;  // wraps to 32 bits
    return moved_right(high_product(moved, factor), left < 0 ? -int'(left) : 0);
  endfunction

  // value * 2^places, limited to 32 bits.
  function automatic sum_t saturating_left(sum_t value, int places);
    logic signed [63:0] moved;
    moved = 64'(value) <<< places;
    if (moved > 64'sh7fff_ffff) return 32'h7fff_ffff;
    if (moved < -64'sh8000_0000) return 32'h8000_0000;
    return 32'(moved);
  endfunction

  // 1 / (1 + fraction) with 31 fractional bits, as the fraction has: three steps of Newton and Raphson on half of
  // 1 + fraction, from 48/17 - 32/17 of it, with 29 fractional bits.
  function automatic sum_t reciprocal(sum_t fraction);
    sum_t half, guess, error;
    half = 32'((33'(fraction) + 33'h8000_0000) >> 1);
    guess = 32'sd1515870810 + high_product(half, -32'sd1010580540);
    for (int k = 0; k < 3; k++) begin
      error = (32'sd1 <<< 29) - high_product(half, guess);
      guess = guess + saturating_left(high_product(guess, error), 2);
    end
    return saturating_left(guess, 1);
  endfunction

  // dividend / divisor * factor * 2^(left - 31); 0 for a divisor of 0.
  function automatic sum_t quotient(sum_t dividend, sum_t divisor, sum_t factor, logic signed [7:0] left);
    sum_t a, b, value;
    int length, room;
    logic [5:0] right;
    if (divisor == 0) return 0;
    a = divisor < 0 ? -dividend : dividend;
    b = divisor < 0 ? -divisor : divisor;
    length = 0;
    for (int k = 0; k < 32; k++) if (b[k]) length = k + 1;
    room = 0;  // places that lead with the sign, behind the first
    for (int k = 30; k >= 0 && room == 30 - k && a[k] == a[31]; k--) room = 31 - k;
    value = high_product(a <<< room, reciprocal((b <<< (32 - length)) & 32'h7fff_ffff));
    value = high_product(value, factor);
    right = 6'(length - 1 + room - int'(left));
    if (right > 31) return (value >>> right[4:0]) + (value >= 0 ? 1 : 0);
    return moved_right(value, int'(right));
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

  // The same of a sum of 48 bits in two products of 32 bits, for shifts of at most 14: the lowest 16 bits of the product
  // are behind all that decides. Larger shifts leave no sum beyond 32 bits within them.
  function automatic sum_t round_wide_once(wide_sum_t value, sum_t factor, logic signed [7:0] left);
    logic signed [63:0] product;
    int right;
    if (left > 14) return round_once(32'(value), factor, left);
    right = 15 - int'(left);
    product = 64'($signed(value[47:16])) * 64'(factor) + ((64'($signed({1'b0, value[15:0]})) * 64'(factor)) >>> 16);
    product = (product + (64'sd1 <<< (right - 1))) >>> right;
    return product > 64'sh7fff_ffff || product < -64'sh8000_0000 ? 32'h8000_0000 : 32'(product);
  endfunction

  // Where byte k of the parameters of a channel is, in the order of parameters_t.
  function automatic address_t parameter_place(isa_words::window_t i, logic int16, logic in_float32, address_t channel,
                                               int k);
    address_t bias_bytes, scale, scales, behind;
    bias_bytes = int16 ? 8 : 4;
    scale = i.per_channel ? channel : 0;
    scales = i.per_channel ? address_t'(i.ofm_depth) : 1;
    behind = i.parameters + bias_bytes * address_t'(i.ofm_depth);
    if (k < 8) return i.parameters + bias_bytes * channel + address_t'(k);
    if (k < 12) return behind + 4 * scale + address_t'(k - 8);
    if (k == 12) return behind + 4 * scales + scale;
    return behind + (in_float32 ? 4 : 5) * scales + address_t'(k - 13);
  endfunction

  function automatic code_t clamped(sum_t value, operand_t low, operand_t high);
    if (value < 32'(low)) return low[7:0];
    if (value > 32'(high)) return high[7:0];
    return value[7:0];
  endfunction

  function automatic operand_t extended(code_t code, logic is_signed);
    return {is_signed && code[7], code};
  endfunction

  function automatic sum_t value_of(element_t element, logic int16, logic is_signed);
    return int16 ? 32'($signed(element)) : 32'(extended(element[7:0], is_signed));
  endfunction

  function automatic element_t limited(sum_t value, logic signed [15:0] low, logic signed [15:0] high);
    if (value < 32'(low)) return low;
    if (value > 32'(high)) return high;
    return value[15:0];
  endfunction

  // Whether a vector instruction computes on int16 values.
  function automatic logic on_int16(logic [575:0] word);
    isa_words::convert_t convert;
    isa_words::lookup_t lookup;
    convert = isa_words::convert_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::convert_t)]);
    lookup = isa_words::lookup_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::lookup_t)]);
    case (word[7:0])
      isa_words::BINARY_OPCODE, isa_words::POOL_OPCODE, isa_words::REDUCE_OPCODE:
      return 32'(word[isa_words::VECTOR_OFFSET+:3]) == isa_words::FORMAT_INT16;  // the first field of their words
      isa_words::CONVERT_OPCODE:
      return 32'(convert.source) == isa_words::STORED_INT16 || 32'(convert.target) == isa_words::STORED_INT16;
      isa_words::LOOKUP_OPCODE: return lookup.int16 != 0;
      default: return 0;
    endcase
  endfunction

  // Bytes of an element that a vector instruction reads, and that it writes. Positions are written in such pieces.
  function automatic count_t source_bytes(logic [575:0] word);
    isa_words::convert_t convert;
    convert = isa_words::convert_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::convert_t)]);
    if (word[7:0] == isa_words::CONVERT_OPCODE) return 32'(convert.source) == isa_words::STORED_INT16 ? 2 : 1;
    return on_int16(word) ? 2 : 1;
  endfunction

  function automatic count_t target_bytes(logic [575:0] word);
    isa_words::convert_t convert;
    convert = isa_words::convert_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::convert_t)]);
    if (word[7:0] == isa_words::CONVERT_OPCODE) return 32'(convert.target) == isa_words::STORED_INT16 ? 2 : 1;
    return on_int16(word) ? 2 : 1;
  endfunction

  // Bytes of one result of a vector instruction: of positions 4 or 8.
  function automatic count_t result_bytes(logic [575:0] word);
    isa_words::reduce_t reduce;
    reduce = isa_words::reduce_t'(word[isa_words::VECTOR_OFFSET+:$bits(isa_words::reduce_t)]);
    if (word[7:0] != isa_words::REDUCE_OPCODE) return target_bytes(word);
    if (32'(reduce.function_) != isa_words::REDUCE_ARG_MAX && 32'(reduce.function_) != isa_words::REDUCE_ARG_MIN)
      return target_bytes(word);
    return reduce.wide ? 8 : 4;
  endfunction

  // sum / count, to nearest, halves away from zero.
  function automatic sum_t averaged(sum_t sum, sum_t count);
    sum_t half = count / 2;
    if (count == 0) return 0;
    return sum > 0 ? (sum + half) / count : (sum - half) / count;
  endfunction
endpackage
