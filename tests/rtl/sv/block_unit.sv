// The block engine: one instruction at a time from `start` to `done`.
//
//   decoder    brings the weights of a step, all places of a set, while the step before is multiplied
//   array      goes through the steps of a block; in each, micro-block by micro-block, all products of it
//   stage      empties a block while the array computes the next one, in the other accumulators
//   transfers  the first inputs before, the last outputs behind
//
// Array and stage leave a block when they are done with it and its commands are through. Feature maps pass their port
// beside all that (`block_port`). An instruction on int16 values goes through twice, as in `mac_unit`.
`timescale 1ns / 1ps

module block_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_blocks::*;
  import isa_words::*;
#(
    parameter int MICRO_HEIGHT = 1,
    parameter int MICRO_WIDTH = 2,
    parameter int MICRO_CHANNELS = 4,
    parameter int STEP = 4,             // cycles of a micro-block in a step
    parameter int PRODUCTS = 8,         // of each output in a step
    parameter int PART_ELEMENTS = 2,    // of the kernel, in a step part-kernel first
    parameter int CHANNEL_ELEMENTS = 4, // the same of a depthwise convolution
    parameter int ACCUMULATORS = 1024,  // of a block
    parameter int LANES = 4,
    parameter int PORT = 16,
    localparam int AT_ONCE = PRODUCTS / STEP,
    localparam int MICRO_PIXELS = MICRO_HEIGHT * MICRO_WIDTH
) (
    input  logic                                                                clk,
    input  logic                                                                reset,
    input  block_straps_t                                                       straps,
    input  logic                                                                start,
    input  logic           [       575:0]                                       word,
    output logic                                                                done,
    output logic                                                                array_active,
    output count_t                                                              map_bytes,     // through the port
    // Scratchpad: data comes in the cycle of the address.
    output logic           [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][ AT_ONCE-1:0] ifm_enable,
    output address_t       [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][ AT_ONCE-1:0] ifm_address,
    input  code_t          [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][ AT_ONCE-1:0] ifm_data,
    output logic           [        PORT-1:0]                                   weight_place,  // that passes, also of a zero
    output logic           [        PORT-1:0]                                   weight_enable,
    output address_t       [        PORT-1:0]                                   weight_address,
    input  code_t          [        PORT-1:0]                                   weight_data,
    output address_t       [       LANES-1:0][    PARAMETERS-1:0]               parameter_address,
    input  parameters_t    [       LANES-1:0]                                   parameter_data,
    output logic           [       LANES-1:0][               3:0]               write,
    output address_t       [       LANES-1:0]                                   write_address,
    output code_t          [       LANES-1:0][               3:0]               write_data
);
  localparam int SET = PRODUCTS * MICRO_CHANNELS;
  localparam int PARAMETER_BYTES = 10;

  // The instruction. A depthwise convolution of one channel goes like any other.
  logic [575:0] held;
  window_t i;
  block_plan_t plan;
  logic depthwise, transposed, in_float32, int16, turned, busy;
  logic upper, through_pass, go;  // the upper bytes pass; a pass ends; a pass starts
  logic [1:0] wide;
  count_t weight_stride, all_weights, row_step, column_step;
  always_ff @(posedge clk) begin
    if (start) held <= word;
    if (go) upper <= start;
  end
  assign go = start || (through_pass && int16 && upper);
  assign done = through_pass && !(int16 && upper);
  always_comb begin
    i = window_t'(held[WINDOW_OFFSET+:$bits(window_t)]);
    depthwise = held[7:0] == DEPTHWISE_OPCODE;
    transposed = !depthwise && held[CONVOLVE_IFM_TRANSPOSED_OFFSET];
    weight_stride = depthwise ? 32'(i.ofm_depth) : 32'(held[CONVOLVE_WEIGHT_STRIDE_OFFSET+:CONVOLVE_WEIGHT_STRIDE_BITS]);
    wide = depthwise ? 0 : held[CONVOLVE_WIDE_OFFSET+:CONVOLVE_WIDE_BITS];
    in_float32 = depthwise ? held[DEPTHWISE_RESCALE_OFFSET] : held[CONVOLVE_RESCALE_OFFSET];
    int16 = depthwise ? held[DEPTHWISE_INT16_OFFSET] : held[CONVOLVE_INT16_OFFSET];
    turned = straps.turns_rows[0] && i.ofm_height == 1;
    plan.micro_height = turned ? 1 : MICRO_HEIGHT;
    plan.micro_width = turned ? MICRO_PIXELS : MICRO_WIDTH;
    plan.micro_channels = MICRO_CHANNELS;
    plan.step_cycles = STEP;
    plan.products = PRODUCTS;
    plan.by_channel = depthwise && i.ifm_depth > 1;
    plan.rows = 32'(i.ofm_height);
    plan.columns = 32'(i.ofm_width);
    plan.channels = 32'(i.ofm_depth);
    plan.inputs = 32'(i.ifm_depth);
    plan.seen = plan.by_channel ? 1 : smaller(straps.input_depth, plan.inputs);
    plan.group = plan.by_channel ? 1 : straps.part_kernel[0] ? PRODUCTS / PART_ELEMENTS : PRODUCTS;
    plan.elements = plan.by_channel ? CHANNEL_ELEMENTS : straps.part_kernel[0] ? PART_ELEMENTS : 1;
    plan.kernel_height = (32'(i.kernel_height) - 1) * straps.fill_height + 1;
    plan.kernel_width = (32'(i.kernel_width) - 1) * straps.fill_width + 1;
    row_step = 32'(i.dilation_height) / straps.fill_height;
    column_step = 32'(i.dilation_width) / straps.fill_width;
    all_weights = plan.kernel_height * plan.kernel_width * plan.channels * (plan.by_channel ? 1 : plan.inputs);
  end

  // Decoder: the set of one step is complete, or arrives, while another one is multiplied with.
  block_step_t coming;
  logic loading, none_comes, set_complete;
  count_t arrived;  // places
  operand_t [MICRO_CHANNELS-1:0][PRODUCTS-1:0] shadow, arriving, weights;
  assign set_complete = !loading || arrived + straps.weight_port >= SET;
  always_comb begin
    arriving = arrived == 0 ? '0 : shadow;
    for (int p = 0; p < PORT; p++) begin
      automatic count_t place = arrived + p;
      automatic count_t lane = place / PRODUCTS;
      automatic block_tap_t tap = tap_of(coming, plan, straps, place % PRODUCTS);
      automatic count_t channel = coming.channel + coming.layer + lane;
      automatic count_t inner = (tap.row / straps.fill_height * 32'(i.kernel_width) + tap.column / straps.fill_width) *
          (plan.by_channel ? 1 : plan.inputs) + (plan.by_channel ? 0 : tap.channel);
      weight_place[p] = loading && p < straps.weight_port && place < SET && tap.valid &&
          coming.layer + lane < depth_of(coming, plan, straps);
      weight_enable[p] = weight_place[p] && !tap.zero;
      weight_address[p] = i.weights + address_t'(weight_stride != 0 ? inner * weight_stride + channel
          : channel * 32'(i.kernel_height) * 32'(i.kernel_width) * plan.inputs + inner);
    end
  end
  operand_t [PORT-1:0] weight_operand;
  for (genvar p = 0; p < PORT; p++) begin : g_weight
    assign weight_operand[p] = {i.weights_signed && weight_data[p][7], weight_data[p]} - i.weight_zero;
  end
  operand_t [MICRO_CHANNELS-1:0][PRODUCTS-1:0] filled;
  always_comb begin
    filled = arriving;
    for (int p = 0; p < PORT; p++) begin
      automatic count_t place = arrived + p;
      if (weight_enable[p]) filled[place/PRODUCTS][place%PRODUCTS] = weight_operand[p];
    end
  end

  // First inputs, last outputs.
  count_t clock, leaving_clock, first_bytes, last_bytes;
  logic inputs_there, leaving, away;
  count_t map_height, map_width;
  always_comb begin
    map_height = plan.rows * 32'(i.stride_height);
    map_width = plan.columns * 32'(i.stride_width);
    if (map_height < (plan.kernel_height - 1) * row_step + 1) map_height = (plan.kernel_height - 1) * row_step + 1;
    if (map_width < (plan.kernel_width - 1) * column_step + 1) map_width = (plan.kernel_width - 1) * column_step + 1;
    first_bytes = smaller(straps.input_height, map_height) * smaller(straps.input_width, map_width) *
        (plan.by_channel ? smaller(straps.depth, plan.channels) : plan.seen);
  end
  assign inputs_there = transferred(straps, clock + 1, first_bytes);

  // Array.
  typedef enum logic [2:0] {
    FIRST,   // waits for the first inputs and weights
    STEPS,
    DRAIN,   // accumulators of the last step are written
    COMMANDS,
    ROOM     // waits for accumulators
  } array_t;
  array_t state;
  block_step_t at;
  block_move_t moved;
  count_t micro_row, micro_column, cycle, drained;
  logic bank, multiplied, last_cycle, last_column, last_row, step_ends, waits, through, drain_ends, left, begins;
  logic block_begins, commands_complete, room;
  logic [1:0] filled_banks, freed, taken;
  assign moved = move(at, plan, straps);
  assign waits = waits_behind(at, plan, straps) && straps.lone_step_cycles != 0;
  assign last_cycle = cycle + 1 == STEP;
  assign last_column = micro_column + plan.micro_width >= width_of(at, plan, straps);
  assign last_row = micro_row + plan.micro_height >= height_of(at, plan, straps);
  assign step_ends = state == STEPS && (multiplied || last_cycle && last_column && last_row) && set_complete;
  assign drain_ends = state == DRAIN && drained + 1 == straps.lone_step_cycles;
  assign through = step_ends && !waits || drain_ends;  // ready for the next step
  assign left = (through && moved.leaves_block || state == COMMANDS) && commands_complete;
  assign array_active = busy && (state == STEPS || state == DRAIN);
  // The next block may begin if the accumulators that it needs are empty, or will just be.
  assign freed = stage_ends ? 2'b01 << stage_bank : '0;
  assign taken = left ? 2'b01 << bank : '0;
  assign room = !filled_banks[!bank] || freed[!bank];
  assign block_begins = busy && (state == FIRST ? inputs_there_now && set_complete
      : left ? !moved.leaves_all && room : state == ROOM && !last_left && (!filled_banks[bank] || freed[bank]));
  assign begins = block_begins || through && !moved.leaves_block;

  logic inputs_seen, inputs_there_now;
  assign inputs_there_now = inputs_seen || inputs_there;

  block_commands array_commands (
      .clk,
      .reset,
      .straps,
      .plan,
      .start(block_begins),
      .first(coming),
      .complete(commands_complete)
  );

  // Products of this cycle.
  sum_t accumulators[2][ACCUMULATORS];
  logic opens;  // the first products of these accumulators
  logic multiplying;
  assign multiplying = state == STEPS && busy && !multiplied;
  assign opens = at.input_first == 0 && at.group_first == 0 && at.piece_row == 0 && at.piece_column == 0 &&
      at.element == 0 && cycle == 0;
  // A depthwise convolution has fewer products in a step, spread over its cycles likewise.
  localparam int CHANNEL_AT_ONCE = (CHANNEL_ELEMENTS + STEP - 1) / STEP;
  count_t at_once;
  assign at_once = plan.by_channel ? CHANNEL_AT_ONCE : AT_ONCE;
  logic [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0] exists;
  count_t [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0] accumulator;
  always_comb begin
    for (int p = 0; p < MICRO_PIXELS; p++) begin
      automatic count_t row = micro_row + p / plan.micro_width;
      automatic count_t column = micro_column + p % plan.micro_width;
      for (int c = 0; c < MICRO_CHANNELS; c++) begin
        automatic count_t lane = at.layer + c;
        exists[p][c] = multiplying && row < height_of(at, plan, straps) && column < width_of(at, plan, straps) &&
            lane < depth_of(at, plan, straps);
        accumulator[p][c] = (row * width_of(at, plan, straps) + column) * depth_of(at, plan, straps) + lane;
        for (int y = 0; y < AT_ONCE; y++) begin
          automatic count_t k = cycle * at_once + y;
          automatic block_tap_t tap = tap_of(at, plan, straps, k);
          automatic coordinate_t map_row = (at.row + row) * 32'(i.stride_height) + tap.row * row_step -
              32'(i.pad_top);
          automatic coordinate_t map_column = (at.column + column) * 32'(i.stride_width) +
              tap.column * column_step - 32'(i.pad_left);
          automatic count_t channel = depthwise ? (at.channel + lane) * plan.inputs / plan.channels : tap.channel;
          ifm_enable[p][c][y] = exists[p][c] && y < at_once && tap.valid && !tap.zero && map_row >= 0 &&
              map_row < 32'(i.ifm_height) && map_column >= 0 && map_column < 32'(i.ifm_width);
          ifm_address[p][c][y] = i.ifm + address_t'(map_row * 32'(i.ifm_row_stride)) +
              address_t'(map_column * (transposed ? 0 : 32'(i.ifm_pixel_stride))) +
              address_t'(channel * (transposed ? 32'(i.ifm_pixel_stride) : int16 ? 2 : 1)) + address_t'(int16 && upper);
        end
      end
    end
  end
  sum_t [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0] products;
  always_comb begin
    for (int p = 0; p < MICRO_PIXELS; p++) begin
      for (int c = 0; c < MICRO_CHANNELS; c++) begin
        products[p][c] = 0;
        for (int y = 0; y < AT_ONCE; y++) begin
          automatic count_t k = cycle * at_once + y;
          automatic logic negative = (int16 ? upper : i.signed_) && ifm_data[p][c][y][7];
          automatic operand_t operand = {negative, ifm_data[p][c][y]} - i.ifm_zero;
          if (ifm_enable[p][c][y]) products[p][c] = products[p][c] + 32'(operand) * 32'(weights[c][k]);
        end
      end
    end
  end

  // Output stage: elements of the block row by row, pixel by pixel; beside that biases and scales of its channels come.
  logic stage_busy, stage_bank, stage_ends, stage_begins, stage_commands_complete, all_out;
  block_step_t [1:0] block_at;  // of each half of the accumulators
  block_step_t empties;
  count_t element, phase, emitted, parameter_bytes, next_phase, size;
  assign empties = block_at[stage_bank];
  assign size = height_of(empties, plan, straps) * width_of(empties, plan, straps) * depth_of(empties, plan, straps);
  always_comb begin
    next_phase = phase + straps.output_denominator;
    emitted = 0;
    for (int lane = 0; lane < LANES; lane++) begin
      if (stage_busy && element + lane < size && next_phase >= straps.output_numerator) begin
        next_phase = next_phase - straps.output_numerator;
        emitted = emitted + 1;
      end
    end
  end
  assign all_out = element + emitted >= size &&
      parameter_bytes + straps.weight_port >= PARAMETER_BYTES * depth_of(empties, plan, straps);
  assign stage_ends = stage_busy && all_out && stage_commands_complete;
  // The next block is there, or just comes.
  logic next_bank;
  assign next_bank = stage_ends ? !stage_bank : stage_bank;
  assign stage_begins = (!stage_busy || stage_ends) && (filled_banks[next_bank] || taken[next_bank]) && busy;
  block_commands stage_commands (
      .clk,
      .reset,
      .straps,
      .plan,
      .start(stage_begins),
      .first(taken[next_bank] ? block_of_array : block_at[next_bank]),
      .complete(stage_commands_complete)
  );
  block_step_t block_of_array;  // its first step
  logic last_left;              // the array has left the last block
  logic [LANES-1:0] leaves;
  logic [LANES-1:0][$clog2(KEPT)-1:0] result;  // number of the output
  sum_t [LANES-1:0] sum_of;
  logic keeps;
  assign keeps = int16 && upper;
  always_comb begin
    block_of_array = '0;
    block_of_array.row = at.row;
    block_of_array.column = at.column;
    block_of_array.channel = at.channel;
    for (int lane = 0; lane < LANES; lane++) begin
      automatic count_t place = element + lane;
      automatic count_t depth = depth_of(empties, plan, straps);
      automatic count_t width = width_of(empties, plan, straps);
      automatic count_t row = empties.row + place / depth / width;
      automatic count_t column = empties.column + place / depth % width;
      automatic address_t channel = address_t'(empties.channel + place % depth);
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_address[lane][k] = parameter_place(i, int16, in_float32, channel, k);
      end
      leaves[lane] = lane < emitted;
      result[lane] = $clog2(KEPT)'((row * plan.columns + column) * plan.channels + 32'(channel));
      for (int k = 0; k < 4; k++) write[lane][k] = leaves[lane] && !keeps && k < 1 << (int16 ? 1 : wide);
      write_address[lane] = i.ofm + address_t'(row * 32'(i.ofm_row_stride)) +
          address_t'(column * 32'(i.ofm_pixel_stride)) + (channel << (int16 ? 1 : wide));
    end
  end
  sum_t kept[KEPT];
  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) if (leaves[lane] && keeps) kept[result[lane]] <= sum_of[lane];
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    assign sum_of[lane] = accumulators[stage_bank][element+lane<ACCUMULATORS?element+lane : 0];
    requantise rescale (
        .in_float32,
        .single     (i.rounding),
        .int16,
        .accumulator(sum_of[lane]),
        .upper      (kept[result[lane]]),
        .parameters (parameter_data[lane]),
        .zero       (i.ofm_zero),
        .low        (i.low),
        .high       (i.high),
        .wide,
        .code       (write_data[lane])
    );
  end

  logic port_complete, was_away;
  block_port #(
      .PORT(PORT)
  ) passes (
      .clk,
      .reset,
      .start(go),
      .straps,
      .plan,
      .weights(all_weights),
      .map_bytes,
      .complete(port_complete)
  );
  assign away = was_away || leaving && transferred(straps, leaving_clock + 1, last_bytes);
  assign through_pass = busy && away && port_complete;

  always_ff @(posedge clk) begin
    if (reset) begin
      busy <= 0;
      loading <= 0;
      stage_busy <= 0;
      filled_banks <= '0;
      state <= FIRST;
    end else if (go) begin
      busy <= 1;
      state <= FIRST;
      clock <= 0;
      inputs_seen <= 0;
      coming <= '0;
      loading <= 1;
      arrived <= 0;
      bank <= 1;
      filled_banks <= '0;
      stage_busy <= 0;
      stage_bank <= 0;
      last_left <= 0;
      leaving <= 0;
      was_away <= 0;
    end else if (busy) begin
      clock <= clock + 1;
      inputs_seen <= inputs_there_now;
      if (done) busy <= 0;

      // Decoder.
      if (loading) begin
        shadow  <= filled;
        arrived <= arrived + straps.weight_port;
        if (set_complete) loading <= 0;
      end
      if (begins) begin
        automatic block_move_t behind = move(coming, plan, straps);
        weights <= loading ? filled : shadow;
        at <= coming;
        coming <= behind.next;
        loading <= !behind.leaves_all;
        arrived <= 0;
      end

      // Array.
      if (multiplying) begin
        cycle <= last_cycle ? 0 : cycle + 1;
        if (last_cycle) begin
          micro_column <= last_column ? 0 : micro_column + plan.micro_width;
          if (last_column) micro_row <= micro_row + plan.micro_height;
          if (last_column && last_row) multiplied <= 1;
        end
        for (int p = 0; p < MICRO_PIXELS; p++) begin
          for (int c = 0; c < MICRO_CHANNELS; c++) begin
            if (exists[p][c]) begin
              accumulators[bank][accumulator[p][c]] <=
                  (opens ? 0 : accumulators[bank][accumulator[p][c]]) + products[p][c];
            end
          end
        end
      end
      if (begins) begin
        state <= STEPS;
        micro_row <= 0;
        micro_column <= 0;
        cycle <= 0;
        multiplied <= 0;
        if (block_begins && state != ROOM) bank <= !bank;
      end else if (step_ends && waits) begin
        state   <= DRAIN;
        drained <= 0;
      end else if (left) begin
        state <= ROOM;
        bank  <= !bank;
        if (moved.leaves_all) last_left <= 1;
      end else if (through) state <= COMMANDS;
      if (state == DRAIN) drained <= drained + 1;
      if (left) block_at[bank] <= block_of_array;

      // Output stage.
      filled_banks <= (filled_banks & ~freed) | taken;
      if (stage_begins) begin
        stage_busy <= 1;
        stage_bank <= next_bank;
        element <= 0;
        phase <= 0;
        parameter_bytes <= 0;
      end else if (stage_ends) begin
        stage_busy <= 0;
        stage_bank <= !stage_bank;
      end else begin
        element <= element + emitted;
        phase <= next_phase;
        parameter_bytes <= parameter_bytes + straps.weight_port;
      end

      // The outputs of the last block leave.
      if (stage_ends && last_left && !filled_banks[!stage_bank]) begin
        leaving <= 1;
        leaving_clock <= 0;
        last_bytes <= size;
      end
      if (leaving) leaving_clock <= leaving_clock + 1;
      if (away) was_away <= 1;
    end
  end
endmodule
