// The MAC unit with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module mac_bench
  import npu_types::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4,
    parameter int DEPTH = 64,
    parameter int IFM_PORT = 16,
    parameter int WEIGHT_PORT = 16,
    parameter int LANES = 16,
    parameter int BYTES = 65536
) (
    input  logic         clk,
    input  logic         reset,
    input  logic [4:0][31:0] straps,       // in the order of straps_t, the first is word 0
    input  logic         start,
    input  logic [575:0] word,
    output logic         done,
    output logic         array_active,
    output logic [ 31:0] bytes_read,       // through the feature-map and weight ports in this cycle
    output logic [ 31:0] bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  logic [IFM_PORT-1:0] ifm_enable;
  address_t [IFM_PORT-1:0] ifm_address;
  code_t [IFM_PORT-1:0] ifm_data;
  logic [WEIGHT_PORT-1:0] weight_enable;
  address_t [WEIGHT_PORT-1:0] weight_address;
  code_t [WEIGHT_PORT-1:0] weight_data;
  address_t [LANES-1:0][PARAMETERS-1:0] parameter_address;
  parameters_t [LANES-1:0] parameter_data;
  logic [LANES-1:0][3:0] write;
  address_t [LANES-1:0] write_address;
  code_t [LANES-1:0][3:0] write_data;

  mac_unit #(
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .DEPTH(DEPTH),
      .IFM_PORT(IFM_PORT),
      .WEIGHT_PORT(WEIGHT_PORT),
      .LANES(LANES)
  ) unit (
      .straps('{
          shadow: straps[0][0],
          half_accumulators: straps[1],
          ifm_port: straps[2],
          weight_port: straps[3],
          lanes: straps[4]
      }),
      .*
  );

  always_comb begin
    for (int p = 0; p < IFM_PORT; p++) ifm_data[p] = ifm_enable[p] ? memory[ifm_address[p][INDEX_BITS-1:0]] : 0;
    for (int p = 0; p < WEIGHT_PORT; p++) begin
      weight_data[p] = weight_enable[p] ? memory[weight_address[p][INDEX_BITS-1:0]] : 0;
    end
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_data[lane][k] = write[lane][0] ? memory[parameter_address[lane][k][INDEX_BITS-1:0]] : 0;
      end
    end
    bytes_read = $countones(ifm_enable) + $countones(weight_enable);
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
