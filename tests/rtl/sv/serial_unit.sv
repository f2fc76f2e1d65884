// The bit-serial engine: one instruction at a time from `start` to `done`. Blocks of SIDE x SIDE output pixels by
// CHANNELS output channels, one after the other; for each, steps of INPUTS input channels:
//
//   LOAD      a pixel of the patch below the block enters the input buffer each cycle, behind a start; then a wait
//   MULTIPLY  for each output channel the weights of all taps and input channels pass, one bit a cycle; with a kernel
//             of one tap the multipliers of the other taps take more bits of the same weight
//
// and behind the steps
//
//   EMPTY     the output stage writes one channel after the other, all pixels of it, CHANNELS in `output_cycles`.
`timescale 1ns / 1ps

module serial_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int SIDE = 3,
    parameter int KERNEL = 3,
    parameter int CHANNELS = 32,
    parameter int INPUTS = 16,
    localparam int TAPS = KERNEL * KERNEL,
    localparam int PIXELS = SIDE * SIDE
) (
    input  logic                                        clk,
    input  logic                                        reset,
    input  serial_straps_t                              straps,
    input  logic                                        start,
    input  logic           [       575:0]               word,
    output logic                                        done,
    output logic                                        array_active,
    // Scratchpad ports: data comes in the cycle of the address.
    output logic                                        loading,           // a pixel passes, all channels of a step
    output logic           [  INPUTS-1:0]               ifm_enable,
    output address_t       [  INPUTS-1:0]               ifm_address,
    input  code_t          [  INPUTS-1:0]               ifm_data,
    output logic           [    TAPS-1:0][INPUTS-1:0]   weight_enable,
    output logic           [    TAPS-1:0][INPUTS-1:0]   weight_first,      // of the bits of a weight
    output address_t       [    TAPS-1:0][INPUTS-1:0]   weight_address,
    input  code_t          [    TAPS-1:0][INPUTS-1:0]   weight_data,
    output address_t       [PARAMETERS-1:0]             parameter_address,
    input  parameters_t                                 parameter_data,
    output logic           [  PIXELS-1:0][       3:0]   write,
    output address_t       [  PIXELS-1:0]               write_address,     // of the low byte
    output code_t          [  PIXELS-1:0][       3:0]   write_data
);
  localparam int PATCH = SIDE + KERNEL - 1;
  typedef enum logic [1:0] {
    IDLE,
    LOAD,
    MULTIPLY,
    EMPTY
  } state_t;

  // The instruction.
  logic [575:0] held;
  window_t i;
  logic by_channel, transposed, in_float32, is_point;
  logic [1:0] wide;
  count_t weight_stride, kernel, largest_stride, side, lanes, fitting;
  always_ff @(posedge clk) if (start) held <= word;
  always_comb begin
    i = window_t'(held[WINDOW_OFFSET+:$bits(window_t)]);
    by_channel = held[7:0] == DEPTHWISE_OPCODE;
    weight_stride = by_channel ? 0 : 32'(held[CONVOLVE_WEIGHT_STRIDE_OFFSET+:CONVOLVE_WEIGHT_STRIDE_BITS]);
    transposed = !by_channel && held[CONVOLVE_IFM_TRANSPOSED_OFFSET];
    wide = by_channel ? 0 : held[CONVOLVE_WIDE_OFFSET+:CONVOLVE_WIDE_BITS];
    in_float32 = by_channel ? held[DEPTHWISE_RESCALE_OFFSET] : held[CONVOLVE_RESCALE_OFFSET];
    kernel = 32'(i.kernel_height);
    is_point = kernel == 1 && !by_channel;
    largest_stride = 32'(i.stride_height > i.stride_width ? i.stride_height : i.stride_width);
    fitting = (SIDE - 1) / largest_stride + 1;  // windows of a kernel in a row of the patch
    side = kernel == 1 || largest_stride == 1 ? SIDE : straps.strided_side < fitting ? straps.strided_side : fitting;
    lanes = by_channel ? straps.depthwise_channels : CHANNELS;
  end

  // Where it is.
  state_t state;
  count_t row, column, channel, first_input;  // of the block, and of the step
  count_t counted;                            // cycles of LOAD
  count_t slot, place, phase;                 // channel of the block, first bit; of the output stage
  count_t there, taken, input_base;
  assign there = 32'(i.ofm_depth) - channel < lanes ? 32'(i.ofm_depth) - channel : lanes;
  assign taken = is_point ? lanes : there;    // channels that pass
  assign input_base = by_channel ? channel * 32'(i.ifm_depth) / 32'(i.ofm_depth) : first_input;
  assign array_active = state == LOAD || state == MULTIPLY;

  // Loads: row and column of a pixel in the patch.
  operand_t [PATCH-1:0][PATCH-1:0][INPUTS-1:0] buffer;
  count_t patch_height, patch_width, opening, pixel_row, pixel_column;
  coordinate_t map_row, map_column;
  logic covered, load_ends;
  always_comb begin
    patch_height = !is_point ? SIDE + kernel - 1 : 32'(i.ofm_height) < SIDE ? 32'(i.ofm_height) : SIDE;
    patch_width = !is_point ? SIDE + kernel - 1 : 32'(i.ofm_width) < SIDE ? 32'(i.ofm_width) : SIDE;
    opening = is_point ? straps.point_start_cycles : straps.start_cycles;
    loading = state == LOAD && counted >= opening && pixel_row < patch_height;
    load_ends = counted + 1 == opening + patch_height * patch_width + straps.step_cycles;
    map_row = row * 32'(i.stride_height) - 32'(i.pad_top) + pixel_row * (kernel == 1 ? 32'(i.stride_height) : 1);
    map_column = column * 32'(i.stride_width) - 32'(i.pad_left) +
        pixel_column * (kernel == 1 ? 32'(i.stride_width) : 1);
    covered = map_row >= 0 && map_row < 32'(i.ifm_height) && map_column >= 0 && map_column < 32'(i.ifm_width);
    for (int k = 0; k < INPUTS; k++) begin
      ifm_enable[k] = loading && covered && input_base + k < 32'(i.ifm_depth);
      ifm_address[k] = i.ifm + address_t'(map_row * 32'(i.ifm_row_stride)) +
          address_t'(map_column * (transposed ? 0 : 32'(i.ifm_pixel_stride))) +
          address_t'((input_base + k) * (transposed ? 32'(i.ifm_pixel_stride) : 1));
    end
  end

  // Products. A depthwise channel has one input channel of the buffer.
  count_t bits_at_once, own_input;
  logic exists, last_bits, first_bits;
  logic [TAPS-1:0][INPUTS-1:0] set;
  logic [TAPS-1:0][3:0] bit_place;
  logic [TAPS-1:0] negative;
  operand_t [PIXELS-1:0][TAPS-1:0][INPUTS-1:0] operands;
  sum_t [PIXELS-1:0] products;
  sum_t sums[PIXELS][CHANNELS];
  assign bits_at_once = is_point ? TAPS : 1;
  assign first_bits = place == 0;
  assign last_bits = place + bits_at_once >= straps.weight_bits;
  assign exists = slot < there;
  assign own_input = (channel + slot) * 32'(i.ifm_depth) / 32'(i.ofm_depth) - input_base;
  always_comb begin
    for (int t = 0; t < TAPS; t++) begin
      automatic count_t tap = is_point ? 0 : t;
      automatic count_t at = is_point ? place + t : place;
      bit_place[t] = 4'(at);
      negative[t] = i.weights_signed && at == straps.weight_bits - 1;
      for (int k = 0; k < INPUTS; k++) begin
        automatic count_t inner = tap * 32'(i.ifm_depth) + first_input + k;
        weight_enable[t][k] = state == MULTIPLY && exists && (by_channel ? k == own_input && tap < kernel * kernel
            : first_input + k < 32'(i.ifm_depth) && tap < kernel * kernel) && (tap == t || at < straps.weight_bits);
        weight_address[t][k] = i.weights + address_t'(by_channel ? tap * 32'(i.ofm_depth) + channel + slot
            : weight_stride != 0 ? inner * weight_stride + channel + slot
            : (channel + slot) * kernel * kernel * 32'(i.ifm_depth) + inner);
        weight_first[t][k] = weight_enable[t][k] && first_bits && tap == t;
      end
    end
    for (int p = 0; p < PIXELS; p++) begin
      for (int t = 0; t < TAPS; t++) begin
        automatic count_t patch_row = kernel == 1 ? p / SIDE : p / SIDE * 32'(i.stride_height) + t / KERNEL;
        automatic count_t patch_column = kernel == 1 ? p % SIDE : p % SIDE * 32'(i.stride_width) + t % KERNEL;
        operands[p][t] = patch_row < PATCH && patch_column < PATCH ? buffer[patch_row][patch_column] : '0;
      end
    end
  end
  for (genvar t = 0; t < TAPS; t++) begin : g_tap
    for (genvar k = 0; k < INPUTS; k++) begin : g_input
      assign set[t][k] = weight_data[t][k][3'(bit_place[t])];
    end
  end
  for (genvar p = 0; p < PIXELS; p++) begin : g_pixel
    serial_pixel #(
        .TAPS(TAPS),
        .INPUTS(INPUTS)
    ) multipliers (
        .operands(operands[p]),
        .set,
        .place(bit_place),
        .negative,
        .counts(weight_first),
        .zero(i.weight_zero),
        .products(products[p])
    );
  end

  // Output: CHANNELS phases a cycle, a channel whenever `output_cycles` of them have passed.
  logic emits, empty_ends, last_group, last_column, last_row;
  address_t out_channel;
  assign emits = state == EMPTY && phase + CHANNELS >= straps.output_cycles;
  assign empty_ends = emits && slot + 1 == lanes;
  assign last_group = channel + lanes >= 32'(i.ofm_depth);
  assign last_column = column + side >= 32'(i.ofm_width);
  assign last_row = row + side >= 32'(i.ofm_height);
  assign done = empty_ends && last_group && last_column && last_row;
  always_comb begin
    out_channel = address_t'(channel + slot);
    for (int k = 0; k < PARAMETERS; k++) parameter_address[k] = parameter_place(i, 0, in_float32, out_channel, k);
    for (int p = 0; p < PIXELS; p++) begin
      automatic count_t out_row = row + p / SIDE;
      automatic count_t out_column = column + p % SIDE;
      for (int k = 0; k < 4; k++) begin
        write[p][k] = emits && exists && p / SIDE < side && p % SIDE < side && out_row < 32'(i.ofm_height) &&
            out_column < 32'(i.ofm_width) && k < 1 << wide;
      end
      write_address[p] = i.ofm + address_t'(out_row * 32'(i.ofm_row_stride)) +
          address_t'(out_column * 32'(i.ofm_pixel_stride)) + (out_channel << wide);
    end
  end
  for (genvar p = 0; p < PIXELS; p++) begin : g_lane
    requantise rescale (
        .in_float32,
        .single     (i.rounding),
        .int16      (1'b0),
        .accumulator(sums[p][slot < CHANNELS ? slot : 0]),
        .upper      (0),
        .parameters (parameter_data),
        .zero       (i.ofm_zero),
        .low        (i.low),
        .high       (i.high),
        .wide,
        .code       (write_data[p])
    );
  end

  always_ff @(posedge clk) begin
    if (reset) state <= IDLE;
    else if (start) begin
      state <= LOAD;
      row <= 0;
      column <= 0;
      channel <= 0;
      first_input <= 0;
      counted <= 0;
      pixel_row <= 0;
      pixel_column <= 0;
    end else
      case (state)
        LOAD: begin
          counted <= counted + 1;
          if (loading) begin
            pixel_column <= pixel_column + 1 == patch_width ? 0 : pixel_column + 1;
            if (pixel_column + 1 == patch_width) pixel_row <= pixel_row + 1;
            for (int k = 0; k < INPUTS; k++) begin
              buffer[pixel_row][pixel_column][k] <=
                  ifm_enable[k] ? operand_t'({i.signed_ && ifm_data[k][7], ifm_data[k]} - i.ifm_zero) : '0;
            end
          end
          if (load_ends) begin
            state <= MULTIPLY;
            slot  <= 0;
            place <= 0;
          end
        end
        MULTIPLY: begin
          if (exists) begin
            for (int p = 0; p < PIXELS; p++) begin
              sums[p][slot] <= (first_input == 0 && first_bits ? 0 : sums[p][slot]) + products[p];
            end
          end
          place <= last_bits ? 0 : place + bits_at_once;
          if (last_bits) slot <= slot + 1;
          if (last_bits && slot + 1 == taken) begin
            counted <= 0;
            pixel_row <= 0;
            pixel_column <= 0;
            slot <= 0;
            phase <= 0;
            if (by_channel || first_input + INPUTS >= 32'(i.ifm_depth)) state <= EMPTY;
            else begin
              state <= LOAD;
              first_input <= first_input + INPUTS;
            end
          end
        end
        EMPTY: begin
          phase <= emits ? phase + CHANNELS - straps.output_cycles : phase + CHANNELS;
          if (emits) slot <= slot + 1;
          if (empty_ends) begin
            state <= done ? IDLE : LOAD;
            first_input <= 0;
            channel <= last_group ? 0 : channel + lanes;
            if (last_group) column <= last_column ? 0 : column + side;
            if (last_group && last_column) row <= row + side;
          end
        end
        default: ;
      endcase
  end
endmodule
