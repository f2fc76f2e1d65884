// The step of LSTM cells with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module cell_bench
  import npu_types::*;
#(
    parameter int LANES = 8,
    parameter int BYTES = 65536
) (
    input  logic             clk,
    input  logic             reset,
    input  logic [3:0][31:0] straps,         // lanes, startup_cycles, exp_cycles, mul_cycles
    input  logic             start,
    input  logic [575:0]     word,
    output logic             done,
    output logic             array_active,   // of the MAC unit; see unit_bench.cpp
    output logic [31:0]      bytes_read,     // in this cycle
    output logic [31:0]      bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  logic [LANES-1:0][5:0] read;
  address_t [LANES-1:0][5:0] read_address;
  code_t [LANES-1:0][5:0] read_data;
  logic [LANES-1:0] write;
  address_t [LANES-1:0] state_address, output_address;
  code_t [LANES-1:0][1:0] state_data;
  code_t [LANES-1:0] output_data;
  assign array_active = 0;

  cell_unit #(
      .LANES(LANES)
  ) unit (
      .lanes(straps[0]),
      .startup_cycles(straps[1]),
      .exp_cycles(straps[2]),
      .mul_cycles(straps[3]),
      .*
  );

  always_comb begin
    bytes_read = 0;
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < 6; k++) begin
        read_data[lane][k] = read[lane][k] ? memory[INDEX_BITS'(read_address[lane][k])] : 0;
      end
      bytes_read = bytes_read + $countones(read[lane]);
    end
    bytes_written = 3 * $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      if (write[lane]) begin
        for (int k = 0; k < 2; k++) memory[INDEX_BITS'(state_address[lane] + address_t'(k))] <= state_data[lane][k];
        memory[INDEX_BITS'(output_address[lane])] <= output_data[lane];
      end
    end
  end
endmodule
