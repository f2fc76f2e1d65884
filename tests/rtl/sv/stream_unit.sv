// The streaming engine: one instruction at a time from `start` to `done`. Kernels of some output channels stand still in
// the units while the feature map streams past them, one pass after the other:
//
//   for each set of `kernels` channels, piece of a window, group of input channels, pixel: a cycle for each kernel
//   for each `units` channels of a depthwise convolution, piece of a window, pixel: a cycle for each position that enters
//
// A position of the map enters once in a pass; line buffers hold those that later windows cover again. Partial sums of a
// pass wait for the next one. An element whose last products are there is rescaled and written in the same cycle.
`timescale 1ns / 1ps

module stream_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int UNITS = 2,
    parameter int MULTIPLIERS = 12,
    parameter int KERNELS = 4,
    parameter int LINES = 7,                          // rows and columns of a window at most
    parameter int COLUMNS = 36,                       // positions of a row at most
    parameter int PIXELS = 128,                       // of the output at most
    localparam int CHANNELS = UNITS * MULTIPLIERS,    // of a pass at most
    localparam int SUMS = KERNELS > UNITS ? KERNELS : UNITS
) (
    input  logic                                                          clk,
    input  logic                                                          reset,
    input  stream_straps_t                                                straps,
    input  logic                                                          start,
    input  logic           [    575:0]                                    word,
    output logic                                                          done,
    output logic                                                          array_active,
    // Scratchpad ports: data comes in the cycle of the address.
    output count_t                                                        entered,        // values of positions
    output logic           [LINES-1:0][  LINES-1:0][CHANNELS-1:0]         ifm_enable,
    output address_t       [LINES-1:0][  LINES-1:0][CHANNELS-1:0]         ifm_address,
    input  code_t          [LINES-1:0][  LINES-1:0][CHANNELS-1:0]         ifm_data,
    output logic           [UNITS-1:0][MULTIPLIERS-1:0]                   weight_enable,
    output address_t       [UNITS-1:0][MULTIPLIERS-1:0]                   weight_address,
    input  code_t          [UNITS-1:0][MULTIPLIERS-1:0]                   weight_data,
    output address_t       [UNITS-1:0][ PARAMETERS-1:0]                   parameter_address,
    input  parameters_t    [UNITS-1:0]                                    parameter_data,
    output logic           [UNITS-1:0][            3:0]                   write,
    output address_t       [UNITS-1:0]                                    write_address,  // of the low byte
    output code_t          [UNITS-1:0][            3:0]                   write_data
);
  // The instruction.
  logic [575:0] held;
  window_t i;
  logic by_channel, transposed, in_float32;
  logic [1:0] wide;
  count_t weight_stride, taps, extent_height, extent_width, whole;
  always_ff @(posedge clk) if (start) held <= word;
  always_comb begin
    i = window_t'(held[WINDOW_OFFSET+:$bits(window_t)]);
    by_channel = held[7:0] == DEPTHWISE_OPCODE;
    weight_stride = by_channel ? 0 : 32'(held[CONVOLVE_WEIGHT_STRIDE_OFFSET+:CONVOLVE_WEIGHT_STRIDE_BITS]);
    transposed = !by_channel && held[CONVOLVE_IFM_TRANSPOSED_OFFSET];
    wide = by_channel ? 0 : held[CONVOLVE_WIDE_OFFSET+:CONVOLVE_WIDE_BITS];
    in_float32 = by_channel ? held[DEPTHWISE_RESCALE_OFFSET] : held[CONVOLVE_RESCALE_OFFSET];
    taps = 32'(i.kernel_height) * 32'(i.kernel_width);
    extent_height = (32'(i.kernel_height) - 1) * 32'(i.dilation_height) + 1;
    extent_width = (32'(i.kernel_width) - 1) * 32'(i.dilation_width) + 1;
    whole = taps > straps.multipliers || by_channel ? 1 : straps.multipliers / taps;  // windows in a unit
  end

  // Where it is.
  logic busy;
  count_t channel, first_tap, first_input, row, column, slot;
  count_t enter_row, enter_column;  // of a depthwise convolution: the position that enters
  count_t there, group, lanes, pixel;
  assign lanes = by_channel ? straps.units : straps.kernels;
  assign there = 32'(i.ofm_depth) - channel < lanes ? 32'(i.ofm_depth) - channel : lanes;
  assign group = straps.units * whole;
  assign pixel = row * 32'(i.ofm_width) + column;
  assign array_active = busy;

  // Positions below a window that no earlier window covered.
  count_t new_row, new_column;
  logic fills, last_entry;
  always_comb begin
    new_row = row == 0 || extent_height < 32'(i.stride_height) ? 0 : extent_height - 32'(i.stride_height);
    new_column = column == 0 || extent_width < 32'(i.stride_width) ? 0 : extent_width - 32'(i.stride_width);
    fills = busy && (by_channel || slot == 0);
    last_entry = new_row + enter_row + 1 == extent_height && new_column + enter_column + 1 == extent_width;
  end
  logic [LINES-1:0][LINES-1:0] enters;
  logic [CHANNELS-1:0] counts;  // the channel is there
  count_t [CHANNELS-1:0] input_channel;
  always_comb begin
    entered = 0;
    for (int c = 0; c < CHANNELS; c++) begin
      input_channel[c] = by_channel ? (channel + c) * 32'(i.ifm_depth) / 32'(i.ofm_depth) : first_input + c;
      counts[c] = by_channel ? c < there : c < group && first_input + c < 32'(i.ifm_depth);
    end
    for (int r = 0; r < LINES; r++) begin
      for (int q = 0; q < LINES; q++) begin
        automatic coordinate_t map_row = row * 32'(i.stride_height) + r - 32'(i.pad_top);
        automatic coordinate_t map_column = column * 32'(i.stride_width) + q - 32'(i.pad_left);
        automatic logic covered = map_row >= 0 && map_row < 32'(i.ifm_height) && map_column >= 0 &&
            map_column < 32'(i.ifm_width);
        enters[r][q] = fills && (by_channel ? r == new_row + enter_row && q == new_column + enter_column
            : r >= new_row && r < extent_height && q >= new_column && q < extent_width);
        if (enters[r][q]) entered = entered + $countones(counts);
        for (int c = 0; c < CHANNELS; c++) begin
          ifm_enable[r][q][c] = enters[r][q] && covered && counts[c];
          ifm_address[r][q][c] = i.ifm + address_t'(map_row * 32'(i.ifm_row_stride)) +
              address_t'(map_column * (transposed ? 0 : 32'(i.ifm_pixel_stride))) +
              address_t'(input_channel[c] * (transposed ? 32'(i.ifm_pixel_stride) : 1));
        end
      end
    end
  end

  // Line buffers, and what has just entered.
  operand_t [CHANNELS-1:0][LINES-1:0][COLUMNS-1:0] lines;
  operand_t [LINES-1:0][LINES-1:0][CHANNELS-1:0] entering;
  always_comb begin
    for (int r = 0; r < LINES; r++) begin
      for (int q = 0; q < LINES; q++) begin
        for (int c = 0; c < CHANNELS; c++) begin
          entering[r][q][c] = ifm_enable[r][q][c] ? operand_t'({i.signed_ && ifm_data[r][q][c][7], ifm_data[r][q][c]} -
              i.ifm_zero) : '0;
        end
      end
    end
  end

  // Products: multiplier m of a unit has one tap of one of its windows.
  operand_t [UNITS-1:0][MULTIPLIERS-1:0] weights[SUMS];  // kernels that stand still
  operand_t [UNITS-1:0][MULTIPLIERS-1:0] kernel;         // that multiplies
  logic [UNITS-1:0][MULTIPLIERS-1:0] used;
  count_t [UNITS-1:0][MULTIPLIERS-1:0] tap, input_of;    // of the kernel; of the pass
  sum_t [UNITS-1:0] products;
  logic multiplies, fresh_kernels;
  assign multiplies = busy && (!by_channel || last_entry);
  assign fresh_kernels = multiplies && row == 0 && column == 0;
  always_comb begin
    for (int u = 0; u < UNITS; u++) begin
      for (int m = 0; m < MULTIPLIERS; m++) begin
        automatic logic in_pieces = taps > straps.multipliers || by_channel;
        automatic count_t window = in_pieces ? 0 : m / taps;
        automatic count_t out = by_channel ? channel + u : channel + slot;
        automatic count_t inner;
        tap[u][m] = in_pieces ? first_tap + m : m % taps;
        input_of[u][m] = u * whole + window;
        inner = tap[u][m] * 32'(i.ifm_depth) + first_input + input_of[u][m];
        used[u][m] = multiplies && u < straps.units && m < straps.multipliers && window < whole && tap[u][m] < taps &&
            (by_channel ? u < there : first_input + input_of[u][m] < 32'(i.ifm_depth));
        weight_enable[u][m] = used[u][m] && fresh_kernels;
        weight_address[u][m] = i.weights + address_t'(by_channel ? tap[u][m] * 32'(i.ofm_depth) + out
            : weight_stride != 0 ? inner * weight_stride + out : out * taps * 32'(i.ifm_depth) + inner);
      end
    end
  end
  always_comb begin
    for (int u = 0; u < UNITS; u++) begin
      products[u] = 0;
      for (int m = 0; m < MULTIPLIERS; m++) begin
        automatic count_t under = tap[u][m] / 32'(i.kernel_width) * 32'(i.dilation_height);
        automatic count_t beside = tap[u][m] % 32'(i.kernel_width) * 32'(i.dilation_width);
        automatic count_t line = (row * 32'(i.stride_height) + under) % LINES;
        automatic count_t place = column * 32'(i.stride_width) + beside;
        automatic operand_t value = '0;
        kernel[u][m] = fresh_kernels ?
            operand_t'({i.weights_signed && weight_data[u][m][7], weight_data[u][m]} - i.weight_zero) : weights[slot][u][m];
        if (used[u][m]) begin
          value = enters[under][beside] ? entering[under][beside][input_of[u][m]] : lines[input_of[u][m]][line][place];
          products[u] = products[u] + 32'(value) * 32'(kernel[u][m]);
        end
      end
    end
  end

  // Sums: those of a convolution run through all units, a depthwise one has one for each.
  sum_t [SUMS-1:0] sums[PIXELS];
  sum_t [SUMS-1:0] next_sums;
  sum_t [UNITS-1:0] updated;
  logic first_pass, last_pass;
  assign first_pass = first_tap == 0 && (by_channel || first_input == 0);
  assign last_pass = first_tap + straps.multipliers >= taps && (by_channel || first_input + group >= 32'(i.ifm_depth));
  always_comb begin
    automatic sum_t chained = 0;
    for (int u = 0; u < UNITS; u++) chained = chained + products[u];
    for (int u = 0; u < UNITS; u++) begin
      updated[u] = (first_pass ? 0 : sums[pixel][by_channel ? u : slot]) + (by_channel ? products[u] : chained);
    end
    next_sums = sums[pixel];
    for (int u = 0; u < UNITS; u++) if (by_channel || u == 0) next_sums[by_channel ? u : slot] = updated[u];
  end

  // Output elements.
  address_t [UNITS-1:0] out_channel;
  always_comb begin
    for (int u = 0; u < UNITS; u++) begin
      out_channel[u] = address_t'(channel + (by_channel ? u : slot));
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_address[u][k] = parameter_place(i, 0, in_float32, out_channel[u], k);
      end
      for (int k = 0; k < 4; k++) begin
        write[u][k] = multiplies && last_pass && (by_channel ? u < there : u == 0) && k < 1 << wide;
      end
      write_address[u] = i.ofm + address_t'(row * 32'(i.ofm_row_stride)) +
          address_t'(column * 32'(i.ofm_pixel_stride)) + (out_channel[u] << wide);
    end
  end
  for (genvar u = 0; u < UNITS; u++) begin : g_lane
    requantise rescale (
        .in_float32,
        .single     (i.rounding),
        .int16      (1'b0),
        .accumulator(updated[u]),
        .upper      (0),
        .parameters (parameter_data[u]),
        .zero       (i.ofm_zero),
        .low        (i.low),
        .high       (i.high),
        .wide,
        .code       (write_data[u])
    );
  end

  // What comes next.
  logic last_slot, last_column, last_row, last_group, last_piece, last_set, ends_pixel, ends_plane;
  assign last_slot = by_channel || slot + 1 == there;
  assign last_column = column + 1 == 32'(i.ofm_width);
  assign last_row = row + 1 == 32'(i.ofm_height);
  assign last_group = by_channel || first_input + group >= 32'(i.ifm_depth);
  assign last_piece = first_tap + straps.multipliers >= taps;
  assign last_set = channel + lanes >= 32'(i.ofm_depth);
  assign ends_pixel = multiplies && last_slot;
  assign ends_plane = ends_pixel && last_column && last_row;
  assign done = ends_plane && last_group && last_piece && last_set;

  always_ff @(posedge clk) begin
    if (reset) busy <= 0;
    else if (start) begin
      busy <= 1;
      channel <= 0;
      first_tap <= 0;
      first_input <= 0;
      row <= 0;
      column <= 0;
      slot <= 0;
      enter_row <= 0;
      enter_column <= 0;
    end else if (busy) begin
      for (int r = 0; r < LINES; r++) begin
        for (int q = 0; q < LINES; q++) begin
          for (int c = 0; c < CHANNELS; c++) begin
            if (enters[r][q] && counts[c]) begin
              lines[c][(row * 32'(i.stride_height) + r) % LINES][column * 32'(i.stride_width) + q] <= entering[r][q][c];
            end
          end
        end
      end
      if (fresh_kernels) weights[slot] <= kernel;
      if (multiplies) sums[pixel] <= next_sums;
      if (by_channel && !last_entry) begin
        enter_column <= new_column + enter_column + 1 == extent_width ? 0 : enter_column + 1;
        if (new_column + enter_column + 1 == extent_width) enter_row <= enter_row + 1;
      end
      if (multiplies) slot <= last_slot ? 0 : slot + 1;
      if (ends_pixel) begin
        enter_row <= 0;
        enter_column <= 0;
        column <= last_column ? 0 : column + 1;
        if (last_column) row <= last_row ? 0 : row + 1;
      end
      if (ends_plane) begin
        first_input <= last_group ? 0 : first_input + group;
        if (last_group) first_tap <= last_piece ? 0 : first_tap + straps.multipliers;
        if (last_group && last_piece) channel <= channel + lanes;
      end
      if (done) busy <= 0;
    end
  end
endmodule
