// The block engine with a scratchpad of single bytes: every operand, weight and parameter has an address of its own.
`timescale 1ns / 1ps

module block_bench
  import npu_types::*;
  import npu_blocks::*;
#(
    parameter int MICRO_HEIGHT = 1,
    parameter int MICRO_WIDTH = 2,
    parameter int MICRO_CHANNELS = 4,
    parameter int STEP = 4,
    parameter int PRODUCTS = 8,
    parameter int PART_ELEMENTS = 2,
    parameter int CHANNEL_ELEMENTS = 4,
    parameter int ACCUMULATORS = 1024,
    parameter int LANES = 4,
    parameter int PORT = 16,
    parameter int BYTES = 65536
) (
    input  logic         clk,
    input  logic         reset,
    input  logic [BLOCK_STRAPS-1:0][31:0] straps,  // in the order of block_straps_t, the first is word 0
    input  logic         start,
    input  logic [575:0] word,
    output logic         done,
    output logic         array_active,
    output logic [ 31:0] bytes_read,               // of feature maps and weights in this cycle
    output logic [ 31:0] bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  localparam int AT_ONCE = PRODUCTS / STEP;
  localparam int MICRO_PIXELS = MICRO_HEIGHT * MICRO_WIDTH;
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  block_straps_t pins;
  for (genvar k = 0; k < BLOCK_STRAPS; k++) assign pins[32*(BLOCK_STRAPS-1-k)+:32] = straps[k];

  count_t map_bytes;
  logic [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][AT_ONCE-1:0] ifm_enable;
  address_t [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][AT_ONCE-1:0] ifm_address;
  code_t [MICRO_PIXELS-1:0][MICRO_CHANNELS-1:0][AT_ONCE-1:0] ifm_data;
  logic [PORT-1:0] weight_place, weight_enable;
  address_t [PORT-1:0] weight_address;
  code_t [PORT-1:0] weight_data;
  address_t [LANES-1:0][PARAMETERS-1:0] parameter_address;
  parameters_t [LANES-1:0] parameter_data;
  logic [LANES-1:0][3:0] write;
  address_t [LANES-1:0] write_address;
  code_t [LANES-1:0][3:0] write_data;

  block_unit #(
      .MICRO_HEIGHT(MICRO_HEIGHT),
      .MICRO_WIDTH(MICRO_WIDTH),
      .MICRO_CHANNELS(MICRO_CHANNELS),
      .STEP(STEP),
      .PRODUCTS(PRODUCTS),
      .PART_ELEMENTS(PART_ELEMENTS),
      .CHANNEL_ELEMENTS(CHANNEL_ELEMENTS),
      .ACCUMULATORS(ACCUMULATORS),
      .LANES(LANES),
      .PORT(PORT)
  ) unit (
      .straps(pins),
      .*
  );

  always_comb begin
    for (int p = 0; p < MICRO_PIXELS; p++) begin
      for (int c = 0; c < MICRO_CHANNELS; c++) begin
        for (int y = 0; y < AT_ONCE; y++) begin
          ifm_data[p][c][y] = ifm_enable[p][c][y] ? memory[INDEX_BITS'(ifm_address[p][c][y])] : 0;
        end
      end
    end
    for (int p = 0; p < PORT; p++) begin
      weight_data[p] = weight_enable[p] ? memory[INDEX_BITS'(weight_address[p])] : 0;
    end
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_data[lane][k] = write[lane][0] ? memory[INDEX_BITS'(parameter_address[lane][k])] : 0;
      end
    end
    bytes_read = map_bytes + $countones(weight_place);
    bytes_written = $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < 4; k++) begin
        if (write[lane][k]) memory[INDEX_BITS'(write_address[lane] + address_t'(k))] <= write_data[lane][k];
      end
    end
  end
endmodule
