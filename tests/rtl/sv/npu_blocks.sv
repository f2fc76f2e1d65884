// The order in which the block engine goes through a problem, step by step; and what a step needs to know.
`timescale 1ns / 1ps

package npu_blocks;
  import npu_types::*;
  import isa_words::*;

  // Pins: the block that the instruction is computed in, and the engine.
  typedef struct packed {
    count_t height;             // of an output block
    count_t width;
    count_t depth;
    count_t input_height;       // of the input block below it
    count_t input_width;
    count_t input_depth;
    count_t part_kernel;        // kernel elements first, then input channels
    count_t lone_step_cycles;
    count_t output_numerator;   // cycles of the output stage per element, as a fraction
    count_t output_denominator;
    count_t access_cycles;
    count_t command_share;
    count_t map_port;           // bytes per cycle
    count_t weight_port;
    count_t kernel_side;        // of a piece of the kernel at most
    count_t brick_channels;     // that pass the port of feature maps together
    count_t few_channels_factor;
    count_t fill_height;        // elements of a kernel that is filled up with zeros, for each of its own
    count_t fill_width;
    count_t turns_rows;         // of a single row the pixels of a micro-block lie side by side
  } block_straps_t;
  localparam int BLOCK_STRAPS = 20;

  // Sizes of the engine and of the instruction.
  typedef struct packed {
    count_t micro_height;
    count_t micro_width;
    count_t micro_channels;
    count_t step_cycles;
    count_t products;      // of each output in a step
    logic   by_channel;    // depthwise, of more than one input channel
    count_t rows;          // of the output
    count_t columns;
    count_t channels;
    count_t inputs;        // channels of the feature map
    count_t seen;          // of an input block
    count_t group;         // of them, in a step
    count_t elements;      // of the kernel, in a step
    count_t kernel_height;
    count_t kernel_width;
  } block_plan_t;

  // A step: of which block, input block, group of its channels, piece of the kernel, layer of micro-blocks, elements.
  typedef struct packed {
    count_t row;
    count_t column;
    count_t channel;
    count_t input_first;
    count_t group_first;   // in the input block
    count_t piece_row;
    count_t piece_column;
    count_t layer;         // first channel in the block
    count_t element;       // first one in the piece
  } block_step_t;

  typedef struct packed {
    block_step_t next;
    logic        leaves_layer;  // other accumulators follow
    logic        leaves_block;
    logic        leaves_all;
  } block_move_t;

  // A value of the dot product.
  typedef struct packed {
    logic   valid;
    logic   zero;      // the kernel is filled up with it
    count_t row;       // of the filled kernel
    count_t column;
    count_t channel;   // of the feature map; none of a depthwise convolution
  } block_tap_t;

  function automatic count_t smaller(count_t a, count_t b);
    return a < b ? a : b;
  endfunction

  function automatic count_t height_of(block_step_t at, block_plan_t plan, block_straps_t straps);
    return smaller(straps.height, plan.rows - at.row);
  endfunction

  function automatic count_t width_of(block_step_t at, block_plan_t plan, block_straps_t straps);
    return smaller(straps.width, plan.columns - at.column);
  endfunction

  function automatic count_t depth_of(block_step_t at, block_plan_t plan, block_straps_t straps);
    return smaller(straps.depth, plan.channels - at.channel);
  endfunction

  // Micro-blocks in the plane of the block.
  function automatic count_t plane_of(block_step_t at, block_plan_t plan, block_straps_t straps);
    return (height_of(at, plan, straps) + plan.micro_height - 1) / plan.micro_height *
        ((width_of(at, plan, straps) + plan.micro_width - 1) / plan.micro_width);
  endfunction

  function automatic count_t piece_width(block_step_t at, block_plan_t plan, block_straps_t straps);
    return smaller(straps.kernel_side, plan.kernel_width - at.piece_column);
  endfunction

  function automatic count_t piece_elements(block_step_t at, block_plan_t plan, block_straps_t straps);
    return smaller(straps.kernel_side, plan.kernel_height - at.piece_row) * piece_width(at, plan, straps);
  endfunction

  function automatic block_move_t move(block_step_t at, block_plan_t plan, block_straps_t straps);
    block_move_t result;
    result = '{next: at, leaves_layer: 0, leaves_block: 0, leaves_all: 0};
    result.next.element = at.element + plan.elements;
    if (result.next.element < piece_elements(at, plan, straps)) return result;
    result.next.element = 0;
    result.leaves_layer = plan.micro_channels < depth_of(at, plan, straps);
    result.next.layer = at.layer + plan.micro_channels;
    if (result.next.layer < depth_of(at, plan, straps)) return result;
    result.next.layer = 0;
    result.next.piece_column = at.piece_column + straps.kernel_side;
    if (result.next.piece_column < plan.kernel_width) return result;
    result.next.piece_column = 0;
    result.next.piece_row = at.piece_row + straps.kernel_side;
    if (result.next.piece_row < plan.kernel_height) return result;
    result.next.piece_row = 0;
    result.next.group_first = at.group_first + plan.group;
    if (result.next.group_first < plan.seen) return result;
    result.next.group_first = 0;
    result.next.input_first = at.input_first + plan.seen;
    if (!plan.by_channel && result.next.input_first < plan.inputs) return result;
    result.next.input_first = 0;
    result.leaves_block = 1;
    result.next.channel = at.channel + straps.depth;
    if (result.next.channel < plan.channels) return result;
    result.next.channel = 0;
    result.next.column = at.column + straps.width;
    if (result.next.column < plan.columns) return result;
    result.next.column = 0;
    result.next.row = at.row + straps.height;
    result.leaves_all = result.next.row >= plan.rows;
    return result;
  endfunction

  // Whether the step behind this one, or the output stage, waits for accumulators that this one has just written.
  function automatic logic waits_behind(block_step_t at, block_plan_t plan, block_straps_t straps);
    block_move_t moved;
    moved = move(at, plan, straps);
    return plane_of(at, plan, straps) == 1 && !moved.leaves_layer;
  endfunction

  // Product k of each output in a step.
  function automatic block_tap_t tap_of(block_step_t at, block_plan_t plan, block_straps_t straps, count_t k);
    count_t element, offset, row, column;
    element = at.element + (plan.by_channel ? k : k / plan.group);
    offset = plan.by_channel ? 0 : at.group_first + k % plan.group;
    row = at.piece_row + element / piece_width(at, plan, straps);
    column = at.piece_column + element % piece_width(at, plan, straps);
    return '{
        valid: k < plan.elements * plan.group && element < piece_elements(at, plan, straps) && offset < plan.seen &&
            at.input_first + offset < plan.inputs,
        zero: row % straps.fill_height != 0 || column % straps.fill_width != 0,
        row: row,
        column: column,
        channel: at.input_first + offset
    };
  endfunction

  // Bytes that pass the port of feature maps for a pixel.
  function automatic count_t passing(count_t channels, block_straps_t straps);
    return smaller((channels + straps.brick_channels - 1) / straps.brick_channels * straps.brick_channels,
                   straps.few_channels_factor * channels);
  endfunction

  // Bytes of the input block below an output block of so many channels.
  function automatic count_t input_bytes(block_plan_t plan, block_straps_t straps, count_t depth);
    return straps.input_height * straps.input_width * (plan.by_channel ? depth : plan.seen);
  endfunction

  // After `cycles` of a transfer all bytes are there.
  function automatic logic transferred(block_straps_t straps, count_t cycles, count_t bytes);
    return cycles > straps.access_cycles && (cycles - straps.access_cycles) * straps.map_port >= bytes;
  endfunction
endpackage
