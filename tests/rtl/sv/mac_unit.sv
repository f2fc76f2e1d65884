// The MAC unit: one instruction at a time from `start` to `done`. Cycle 0 is the cycle behind the edge that takes
// `start`; `done` is high in the cycle whose closing edge writes the last output byte.
//
// Control is a handful of handshakes. A fold starts when its weights rest in the (shadow) registers, the feeder
// is free and, if the fold opens a group, the half that it will write is or will just be empty.
//
// An instruction on int16 values goes through twice: first with their upper bytes, whose sums the output stage keeps, then
// with the lower ones.
`timescale 1ns / 1ps

module mac_unit
  import npu_types::*;
  import isa_words::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4,
    parameter int DEPTH = 64,       // accumulators per column and half
    parameter int IFM_PORT = 4,
    parameter int WEIGHT_PORT = 4,
    parameter int LANES = 4
) (
    input  logic                             clk,
    input  logic                             reset,
    input  straps_t                          straps,
    input  logic                             start,
    input  logic     [        575:0]         word,
    output logic                             done,
    output logic                             array_active,       // the array works or waits for itself
    // Scratchpad ports: data comes in the cycle of the address.
    output logic     [   IFM_PORT-1:0]       ifm_enable,
    output address_t [   IFM_PORT-1:0]       ifm_address,
    input  code_t    [   IFM_PORT-1:0]       ifm_data,
    output logic     [WEIGHT_PORT-1:0]       weight_enable,
    output address_t [WEIGHT_PORT-1:0]       weight_address,
    input  code_t    [WEIGHT_PORT-1:0]       weight_data,
    output address_t [      LANES-1:0][PARAMETERS-1:0] parameter_address,
    input  parameters_t [   LANES-1:0]       parameter_data,
    output logic     [      LANES-1:0][3:0]  write,              // bytes of a result, the lowest first
    output address_t [      LANES-1:0]       write_address,      // of the low byte
    output code_t    [      LANES-1:0][3:0]  write_data
);
  // The instruction that runs, and the one that starts in the next cycle: its first fold is needed one cycle early.
  // Both opcodes have the window fields in the same place.
  logic [575:0] held;
  window_t i, incoming;
  logic depthwise, output_stationary, incoming_depthwise, next_output_stationary;
  count_t all_inner, incoming_inner, weight_stride;
  logic transposed, in_float32, int16;
  logic upper, through, go;  // the upper bytes pass; the last output of the pass leaves; a pass starts
  logic [1:0] wide;
  corner_t corner, incoming_corner;
  // Where the corner of an instruction stands depends on its opcode.
  function automatic corner_t corner_of(logic [575:0] from);
    logic [HALVINGS_BITS-1:0] rows, columns, half_accumulators;
    logic by_channel;
    by_channel = from[7:0] == DEPTHWISE_OPCODE;
    rows = by_channel ? from[DEPTHWISE_ROW_HALVINGS_OFFSET+:HALVINGS_BITS]
                      : from[CONVOLVE_ROW_HALVINGS_OFFSET+:HALVINGS_BITS];
    columns = by_channel ? from[DEPTHWISE_COLUMN_HALVINGS_OFFSET+:HALVINGS_BITS]
                         : from[CONVOLVE_COLUMN_HALVINGS_OFFSET+:HALVINGS_BITS];
    half_accumulators = by_channel ? from[DEPTHWISE_ACCUMULATOR_HALVINGS_OFFSET+:HALVINGS_BITS]
                                   : from[CONVOLVE_ACCUMULATOR_HALVINGS_OFFSET+:HALVINGS_BITS];
    return '{
        rows: count_t'(ROWS) >> rows,
        columns: count_t'(COLUMNS) >> columns,
        half_accumulators: straps.half_accumulators >> half_accumulators
    };
  endfunction
  always_ff @(posedge clk) begin
    if (start) held <= word;
    if (go) upper <= start;
  end
  assign int16 = held[7:0] == DEPTHWISE_OPCODE ? held[DEPTHWISE_INT16_OFFSET] : held[CONVOLVE_INT16_OFFSET];
  assign go = start || (through && int16 && upper);
  assign done = through && !(int16 && upper);
  function automatic count_t inner_values(window_t w, logic by_channel);
    return 32'(w.kernel_height) * 32'(w.kernel_width) * (by_channel ? 1 : 32'(w.ifm_depth));
  endfunction
  always_comb begin
    i = window_t'(held[WINDOW_OFFSET+:$bits(window_t)]);
    depthwise = held[7:0] == DEPTHWISE_OPCODE;
    output_stationary = !depthwise && held[CONVOLVE_OUTPUT_STATIONARY_OFFSET];
    all_inner = inner_values(i, depthwise);
    weight_stride = depthwise ? 0 : 32'(held[CONVOLVE_WEIGHT_STRIDE_OFFSET+:CONVOLVE_WEIGHT_STRIDE_BITS]);
    transposed = !depthwise && held[CONVOLVE_IFM_TRANSPOSED_OFFSET];
    wide = depthwise ? 0 : held[CONVOLVE_WIDE_OFFSET+:CONVOLVE_WIDE_BITS];
    in_float32 = depthwise ? held[DEPTHWISE_RESCALE_OFFSET] : held[CONVOLVE_RESCALE_OFFSET];
    corner = corner_of(held);
    incoming_corner = start ? corner_of(word) : corner;
    incoming = start ? window_t'(word[WINDOW_OFFSET+:$bits(window_t)]) : i;
    incoming_depthwise = start ? word[7:0] == DEPTHWISE_OPCODE : depthwise;
    next_output_stationary = start ? !incoming_depthwise && word[CONVOLVE_OUTPUT_STATIONARY_OFFSET]
                                   : output_stationary;
    incoming_inner = inner_values(incoming, incoming_depthwise);
  end

  // Control.
  logic busy, loaded, draining, fill_half, group_half, waits_for_half;
  logic present, pending, load_start, load_active, load_complete, load_finishing;
  logic feed_active, feed_opening, feed_complete, feed_first, feed_last, feed_finishing;
  logic fold_start, vector_taken, row_taken, last_allowed, half_empty, weights_ready, feeder_ready;
  logic fold_left, group_left, all_left, output_working, output_finishing, output_half, push;
  logic [1:0][1:0] owners;
  count_t cycles_left, bus_busy;
  fold_t next_fold, fold;
  place_t block_start;
  group_t pushed;

  // Promised `ahead` cycles before the output stage reads the half's last accumulators.
  function automatic logic empties_within(logic which, count_t ahead);
    return owners[which] == 0 ||
        (owners[which] == 1 && output_working && output_half == which && cycles_left <= ahead);
  endfunction

  // The fold starts in the next cycle, its first sum arrives R - 1 cycles after its first vector.
  assign half_empty = next_output_stationary || !next_fold.opens_group ||
      empties_within(fill_half, incoming_corner.rows + 1);
  assign weights_ready = next_output_stationary || loaded || load_finishing;
  assign feeder_ready = straps.shadow ? !feed_active || feed_finishing : fold_left || (!feed_active && !draining);
  assign fold_start = present && weights_ready && feeder_ready && half_empty;
  // The weights of the next fold come as soon as this one takes its own over; without shadow registers, when the
  // array is empty.
  assign load_start = next_output_stationary ? fold_start
      : go || (straps.shadow ? fold_start && !next_fold.closes_all : fold_left && present);
  assign waits_for_half = (present && weights_ready && feeder_ready && !half_empty) ||
      (output_stationary && feed_complete && load_complete && feed_last && bus_busy == 0 && !vector_taken);

  // Output stationary: operands and weights enter together. Sums leave with the last vector: the bus of a column
  // must be free, and the half empty when the first of them arrives, at the end of this cycle.
  assign last_allowed = bus_busy == 0 && empties_within(fill_half, 1);
  assign vector_taken = feed_complete &&
      (!output_stationary || (load_complete && (!feed_last || last_allowed)));
  assign row_taken = !output_stationary || vector_taken;

  always_ff @(posedge clk) begin
    if (reset) begin
      busy <= 0;
      loaded <= 0;
      draining <= 0;
      fill_half <= 0;
      group_half <= 0;
      bus_busy <= 0;
    end else begin
      if (go) busy <= 1;
      else if (done) busy <= 0;
      if (fold_start) loaded <= 0;
      else if (load_finishing && !output_stationary) loaded <= 1;
      draining <= (draining || feed_finishing) && !fold_left;
      if ((output_stationary && push) || (fold_start && !next_output_stationary && next_fold.opens_group)) begin
        fill_half  <= !fill_half;
        group_half <= fill_half;
      end
      if (output_stationary && feed_finishing) bus_busy <= corner.rows - 1;
      else if (bus_busy != 0) bus_busy <= bus_busy - 1;
    end
  end

  assign through = busy && output_finishing && !pending && !feed_active && 3'(owners[0]) + 3'(owners[1]) == 1;

  // The array is done when the last group has left it.
  logic array_done;
  always_ff @(posedge clk) begin
    if (go) array_done <= 0;
    else if (all_left) array_done <= 1;
  end
  assign array_active = busy && !array_done && !waits_for_half;

  fold_sequencer sequencer (
      .clk,
      .reset,
      .start            (go),
      .advance          (fold_start),
      .output_stationary(next_output_stationary),
      .corner           (incoming_corner),
      .all_pixels       (32'(incoming.ofm_height) * 32'(incoming.ofm_width)),
      .all_channels     (32'(incoming.ofm_depth)),
      .all_inner        (incoming_inner),
      .present,
      .pending,
      .fold             (next_fold)
  );

  logic [15:0] weight_row;
  operand_t [COLUMNS-1:0] weights;
  weight_loader #(
      .COLUMNS(COLUMNS),
      .PORT(WEIGHT_PORT)
  ) loader (
      .clk,
      .reset,
      .start      (load_start),
      .output_stationary,
      .depthwise,
      .fold       (output_stationary ? fold : next_fold),
      .rows       (corner.rows),
      .all_channels(32'(i.ofm_depth)),
      .all_inner,
      .port       (straps.weight_port),
      .base       (i.weights),
      .stride     (weight_stride),
      .code_signed(i.weights_signed),
      .zero       (i.weight_zero),
      .take       (row_taken),
      .active     (load_active),
      .complete   (load_complete),
      .row        (weight_row),
      .weights,
      .finishing  (load_finishing),
      .address    (weight_address),
      .enable     (weight_enable),
      .data       (weight_data)
  );
  operand_t [ROWS-1:0][COLUMNS-1:0] operands;
  logic [15:0] pixel;
  operand_feeder #(
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .PORT(IFM_PORT)
  ) feeder (
      .clk,
      .reset,
      .start    (fold_start),
      .restart  (go),
      .output_stationary,
      .depthwise,
      .transposed,
      .int16,
      .upper,
      .i,
      .next_fold,
      .corner,
      .all_inner,
      .port     (straps.ifm_port),
      .take     (vector_taken),
      .active   (feed_active),
      .fold,
      .opening  (feed_opening),
      .complete (feed_complete),
      .operands,
      .first    (feed_first),
      .last     (feed_last),
      .pixel,
      .block_start,
      .finishing(feed_finishing),
      .address  (ifm_address),
      .enable   (ifm_enable),
      .data     (ifm_data)
  );

  wave_t wave;
  store_t store;
  always_comb begin
    wave = '0;
    wave.swap = feed_active && feed_opening;
    wave.valid = vector_taken;
    wave.first = feed_first;
    wave.last = output_stationary && feed_last;
    wave.half = output_stationary ? fill_half : group_half;
    wave.closes_fold = feed_finishing;
    wave.closes_group = feed_finishing && fold.closes_group;
    wave.closes_all = feed_finishing && fold.closes_all;
    store.valid = vector_taken && !output_stationary;
    store.overwrite = fold.opens_group;
    store.half = group_half;
    store.pixel = pixel;
  end

  sum_t [COLUMNS-1:0] sums, result;
  logic [COLUMNS-1:0] result_valid, result_half;
  logic [COLUMNS-1:0][15:0] result_row;
  systolic_array #(
      .ROWS(ROWS),
      .COLUMNS(COLUMNS)
  ) grid (
      .clk,
      .reset,
      .shadow(straps.shadow),
      .output_stationary,
      .depthwise,
      .corner,
      .wave,
      .operands,
      .weight_valid(load_complete && row_taken),
      .weight_row,
      .weights,
      .sums,
      .result_valid,
      .result_half,
      .result_row,
      .result,
      .fold_left,
      .group_left,
      .all_left
  );

  count_t read_pixel, read_column;
  sum_t [LANES-1:0] read;
  accumulators #(
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .DEPTH(DEPTH),
      .LANES(LANES)
  ) halves (
      .clk,
      .reset,
      .output_stationary,
      .corner,
      .store,
      .sums,
      .result_valid,
      .result_half,
      .result_row,
      .result,
      .read_half(output_half),
      .read_pixel,
      .read_column,
      .read
  );

  // The output stage learns of a group when the array begins to write it.
  assign push = output_stationary ? feed_finishing : feed_active && feed_opening && fold.opens_group;
  assign pushed = '{
          pixels: fold.pixels,
          columns: fold.columns,
          channel: fold.channel,
          row: block_start.row,
          column: block_start.column
      };
  output_stage #(
      .COLUMNS(COLUMNS),
      .LANES(LANES)
  ) drain (
      .clk,
      .reset,
      .i,
      .wide,
      .in_float32,
      .int16,
      .keeps      (int16 && upper),
      .lanes      (straps.lanes),
      .push,
      .pushed,
      .pushed_half(output_stationary ? fill_half : group_half),
      .group_left,
      .half       (output_half),
      .pixel      (read_pixel),
      .column     (read_column),
      .read,
      .owners,
      .cycles_left,
      .working    (output_working),
      .finishing  (output_finishing),
      .parameter_address,
      .parameter_data,
      .write,
      .write_address,
      .write_data
  );
endmodule
