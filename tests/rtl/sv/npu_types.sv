// Types that the units share. Widths follow isa/instructions/mac.py: operands are codes less their zero point.
`timescale 1ns / 1ps

package npu_types;
  localparam int ADDRESS_BITS = 28;

  typedef logic [ADDRESS_BITS-1:0] address_t;
  typedef logic [7:0] code_t;
  typedef logic [15:0] element_t;  // of the vector unit: a code, or int16
  typedef logic signed [8:0] operand_t;
  typedef logic signed [31:0] sum_t;
  typedef logic signed [47:0] wide_sum_t;  // of int16 values
  typedef logic [31:0] count_t;
  typedef logic signed [31:0] coordinate_t;

  // Pins that make one array behave as a smaller configuration of itself.
  typedef struct packed {
    logic   shadow;             // second weight register per multiplier
    count_t half_accumulators;  // accumulators per column and half
    count_t ifm_port;           // bytes per cycle
    count_t weight_port;        // bytes per cycle
    count_t lanes;              // outputs per cycle
  } straps_t;

  // The corner of the array that an instruction uses.
  typedef struct packed {
    count_t rows;
    count_t columns;
    count_t half_accumulators;
  } corner_t;

  // Of the vector unit; `_cycles` is how long a lane holds the operands of one step of a function.
  typedef struct packed {
    count_t lanes;
    count_t startup_cycles;  // registers between scratchpad and lanes
    count_t add_cycles;
    count_t mul_cycles;
    count_t max_cycles;
    count_t requantise_cycles;
    count_t pool_cycles;
    count_t reduce_cycles;
    count_t divide_cycles;
    count_t lut_cycles;
    count_t literal_cycles;
    count_t literal_divide_cycles;
    count_t fused_cycles;
    count_t dequantise_cycles;
    count_t quantise_cycles;
    count_t int16_passes;    // of a lane over an int16 value
  } vector_straps_t;
  localparam int VECTOR_STRAPS = 16;

  // Of the real lanes.
  typedef struct packed {
    count_t float16_lanes;
    count_t float32_lanes;
    count_t startup_cycles;  // registers between scratchpad and lanes
    count_t float_cycles;
    count_t float_divide_cycles;
    count_t float_function_cycles;
  } real_straps_t;

  // Of the bit-serial engine.
  typedef struct packed {
    count_t strided_side;        // rows and columns of a block of a kernel with a stride
    count_t depthwise_channels;  // of a step of a depthwise convolution
    count_t start_cycles;        // before the first pixel of a step
    count_t point_start_cycles;  // the same of a kernel of one tap
    count_t step_cycles;         // beside its pixels and products
    count_t output_cycles;       // for a block with all channels
    count_t weight_bits;
  } serial_straps_t;

  // Of the streaming engine.
  typedef struct packed {
    count_t units;        // that work for a layer
    count_t multipliers;  // of a unit
    count_t kernels;      // output channels of a set
  } stream_straps_t;

  // What goes with the operands of the lanes: where they are in the instruction, and where the results go.
  typedef struct packed {
    logic     valid;
    logic     table_entries;  // not operands, but entries of the look-up table
    logic     first;          // of the elements that a result is made of
    logic     last;
    logic     final_step;     // of the instruction
    logic     covered;        // by the feature map: not in the padding of a pool
    logic     opens;          // a column, of a pool that adds columns up
    address_t target;         // of lane 0; of table entries the index
    count_t   used;           // lanes
  } step_t;

  // A fold: the operands of `rows` values of the dot product (or, output stationary, `rows` pixels) by `columns`
  // channels. A group is the run of folds that ends with finished accumulators in one half.
  typedef struct packed {
    logic   opens_block;  // first fold of a block of pixels
    logic   opens_group;
    logic   closes_group;
    logic   closes_all;   // last fold of the instruction
    count_t rows;
    count_t columns;
    count_t pixels;
    count_t channel;      // of the first column
    count_t inner;        // index in the dot product of the first row
  } fold_t;

  // What travels through the array with an operand: to the right, one element per cycle.
  typedef struct packed {
    logic     valid;
    logic     swap;         // take over the weights of the shadow register
    logic     first;        // output stationary: start a sum
    logic     last;         // output stationary: the sum is complete
    logic     half;         // half of the accumulators that results go to
    logic     closes_fold;
    logic     closes_group;
    logic     closes_all;
    operand_t operand;
  } wave_t;

  // What travels down a column: a weight, and the row that keeps it.
  typedef struct packed {
    logic        valid;
    logic [15:0] row;
    operand_t    value;
  } weight_t;

  // Weight stationary: where a column puts the sum that leaves its last row.
  typedef struct packed {
    logic        valid;
    logic        overwrite;
    logic        half;
    logic [15:0] pixel;
  } store_t;

  // Addresses of either memory.
  typedef logic [35:0] wide_address_t;

  // One requester's next burst.
  typedef struct packed {
    logic   valid;
    count_t ready;          // bursts that can be transferred without a pause: 0, 1, more
    count_t row;
    logic   goes_on;        // into another row, sooner or later: into `row_behind`
    count_t row_behind;
    logic   last_of_grant;
    logic   last;
  } request_t;

  typedef struct packed {
    count_t miss_cycles;
    count_t bank_shift;   // log2 of the banks
    count_t numerator;    // cycles of a burst, as a fraction
    count_t denominator;
    count_t reorder;      // grants that may pass the first in line
  } dram_straps_t;

  typedef struct packed {
    count_t setup_cycles;
    count_t latency_cycles;
    count_t port;
    count_t slack;          // cycles that a burst may take through the scratchpad port
    count_t burst_shift;    // log2 of the bytes of a burst
    count_t row_shift;      // log2 of the bursts of a row, of a grant
    count_t grant_shift;
    count_t bank_shift;     // log2 of the DRAM's banks
  } dma_straps_t;

  // The loops of one side of a copy, in its order, around `size` contiguous bytes; loop 0 is the outermost.
  typedef struct packed {
    logic [2:0][31:0] count;
    logic [2:0][35:0] stride;  // backwards: negative
    logic [2:0][31:0] place;   // strides in the burst buffer
    count_t           size;
    count_t           block;   // inner loops that make a block
  } nest_t;

  typedef struct packed {
    count_t queue_depth;
    count_t fetch_instructions;
    count_t decode_cycles;
  } front_end_straps_t;

  // Sets of scratchpad banks.
  localparam int BANKS = 64;
  typedef logic [BANKS-1:0] banks_t;

  localparam int PRODUCERS = 7;
  typedef logic [PRODUCERS-1:0][23:0] counts_t;

  // The parameters of a lane of the output stage, the lowest byte first: a bias of 4 or 8 bytes, 4 of a multiplier or a
  // float32 scale, a shift, and the bounds of int16 results.
  localparam int PARAMETERS = 17;
  typedef code_t [PARAMETERS-1:0] parameters_t;
  localparam int KEPT = 32768;  // sums of a pass that wait for the next one

  // What the output stage needs to know of a group.
  typedef struct packed {
    count_t pixels;
    count_t columns;
    count_t channel;
    count_t row;     // output row and column of the first pixel
    count_t column;
  } group_t;

  // Where an output pixel, or a kernel tap, is.
  typedef struct packed {
    coordinate_t row;
    coordinate_t column;
  } place_t;

  // A value of the dot product: a kernel tap and a channel of the feature map.
  typedef struct packed {
    place_t      tap;
    coordinate_t channel;
  } inner_t;
endpackage
