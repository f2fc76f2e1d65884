// The vector unit with a scratchpad of single bytes: every byte of a port has an address of its own.
`timescale 1ns / 1ps

module vector_bench
  import npu_types::*;
#(
    parameter int LANES = 8,
    parameter int STAGES = 16,
    parameter int BYTES = 65536
) (
    input  logic              clk,
    input  logic              reset,
    input  logic [VECTOR_STRAPS-1:0][31:0] straps,
    input  logic              start,
    input  logic [575:0]      word,
    output logic              done,
    output logic              array_active,   // of the MAC unit; see unit_bench.cpp
    output logic [31:0]       bytes_read,     // in this cycle
    output logic [31:0]       bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  logic [LANES-1:0] a_enable, b_enable, c_enable, write;
  address_t [LANES-1:0] a_address, b_address, c_address, write_address;
  code_t [LANES-1:0] a_data, b_data, c_data, write_data;
  vector_straps_t unit_straps;
  for (genvar k = 0; k < VECTOR_STRAPS; k++) assign unit_straps[32*(VECTOR_STRAPS-1-k)+:32] = straps[k];
  assign array_active = 0;

  vector_unit #(
      .LANES(LANES),
      .STAGES(STAGES)
  ) unit (
      .straps(unit_straps),
      .*
  );

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      a_data[lane] = a_enable[lane] ? memory[a_address[lane][INDEX_BITS-1:0]] : 0;
      b_data[lane] = b_enable[lane] ? memory[b_address[lane][INDEX_BITS-1:0]] : 0;
      c_data[lane] = c_enable[lane] ? memory[c_address[lane][INDEX_BITS-1:0]] : 0;
    end
    bytes_read = $countones(a_enable) + $countones(b_enable) + $countones(c_enable);
    bytes_written = $countones(write);
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      if (write[lane]) memory[write_address[lane][INDEX_BITS-1:0]] <= write_data[lane];
    end
  end
endmodule
