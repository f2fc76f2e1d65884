// Normalization of rows with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module normal_bench
  import npu_types::*;
#(
    parameter int LANES = 8,
    parameter int BYTES = 65536
) (
    input  logic             clk,
    input  logic             reset,
    input  logic [6:0][31:0] straps,         // lanes, then cycles in the order of normal_unit
    input  logic             start,
    input  logic [575:0]     word,
    output logic             done,
    output logic             array_active,   // of the MAC unit; see unit_bench.cpp
    output logic [31:0]      bytes_read,     // in this cycle
    output logic [31:0]      bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  logic [LANES-1:0] read, write;
  address_t [LANES-1:0] read_address, write_address;
  code_t [LANES-1:0] read_data, write_data;
  assign array_active = 0;

  normal_unit #(
      .LANES(LANES)
  ) unit (
      .lanes(straps[0]),
      .startup_cycles(straps[1]),
      .exp_cycles(straps[2]),
      .moment_cycles(straps[3]),
      .fused_cycles(straps[4]),
      .dequantise_cycles(straps[5]),
      .literal_cycles(straps[6]),
      .*
  );

  always_comb begin
    for (int lane = 0; lane < LANES; lane++)
      read_data[lane] = read[lane] ? memory[INDEX_BITS'(read_address[lane])] : 0;
    bytes_read = $countones(read);
    bytes_written = $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++)
      if (write[lane]) memory[INDEX_BITS'(write_address[lane])] <= write_data[lane];
  end
endmodule
