// What passes the port of feature maps, byte by byte: for each plane of blocks the input blocks of its slices, once for
// each piece of the kernel, weights where there is more than one plane, and the outputs. Nothing waits for it but the
// end of the instruction.
`timescale 1ns / 1ps

module block_port
  import npu_types::*;
  import npu_blocks::*;
#(
    parameter int PORT = 16
) (
    input  logic          clk,
    input  logic          reset,
    input  logic          start,
    input  block_straps_t straps,
    input  block_plan_t   plan,
    input  count_t        weights,    // bytes of all
    output count_t        map_bytes,  // of input blocks, in this cycle
    output logic          complete    // with this cycle, or before
);
  typedef enum logic [1:0] {
    MAPS,
    WEIGHTS,
    OUTPUTS,
    OVER
  } kind_t;
  typedef struct packed {
    kind_t  kind;
    count_t row;           // of the plane
    count_t column;
    count_t channel;       // of the slice
    count_t piece_row;     // of the kernel
    count_t piece_column;
    count_t pixel;         // of the input block, or of the plane
    count_t byte_;         // of the pixel, or of all weights
  } state_t;

  logic several;
  assign several = straps.height < plan.rows || straps.width < plan.columns;

  function automatic state_t behind(state_t from);
    state_t to;
    to = from;
    to.byte_ = from.byte_ + 1;
    case (from.kind)
      MAPS: begin
        if (to.byte_ < passing(plan.by_channel ? plan.channels : plan.inputs, straps)) return to;
        to.byte_ = 0;
        to.pixel = from.pixel + 1;
        if (to.pixel < straps.input_height * straps.input_width) return to;
        to.pixel = 0;
        to.piece_column = from.piece_column + straps.kernel_side;
        if (to.piece_column < plan.kernel_width) return to;
        to.piece_column = 0;
        to.piece_row = from.piece_row + straps.kernel_side;
        if (to.piece_row < plan.kernel_height) return to;
        to.piece_row = 0;
        to.channel = from.channel + straps.depth;
        if (!plan.by_channel && to.channel < plan.channels) return to;
        to.channel = 0;
        to.kind = several ? WEIGHTS : OUTPUTS;
      end
      WEIGHTS: begin
        if (to.byte_ < weights) return to;
        to.byte_ = 0;
        to.kind  = OUTPUTS;
      end
      OUTPUTS: begin
        if (to.byte_ < passing(plan.channels, straps)) return to;
        to.byte_ = 0;
        to.pixel = from.pixel + 1;
        if (to.pixel < smaller(straps.height, plan.rows - from.row) * smaller(straps.width, plan.columns - from.column))
          return to;
        to.pixel  = 0;
        to.kind   = MAPS;
        to.column = from.column + straps.width;
        if (to.column < plan.columns) return to;
        to.column = 0;
        to.row = from.row + straps.height;
        if (to.row >= plan.rows) to.kind = OVER;
      end
      default: ;
    endcase
    return to;
  endfunction

  state_t state, ahead;
  assign complete = ahead.kind == OVER;
  always_comb begin
    ahead = state;
    map_bytes = 0;
    for (int k = 0; k < PORT; k++) begin
      if (count_t'(k) < straps.map_port && ahead.kind != OVER) begin
        if (ahead.kind == MAPS) map_bytes = map_bytes + 1;
        ahead = behind(ahead);
      end
    end
  end
  always_ff @(posedge clk) begin
    if (reset) state <= '{kind: OVER, default: '0};
    else if (start) state <= '0;
    else state <= ahead;
  end
endmodule
