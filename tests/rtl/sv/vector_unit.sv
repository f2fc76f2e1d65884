// The vector unit: elementwise functions, rescales, look-ups, pools, means, reductions and resizes, one instruction at a time.
//
// Operands leave the scratchpad in steps of up to `lanes` elements, pass `startup_cycles` registers, and stay in
// front of the lanes for as many cycles as the step takes there. While they stay, everything behind them waits. The
// last cycle of a result's last step writes it. An int16 step stays that long `int16_passes` times.
`timescale 1ns / 1ps

module vector_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_reals::*;
  import isa_words::*;
#(
    parameter int LANES = 8,
    parameter int STAGES = 16  // most registers between scratchpad and lanes
) (
    input  logic                           clk,
    input  logic                           reset,
    input  vector_straps_t                 straps,
    input  logic                           start,
    input  logic           [575:0]         word,
    output logic                           done,
    // Scratchpad ports: data comes in the cycle of the address. An element has one byte or two.
    output count_t                         source_size,
    output logic           [LANES-1:0]     a_enable,
    output address_t       [LANES-1:0]     a_address,
    input  element_t       [LANES-1:0]     a_data,
    output logic           [LANES-1:0]     b_enable,
    output address_t       [LANES-1:0]     b_address,
    input  element_t       [LANES-1:0]     b_data,
    output logic           [LANES-1:0]     c_enable,
    output address_t       [LANES-1:0]     c_address,
    input  element_t       [LANES-1:0]     c_data,
    output count_t                         target_size,
    output logic           [LANES-1:0]     write,
    output address_t       [LANES-1:0]     write_address,
    output element_t       [LANES-1:0]     write_data
);
  logic [575:0] held;
  always_ff @(posedge clk) if (start) held <= word;

  logic advance, takes;
  step_t fetched;
  logic [LANES-1:0] enable;
  sum_t [LANES-1:0] fetched_share, share;
  vector_fetch #(
      .LANES(LANES)
  ) fetch (
      .clk,
      .reset,
      .start,
      .word(held),
      .has_table(word[7:0] == LOOKUP_OPCODE),
      .lanes(straps.lanes),
      .advance,
      .now(fetched),
      .source_size,
      .enable,
      .a_address,
      .b_address,
      .c_address,
      .share(fetched_share)
  );
  assign a_enable = takes ? enable : '0;
  logic has_b, has_c;
  assign has_c = held[7:0] == SELECT_OPCODE;
  assign has_b = held[7:0] == BINARY_OPCODE || has_c;
  assign b_enable = has_b ? a_enable : '0;
  assign c_enable = has_c ? a_enable : '0;

  // The registers; all of them move, or none.
  step_t [STAGES+1:1] steps;
  element_t [STAGES:1][LANES-1:0] a_stages, b_stages, c_stages;
  sum_t [STAGES:1][LANES-1:0] share_stages;
  always_ff @(posedge clk) begin
    if (reset) steps <= '0;
    else if (advance) begin
      steps <= {steps[STAGES:1], fetched};
      steps[straps.startup_cycles+1].valid <= 0;  // it leaves through the lanes
      a_stages <= {a_stages[STAGES-1:1], a_data};
      b_stages <= {b_stages[STAGES-1:1], b_data};
      c_stages <= {c_stages[STAGES-1:1], c_data};
      share_stages <= {share_stages[STAGES-1:1], fetched_share};
    end
  end
  step_t step;
  element_t [LANES-1:0] a, b, c;
  assign step = straps.startup_cycles == 0 ? fetched : steps[straps.startup_cycles];
  assign a = straps.startup_cycles == 0 ? a_data : a_stages[straps.startup_cycles];
  assign share = straps.startup_cycles == 0 ? fetched_share : share_stages[straps.startup_cycles];
  assign b = straps.startup_cycles == 0 ? b_data : b_stages[straps.startup_cycles];
  assign c = straps.startup_cycles == 0 ? c_data : c_stages[straps.startup_cycles];

  // How long a step stays.
  function automatic count_t binary_cycles(logic [4:0] binary_function);
    case (32'(binary_function))
      BINARY_ADD, BINARY_SUB, BINARY_RESCALED_MAX, BINARY_RESCALED_MIN: return straps.add_cycles;
      BINARY_MUL, BINARY_PRELU: return straps.mul_cycles;
      BINARY_SQUARED_DIFFERENCE: return straps.add_cycles + straps.mul_cycles;
      BINARY_DIV: return straps.divide_cycles + straps.mul_cycles;
      default: return straps.max_cycles;
    endcase
  endfunction
  function automatic count_t pair_cycles(logic [4:0] pair_function);
    case (32'(pair_function))
      BINARY_DIV: return straps.literal_divide_cycles;
      BINARY_FUSED_ADD, BINARY_FUSED_MUL: return straps.fused_cycles;
      default: return straps.literal_cycles;
    endcase
  endfunction
  binary_t binary;
  pool_t pool;
  reduce_t reduce;
  select_t choice;
  lookup_t look_up;
  assign choice = select_t'(held[VECTOR_OFFSET+:$bits(select_t)]);
  assign look_up = lookup_t'(held[VECTOR_OFFSET+:$bits(lookup_t)]);
  resize_t resize;
  assign resize = resize_t'(held[VECTOR_OFFSET+:$bits(resize_t)]);
  assign reduce = reduce_t'(held[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign binary = binary_t'(held[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(held[VECTOR_OFFSET+:$bits(pool_t)]);
  logic in_floats;
  assign in_floats = computes_in_float32(held);
  logic int16;
  assign int16 = on_int16(held);
  assign target_size = target_bytes(held);
  // A step stays for a number of cycles in each pass; a result of several pieces leaves piece by piece, the first in
  // the last of these cycles.
  count_t stays, stayed, passes, pass, pieces;
  assign pieces = step.last ? result_bytes(held) / target_size : 1;
  assign passes = int16 && !step.table_entries ? straps.int16_passes : 1;
  always_comb begin
    if (in_floats) begin
      case (held[7:0])
        BINARY_OPCODE: stays = pair_cycles(binary.function_);
        POOL_OPCODE: stays = straps.dequantise_cycles + (step.last ? straps.quantise_cycles : 0);
        default: stays = 32'(reduce.function_) == REDUCE_FUSED_MEAN ?
            straps.reduce_cycles + (step.last ? straps.fused_cycles : 0) :
            straps.dequantise_cycles + (step.last ? straps.quantise_cycles : 0);
      endcase
    end else case (held[7:0])
      BINARY_OPCODE: stays = 32'(binary.function_) < BINARY_EQUAL ? binary_cycles(binary.function_) :
          32'(binary.scale) == SCALE_CODES ? straps.max_cycles : straps.add_cycles;
      SELECT_OPCODE: stays = straps.max_cycles + (choice.function_ ? straps.requantise_cycles : 0);
      POOL_OPCODE: stays = straps.pool_cycles +
          (step.last && 32'(pool.function_) != POOL_MAXIMUM ? straps.divide_cycles : 0);
      REDUCE_OPCODE: stays = 32'(reduce.function_) == REDUCE_SUM ?
          straps.reduce_cycles + (step.last ? straps.requantise_cycles : 0) :
          straps.max_cycles;
      RESIZE_OPCODE: stays = resize.bilinear ? straps.mul_cycles : straps.lut_cycles;
      CONVERT_OPCODE: stays = straps.requantise_cycles;
      default: stays = step.table_entries ? 1 : int16 ? 2 * straps.lut_cycles + straps.mul_cycles : straps.lut_cycles;
    endcase
  end
  logic leaves, last_pass, pass_ends;
  assign last_pass = pass + 1 >= passes;
  assign pass_ends = step.valid && !last_pass && stayed + 1 >= stays;
  assign leaves = step.valid && last_pass && stayed + 1 >= stays + pieces - 1;
  assign advance = !step.valid || leaves;
  assign done = leaves && step.final_step;

  code_t entries[1026];  // of up to 4 bytes each
  sum_t [LANES-1:0] gathered, gathers;
  count_t number, number_now;
  assign number_now = (step.first ? 0 : number) + 32'(step.covered);
  wide_t [LANES-1:0] floats, floats_now;  // gathered in float32 or float64
  logic reduces, resizes, writes;
  count_t piece;
  count_t [LANES-1:0] position, positions, leaving;  // of extremes; those whose first piece is written
  assign reduces = held[7:0] == REDUCE_OPCODE;
  assign resizes = held[7:0] == RESIZE_OPCODE;
  assign writes = step.valid && last_pass && stayed + 1 >= stays;
  assign piece = stayed + 1 - stays;
  // Without registers the lanes read the scratchpad itself, once: before the further pieces of a result.
  assign takes = straps.startup_cycles == 0 ? !step.valid || writes && piece == 0 : advance;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    code_t pixel, of_floats;
    element_t code, extreme, between;
    count_t entry_place;
    sum_t lane_gathers, reduce_gathers, resize_gathers;
    logic [9:0] entry_byte;  // a lane gives one byte of an entry
    assign entry_byte = (10'(a[lane][7:0]) << look_up.entry) |
        (10'(step.target - look_up.output_) + 10'(lane)) & ((10'd1 << look_up.entry) - 1);
    vector_lane work (
        .word(held),
        .first(step.first),
        .covered(step.covered),
        .int16,
        .a(a[lane]),
        .b(b[lane]),
        .c(c[lane]),
        .entry(entries[entry_byte]),
        .gathered(gathered[lane]),
        .number(number_now),
        .gathers(lane_gathers),
        .code
    );
    interpolating_lane table_of_int16 (
        .word(held),
        .a(a[lane]),
        .position(entry_place),
        .here({entries[2*entry_place+1], entries[2*entry_place]}),
        .behind({entries[2*entry_place+3], entries[2*entry_place+2]}),
        .code(between)
    );
    reduce_lane reduction (
        .word(held),
        .first(step.first),
        .int16,
        .a(a[lane]),
        .gathered(gathered[lane]),
        .position(position[lane]),
        .number(number_now),
        .gathers(reduce_gathers),
        .positions(positions[lane]),
        .code(extreme)
    );
    resize_lane interpolation (
        .word(held),
        .first(step.first),
        .a(a[lane][7:0]),
        .share(share[lane]),
        .gathered(gathered[lane]),
        .gathers(resize_gathers),
        .code(pixel)
    );
    float_lane in_float32 (
        .word(held),
        .first(step.first),
        .opens(step.opens),
        .covered(step.covered),
        .a(a[lane][7:0]),
        .b(b[lane][7:0]),
        .gathered(floats[lane]),
        .number(number_now),
        .gathers(floats_now[lane]),
        .code(of_floats)
    );
    assign gathers[lane] = reduces ? reduce_gathers : resizes ? resize_gathers : lane_gathers;
    assign write[lane] = writes && step.last && !step.table_entries &&
        count_t'(lane) < step.used;
    assign write_address[lane] = step.target + address_t'(32'(lane) * result_bytes(held) + piece * target_size);
    always_comb begin
      if (in_floats) write_data[lane] = 16'(of_floats);
      else if (resizes) write_data[lane] = 16'(pixel);
      else if (int16 && held[7:0] == LOOKUP_OPCODE) write_data[lane] = between;
      else if (!reduces) write_data[lane] = code;
      else if (result_bytes(held) == target_size) write_data[lane] = extreme;
      else if (piece == 0) write_data[lane] = 16'(positions[lane]);
      else write_data[lane] = piece * target_size < 4 ? 16'(leaving[lane] >> (8 * piece * target_size)) : 0;
    end
  end

  always_ff @(posedge clk) begin
    if (reset || leaves || pass_ends) stayed <= 0;
    else if (step.valid) stayed <= stayed + 1;
    if (reset || leaves) pass <= 0;
    else if (pass_ends) pass <= pass + 1;
    if (writes && piece == 0) leaving <= positions;
    if (leaves) begin
      gathered <= gathers;
      floats <= floats_now;
      position <= positions;
      number <= number_now;
      for (int lane = 0; lane < LANES; lane++) begin
        if (step.table_entries && count_t'(lane) < step.used) begin
          entries[11'(step.target)+11'(lane)] <= a[lane][7:0];
        end
      end
    end
  end
endmodule
