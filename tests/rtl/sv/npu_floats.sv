// Rescaling in float32, on bits: sign, exponent, significand. Written from IEEE 754, not from isa/arithmetic.
`timescale 1ns / 1ps

package npu_floats;
  import npu_types::*;

  typedef struct packed {
    logic        sign;
    logic [7:0]  exponent;
    logic [22:0] fraction;
  } float_t;

  localparam float_t Infinite = '{sign: 0, exponent: 255, fraction: 0};

  // value / 2^right for right of 0..63, to nearest, halves to even.
  function automatic logic [63:0] moved_to_even(logic [63:0] value, int right);
    logic [63:0] kept, rest, half;
    if (right == 0) return value;
    kept = value >> right;
    rest = value & ((64'd1 << right) - 1);
    half = 64'd1 << (right - 1);
    return kept + 64'(rest > half || (rest == half && kept[0]));
  endfunction

  // significand * 2^(exponent - 127 - 23), of 24 bits or, after a rounding up, 2^24.
  function automatic float_t packed_float(logic sign, int exponent, logic [63:0] significand);
    logic carried = significand[24];
    int   final_exponent = exponent + int'(carried);
    if (final_exponent >= 255) return {sign, Infinite[30:0]};
    return {sign, final_exponent[7:0], carried ? 23'd0 : significand[22:0]};
  endfunction

  function automatic float_t float_of(wide_sum_t value);
    logic [63:0] magnitude;
    int length;
    magnitude = 64'(value < 0 ? -49'(value) : 49'(value));
    length = 0;
    for (int k = 0; k < 49; k++) if (magnitude[k]) length = k + 1;
    if (length == 0) return '0;
    if (length < 24) return packed_float(value < 0, 126 + length, magnitude << (24 - length));
    return packed_float(value < 0, 126 + length, moved_to_even(magnitude, length - 24));
  endfunction

  function automatic logic is_nan(float_t x);
    return x.exponent == 255 && x.fraction != 0;
  endfunction

  function automatic logic is_infinite(float_t x);
    return x.exponent == 255 && x.fraction == 0;
  endfunction

  // A factor or a product below 2^-126 counts as 0: of whole numbers of 48 bits nothing that rounds to 1 comes of it.
  function automatic float_t product(float_t a, float_t b);
    logic sign;
    logic [63:0] exact;
    int exponent;
    sign = a.sign ^ b.sign;
    if (is_infinite(a) || is_infinite(b)) return {sign, Infinite[30:0]};
    if (a.exponent == 0 || b.exponent == 0) return '0;
    exact = 64'({1'b1, a.fraction}) * 64'({1'b1, b.fraction});
    exponent = int'(a.exponent) + int'(b.exponent) - 127 + int'(exact[47]);
    if (exponent <= 0) return '0;
    return packed_float(sign, exponent, moved_to_even(exact, exact[47] ? 24 : 23));
  endfunction

  // The nearest whole number, halves to even; beyond 2^30 as far.
  function automatic sum_t whole(float_t x);
    int power;
    logic [63:0] magnitude;
    power = int'(x.exponent) - 127;
    if (x.exponent == 0 || power < -1) return 0;
    if (power >= 30) magnitude = 64'd1 << 30;
    else if (power >= 23) magnitude = 64'({1'b1, x.fraction}) << (power - 23);
    else magnitude = moved_to_even(64'({1'b1, x.fraction}), 23 - power);
    return x.sign ? -32'(magnitude) : 32'(magnitude);
  endfunction

  // Whether value * scale is no number.
  function automatic logic undefined(wide_sum_t value, float_t scale);
    return is_nan(scale) || (is_infinite(scale) && value == 0);
  endfunction

  function automatic sum_t rescaled(wide_sum_t value, float_t scale);
    return whole(product(float_of(value), scale));
  endfunction
endpackage
