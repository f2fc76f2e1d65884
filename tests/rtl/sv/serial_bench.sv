// The bit-serial engine with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module serial_bench
  import npu_types::*;
#(
    parameter int SIDE = 3,
    parameter int KERNEL = 3,
    parameter int CHANNELS = 32,
    parameter int INPUTS = 16,
    parameter int BYTES = 65536
) (
    input  logic         clk,
    input  logic         reset,
    input  logic [6:0][31:0] straps,       // in the order of serial_straps_t, the first is word 0
    input  logic         start,
    input  logic [575:0] word,
    output logic         done,
    output logic         array_active,
    output logic [ 31:0] bytes_read,       // through the feature-map and weight ports in this cycle
    output logic [ 31:0] bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  localparam int TAPS = KERNEL * KERNEL;
  localparam int PIXELS = SIDE * SIDE;
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  logic loading;
  logic [INPUTS-1:0] ifm_enable;
  address_t [INPUTS-1:0] ifm_address;
  code_t [INPUTS-1:0] ifm_data;
  logic [TAPS-1:0][INPUTS-1:0] weight_enable, weight_first;
  address_t [TAPS-1:0][INPUTS-1:0] weight_address;
  code_t [TAPS-1:0][INPUTS-1:0] weight_data;
  address_t [PARAMETERS-1:0] parameter_address;
  parameters_t parameter_data;
  logic [PIXELS-1:0][3:0] write;
  address_t [PIXELS-1:0] write_address;
  code_t [PIXELS-1:0][3:0] write_data;

  serial_unit #(
      .SIDE(SIDE),
      .KERNEL(KERNEL),
      .CHANNELS(CHANNELS),
      .INPUTS(INPUTS)
  ) unit (
      .straps('{
          strided_side: straps[0],
          depthwise_channels: straps[1],
          start_cycles: straps[2],
          point_start_cycles: straps[3],
          step_cycles: straps[4],
          output_cycles: straps[5],
          weight_bits: straps[6]
      }),
      .*
  );

  always_comb begin
    for (int k = 0; k < INPUTS; k++) ifm_data[k] = ifm_enable[k] ? memory[INDEX_BITS'(ifm_address[k])] : 0;
    for (int t = 0; t < TAPS; t++) begin
      for (int k = 0; k < INPUTS; k++) begin
        weight_data[t][k] = weight_enable[t][k] ? memory[INDEX_BITS'(weight_address[t][k])] : 0;
      end
    end
    for (int k = 0; k < PARAMETERS; k++) parameter_data[k] = |write ? memory[INDEX_BITS'(parameter_address[k])] : 0;
    bytes_read = (loading ? INPUTS : 0) + $countones(weight_first);
    bytes_written = $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int p = 0; p < PIXELS; p++) begin
      for (int k = 0; k < 4; k++) begin
        if (write[p][k]) memory[INDEX_BITS'(write_address[p] + address_t'(k))] <= write_data[p][k];
      end
    end
  end
endmodule
