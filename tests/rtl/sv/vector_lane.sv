// One lane of the vector unit: up to three elements and what it has gathered so far to an element.
`timescale 1ns / 1ps

module vector_lane
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
(
    input  logic   [575:0] word,
    input  logic           first,
    input  logic           covered,
    input  logic           int16,      // elements are int16 values, not codes
    input  element_t       a,
    input  element_t       b,
    input  element_t       c,
    input  code_t          entry,      // of the look-up table, for a
    input  sum_t           gathered,   // sum or maximum of the elements before this one
    input  count_t         number,     // of covered elements, this one included
    output sum_t           gathers,
    output element_t       code
);
  binary_t binary;
  pool_t pool;
  convert_t convert;
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign convert = convert_t'(word[VECTOR_OFFSET+:$bits(convert_t)]);

  function automatic element_t binary_code();
    sum_t x, y, left, right, result, x_centred, y_centred;
    x = value_of(a, int16, binary.signed_);
    y = value_of(b, int16, binary.signed_);
    x_centred = x - 32'(binary.a_zero);
    y_centred = y - 32'(binary.b_zero);
    left = round_twice(x_centred <<< binary.left_shift, {1'b0, binary.a_multiplier[30:0]}, 8'(binary.a_shift));
    right = round_twice(y_centred <<< binary.left_shift, {1'b0, binary.b_multiplier[30:0]}, 8'(binary.b_shift));
    case (32'(binary.function_))
      BINARY_MAX: return limited(x > y ? x : y, binary.low, binary.high);
      BINARY_MIN: return limited(x < y ? x : y, binary.low, binary.high);
      BINARY_RESCALED_MAX:
      return limited((left > right ? left : right) + 32'(binary.output_zero), binary.low, binary.high);
      BINARY_RESCALED_MIN:
      return limited((left < right ? left : right) + 32'(binary.output_zero), binary.low, binary.high);
      BINARY_PRELU:
      if (x_centred >= 0)
        return limited(round_twice(x_centred, {1'b0, binary.a_multiplier[30:0]}, 8'(binary.a_shift)) +
                       32'(binary.output_zero), binary.low, binary.high);
      else result = x_centred * y_centred;
      BINARY_DIV:
      return limited(quotient(x_centred, y_centred, {1'b0, binary.output_multiplier[30:0]}, 8'(binary.output_shift)) +
                     32'(binary.output_zero), binary.low, binary.high);
      BINARY_SQUARED_DIFFERENCE: result = (left - right) * (left - right);
      BINARY_MUL: result = x_centred * y_centred;
      BINARY_SUB: result = left - right;
      default: result = left + right;
    endcase
    result = round_twice(result, {1'b0, binary.output_multiplier[30:0]}, 8'(binary.output_shift));
    return limited(result + 32'(binary.output_zero), binary.low, binary.high);
  endfunction

  // What of a code is compared.
  function automatic logic signed [63:0] compared(code_t value, logic signed [8:0] zero, logic [30:0] multiplier,
                                                  logic signed [5:0] shift);
    sum_t centred;
    centred = 32'(extended(value, binary.signed_)) - 32'(zero);
    case (32'(binary.scale))
      SCALE_CODES: return 64'(extended(value, binary.signed_));
      SCALE_ROUNDED: return 64'(round_twice(centred <<< binary.left_shift, {1'b0, multiplier}, 8'(shift)));
      default: return (64'(centred) * $signed({33'd0, multiplier})) <<< shift;
    endcase
  endfunction

  function automatic code_t compare_code();
    logic signed [63:0] x, y;
    x = compared(a[7:0], binary.a_zero, binary.a_multiplier[30:0], binary.a_shift);
    y = compared(b[7:0], binary.b_zero, binary.b_multiplier[30:0], binary.b_shift);
    case (32'(binary.function_))
      BINARY_EQUAL: return 8'(x == y);
      BINARY_NOT_EQUAL: return 8'(x != y);
      BINARY_GREATER: return 8'(x > y);
      BINARY_GREATER_EQUAL: return 8'(x >= y);
      BINARY_LESS: return 8'(x < y);
      default: return 8'(x <= y);
    endcase
  endfunction

  select_t choice;
  assign choice = select_t'(word[VECTOR_OFFSET+:$bits(select_t)]);

  function automatic code_t select_code();
    code_t chosen;
    sum_t centred, rescaled;
    chosen = a[7:0] != 0 ? b[7:0] : c[7:0];
    if (!choice.function_) return chosen;
    centred = 32'(extended(chosen, choice.signed_)) - 32'(a[7:0] != 0 ? choice.a_zero : choice.b_zero);
    rescaled = round_twice(centred, {1'b0, a[7:0] != 0 ? choice.a_multiplier : choice.b_multiplier},
                           8'(a[7:0] != 0 ? choice.a_shift : choice.b_shift));
    return 8'(limited(rescaled + 32'(choice.output_zero), choice.low, choice.high));
  endfunction

  sum_t element, scaled;
  logic largest;
  always_comb begin
    element = value_of(a, int16, pool.signed_);
    largest = 32'(pool.function_) == POOL_MAXIMUM;
    gathers = gathered;
    code = 0;
    scaled = 0;
    case (word[7:0])
      BINARY_OPCODE: code = 32'(binary.function_) >= BINARY_EQUAL ? 16'(compare_code()) : binary_code();
      SELECT_OPCODE: code = 16'(select_code());
      POOL_OPCODE: begin
        if (first) gathers = !largest ? 0 : int16 ? -32768 : pool.signed_ ? -128 : 0;
        if (covered) gathers = !largest ? gathers + element : element > gathers ? element : gathers;
        code = limited(largest ? gathers : averaged(gathers, sum_t'(number)), pool.low, pool.high);
      end
      CONVERT_OPCODE: begin
        scaled = round_twice(value_of(a, 32'(convert.source) == STORED_INT16, 32'(convert.source) == STORED_INT8) -
                             32'(convert.input_zero),
                             {1'b0, convert.multiplier}, 8'(convert.shift));
        code = limited(scaled + 32'(convert.output_zero), convert.low, convert.high);
      end
      LOOKUP_OPCODE: code = 16'(entry);
      default: ;
    endcase
  end
endmodule
