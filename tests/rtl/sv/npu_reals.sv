// Arithmetic of the real lanes: combinational functions in C++ (real_lanes.cpp), numbers as their bits.
//
// A lane works in float32; sums and products of many elements are float64. No function knows of time.
`timescale 1ns / 1ps

package npu_reals;
  typedef logic [31:0] real_t;  // a float32, or what is stored of a narrower type in the low bits
  typedef logic [63:0] wide_t;  // a float64, or a stored operand of up to 8 bytes

  import "DPI-C" function int unsigned real_widened(int unsigned stored, longint unsigned word);
  import "DPI-C" function int unsigned real_narrowed(int unsigned stored, int unsigned x);
  import "DPI-C" function int unsigned real_binary(
    int unsigned function_number,
    int unsigned activation,
    int unsigned a,
    int unsigned b
  );
  import "DPI-C" function longint unsigned whole_binary(
    int unsigned function_number,
    int unsigned bits,
    longint unsigned a,
    longint unsigned b
  );
  import "DPI-C" function int unsigned real_unary(
    int unsigned function_number,
    int unsigned alpha,
    int unsigned x
  );
  import "DPI-C" function longint unsigned real_reduce_step(
    int unsigned function_number,
    int unsigned first,
    longint unsigned gathered,
    int unsigned x
  );
  import "DPI-C" function int unsigned real_reduce_result(
    int unsigned function_number,
    longint unsigned gathered,
    int unsigned number
  );
  import "DPI-C" function longint unsigned real_pool_step(
    int unsigned function_number,
    int unsigned first,
    int unsigned covered,
    longint unsigned gathered,
    int unsigned x
  );
  import "DPI-C" function int unsigned real_pool_result(
    int unsigned function_number,
    int unsigned activation,
    longint unsigned gathered,
    int unsigned number
  );
  import "DPI-C" function int unsigned real_of_code(int unsigned scale, int zero, int unsigned x);
  import "DPI-C" function int unsigned code_of_real(
    int unsigned stored,
    int unsigned scale,
    int zero,
    int unsigned x
  );

  // Of codes in float32: scales are bits of float32, `least` is the smallest code of the output's type.
  import "DPI-C" function int unsigned float_pair(
    int unsigned function_number,
    int a,
    int b,
    int unsigned a_scale,
    int unsigned b_scale,
    int unsigned output_scale,
    int a_zero,
    int b_zero,
    int output_zero,
    int low,
    int high,
    int least
  );
  import "DPI-C" function longint unsigned float_pool_step(
    int unsigned by_columns,
    int unsigned first,
    int unsigned opens,
    int unsigned covered,
    longint unsigned gathered,
    int x,
    int unsigned scale,
    int zero
  );
  import "DPI-C" function int unsigned float_pool_result(
    int unsigned fused,
    longint unsigned gathered,
    int unsigned number,
    int unsigned scale,
    int zero,
    int low,
    int high,
    int least
  );
  import "DPI-C" function longint unsigned float_reduce_step(
    int unsigned function_number,
    int unsigned first,
    longint unsigned gathered,
    int x,
    int unsigned scale,
    int zero
  );
  import "DPI-C" function int unsigned float_reduce_result(
    int unsigned function_number,
    longint unsigned gathered,
    int unsigned number,
    int unsigned scale,
    int zero,
    int low,
    int high,
    int least
  );

  // Statistics of rows: integers if fused, else the bits of float64. The root of a fused row is two float32, its factor
  // in the low half.
  import "DPI-C" function longint unsigned normal_sum(
    int unsigned fused,
    longint unsigned sum,
    int x,
    int unsigned scale,
    int zero
  );
  import "DPI-C" function longint unsigned normal_mean(longint unsigned sum, int unsigned depth);
  import "DPI-C" function longint unsigned normal_square(
    int unsigned fused,
    longint unsigned squares,
    int x,
    longint unsigned mean,
    int unsigned scale,
    int zero
  );
  import "DPI-C" function longint unsigned normal_root(
    int unsigned fused,
    longint unsigned sum,
    longint unsigned squares,
    int unsigned depth,
    int unsigned scale,
    int unsigned epsilon
  );
  import "DPI-C" function int unsigned normal_result(
    int unsigned fused,
    int x,
    longint unsigned mean,
    longint unsigned root,
    int unsigned factor,
    int unsigned addend,
    int unsigned scale,
    int zero,
    int unsigned output_scale,
    int output_zero,
    int low,
    int high,
    int least
  );

  // Bytes of a stored type.
  function automatic logic [31:0] stored_bytes(logic [2:0] stored);
    case (32'(stored))
      isa_words::STORED_INT64: return 8;
      isa_words::STORED_FLOAT32, isa_words::STORED_INT32: return 4;
      isa_words::STORED_FLOAT16: return 2;
      default: return 1;
    endcase
  endfunction
endpackage
