// The real lanes of the vector unit: functions of one operand and of two, reductions, pools and conversions of real
// numbers, one instruction at a time.
//
// Operands leave the scratchpad in steps of up to so many elements as there are lanes of the element type, pass
// `startup_cycles` registers, and stay in front of the lanes for as many cycles as the step takes there. While they
// stay, everything behind them waits. The last cycle of a result's last step writes it.
`timescale 1ns / 1ps

module real_unit
  import npu_types::*;
  import npu_reals::*;
  import isa_words::*;
#(
    parameter int LANES = 8,
    parameter int STAGES = 16  // most registers between scratchpad and lanes
) (
    input  logic                           clk,
    input  logic                           reset,
    input  real_straps_t                   straps,
    input  logic                           start,
    input  logic           [575:0]         word,
    output logic                           done,
    // Scratchpad ports, an element wide: data comes in the cycle of the address.
    output count_t                         source_bytes,
    output count_t                         target_bytes,
    output logic           [LANES-1:0]     a_enable,
    output address_t       [LANES-1:0]     a_address,
    input  wide_t          [LANES-1:0]     a_data,
    output logic           [LANES-1:0]     b_enable,
    output address_t       [LANES-1:0]     b_address,
    input  wide_t          [LANES-1:0]     b_data,
    output logic           [LANES-1:0]     write,
    output address_t       [LANES-1:0]     write_address,
    output wide_t          [LANES-1:0]     write_data
);
  logic [575:0] held;
  always_ff @(posedge clk) if (start) held <= word;
  binary_t binary;
  unary_t unary;  // all instructions but conversions have the format in front
  reduce_t reduce;
  pool_t pool;
  convert_t convert;
  assign binary = binary_t'(held[VECTOR_OFFSET+:$bits(binary_t)]);
  assign unary = unary_t'(held[VECTOR_OFFSET+:$bits(unary_t)]);
  assign reduce = reduce_t'(held[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign pool = pool_t'(held[VECTOR_OFFSET+:$bits(pool_t)]);
  assign convert = convert_t'(held[VECTOR_OFFSET+:$bits(convert_t)]);

  // Types of the elements on both sides.
  logic [2:0] source, target;
  logic wide;
  always_comb begin
    source = 3'(32'(unary.format) == FORMAT_FLOAT32 ? STORED_FLOAT32
        : 32'(unary.format) == FORMAT_INT32 ? STORED_INT32
        : 32'(unary.format) == FORMAT_INT64 ? STORED_INT64 : STORED_FLOAT16);
    target = source;
    if (held[7:0] == CONVERT_OPCODE) begin
      source = convert.source;
      target = convert.target;
    end else if (held[7:0] == BINARY_OPCODE && 32'(binary.function_) >= BINARY_EQUAL) begin
      target = 3'(STORED_UINT8);
    end
    wide = 32'(source) >= STORED_FLOAT32 || 32'(target) >= STORED_FLOAT32;
    source_bytes = stored_bytes(source);
    target_bytes = stored_bytes(target);
  end

  logic advance;
  step_t fetched;
  logic [LANES-1:0] enable;
  real_fetch #(
      .LANES(LANES)
  ) fetch (
      .clk,
      .reset,
      .start,
      .word(held),
      .lanes(wide ? straps.float32_lanes : straps.float16_lanes),
      .source_bytes,
      .target_bytes,
      .advance,
      .now(fetched),
      .enable,
      .a_address,
      .b_address
  );
  assign a_enable = advance ? enable : '0;
  assign b_enable = held[7:0] == BINARY_OPCODE ? a_enable : '0;

  // The registers; all of them move, or none.
  step_t [STAGES+1:1] steps;
  wide_t [STAGES:1][LANES-1:0] a_stages, b_stages;
  always_ff @(posedge clk) begin
    if (reset) steps <= '0;
    else if (advance) begin
      steps <= {steps[STAGES:1], fetched};
      steps[straps.startup_cycles+1].valid <= 0;  // it leaves through the lanes
      a_stages <= {a_stages[STAGES-1:1], a_data};
      b_stages <= {b_stages[STAGES-1:1], b_data};
    end
  end
  step_t step;
  wide_t [LANES-1:0] a, b;
  assign step = straps.startup_cycles == 0 ? fetched : steps[straps.startup_cycles];
  assign a = straps.startup_cycles == 0 ? a_data : a_stages[straps.startup_cycles];
  assign b = straps.startup_cycles == 0 ? b_data : b_stages[straps.startup_cycles];

  // How long a step stays.
  function automatic count_t binary_cycles(logic [4:0] number);
    case (32'(number))
      BINARY_POW: return straps.float_function_cycles;
      BINARY_DIV, BINARY_FLOOR_DIV, BINARY_FLOOR_MOD: return straps.float_divide_cycles;
      default: return straps.float_cycles;
    endcase
  endfunction
  function automatic count_t unary_cycles(logic [5:0] number);
    case (32'(number))
      UNARY_ELU, UNARY_EXP, UNARY_LOG, UNARY_SIN, UNARY_COS, UNARY_TANH, UNARY_LOGISTIC, UNARY_GELU,
      UNARY_GELU_BY_TANH, UNARY_ERF:
      return straps.float_function_cycles;
      UNARY_HARD_SWISH, UNARY_SQRT, UNARY_RSQRT: return straps.float_divide_cycles;
      default: return straps.float_cycles;
    endcase
  endfunction
  count_t stays, stayed, divisions;
  always_comb begin
    divisions = 0;  // behind the last element of a window
    case (held[7:0])
      REDUCE_OPCODE: divisions = 32'(reduce.function_) == REDUCE_MEAN ? 1 : 0;
      POOL_OPCODE:
      divisions = 32'(pool.function_) == POOL_L2 ? 2 : 32'(pool.function_) == POOL_AVERAGE ? 1 : 0;
      default: ;
    endcase
    case (held[7:0])
      BINARY_OPCODE:
      stays = binary_cycles(binary.function_) *
          (32'(source) != STORED_INT64 ? 1 : 32'(binary.function_) == BINARY_MUL ? 3 : 2);
      UNARY_OPCODE: stays = unary_cycles(unary.function_);
      CONVERT_OPCODE:
      stays = 32'(target) < STORED_FLOAT16 ? straps.float_divide_cycles
          : 32'(source) == STORED_INT64 ? 2 * straps.float_cycles : straps.float_cycles;
      default: stays = straps.float_cycles + (step.last ? divisions * straps.float_divide_cycles : 0);
    endcase
  end
  logic leaves;
  assign leaves = step.valid && stayed + 1 >= stays;
  assign advance = !step.valid || leaves;
  assign done = leaves && step.final_step;

  wide_t [LANES-1:0] gathered, gathers;
  count_t number, number_now;
  assign number_now = (step.first ? 0 : number) + 32'(step.covered);
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    real_lane work (
        .word(held),
        .source,
        .target,
        .first(step.first),
        .covered(step.covered),
        .a(a[lane]),
        .b(b[lane]),
        .gathered(gathered[lane]),
        .number(number_now),
        .gathers(gathers[lane]),
        .result(write_data[lane])
    );
    assign write[lane] = leaves && step.last && count_t'(lane) < step.used;
    assign write_address[lane] = step.target + address_t'(32'(lane) * target_bytes);
  end

  always_ff @(posedge clk) begin
    if (reset || leaves) stayed <= 0;
    else if (step.valid) stayed <= stayed + 1;
    if (leaves) begin
      gathered <= gathers;
      number <= number_now;
    end
  end
endmodule
