// The streaming engine with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module stream_bench
  import npu_types::*;
#(
    parameter int UNITS = 2,
    parameter int MULTIPLIERS = 12,
    parameter int KERNELS = 4,
    parameter int BYTES = 65536
) (
    input  logic         clk,
    input  logic         reset,
    input  logic [2:0][31:0] straps,       // in the order of stream_straps_t, the first is word 0
    input  logic         start,
    input  logic [575:0] word,
    output logic         done,
    output logic         array_active,
    output logic [ 31:0] bytes_read,       // through the feature-map and weight ports in this cycle
    output logic [ 31:0] bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  localparam int LINES = 7;
  localparam int CHANNELS = UNITS * MULTIPLIERS;
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  count_t entered;
  logic [LINES-1:0][LINES-1:0][CHANNELS-1:0] ifm_enable;
  address_t [LINES-1:0][LINES-1:0][CHANNELS-1:0] ifm_address;
  code_t [LINES-1:0][LINES-1:0][CHANNELS-1:0] ifm_data;
  logic [UNITS-1:0][MULTIPLIERS-1:0] weight_enable;
  address_t [UNITS-1:0][MULTIPLIERS-1:0] weight_address;
  code_t [UNITS-1:0][MULTIPLIERS-1:0] weight_data;
  address_t [UNITS-1:0][PARAMETERS-1:0] parameter_address;
  parameters_t [UNITS-1:0] parameter_data;
  logic [UNITS-1:0][3:0] write;
  address_t [UNITS-1:0] write_address;
  code_t [UNITS-1:0][3:0] write_data;

  stream_unit #(
      .UNITS(UNITS),
      .MULTIPLIERS(MULTIPLIERS),
      .KERNELS(KERNELS),
      .LINES(LINES)
  ) unit (
      .straps('{units: straps[0], multipliers: straps[1], kernels: straps[2]}),
      .*
  );

  always_comb begin
    for (int r = 0; r < LINES; r++) begin
      for (int q = 0; q < LINES; q++) begin
        for (int c = 0; c < CHANNELS; c++) begin
          ifm_data[r][q][c] = ifm_enable[r][q][c] ? memory[INDEX_BITS'(ifm_address[r][q][c])] : 0;
        end
      end
    end
    for (int u = 0; u < UNITS; u++) begin
      for (int m = 0; m < MULTIPLIERS; m++) begin
        weight_data[u][m] = weight_enable[u][m] ? memory[INDEX_BITS'(weight_address[u][m])] : 0;
      end
      for (int k = 0; k < PARAMETERS; k++) parameter_data[u][k] = |write[u] ? memory[INDEX_BITS'(parameter_address[u][k])] : 0;
    end
    bytes_read = entered + $countones(weight_enable);
    bytes_written = $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int u = 0; u < UNITS; u++) begin
      for (int k = 0; k < 4; k++) begin
        if (write[u][k]) memory[INDEX_BITS'(write_address[u] + address_t'(k))] <= write_data[u][k];
      end
    end
  end
endmodule
