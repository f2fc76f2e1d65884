// The real lanes with a scratchpad of single bytes: every element of a port has an address of its own.
`timescale 1ns / 1ps

module real_bench
  import npu_types::*;
  import npu_reals::*;
#(
    parameter int LANES = 8,
    parameter int STAGES = 16,
    parameter int BYTES = 65536
) (
    input  logic              clk,
    input  logic              reset,
    input  logic [5:0][31:0]  straps,
    input  logic              start,
    input  logic [575:0]      word,
    output logic              done,
    output logic              array_active,   // of the MAC unit; see unit_bench.cpp
    output logic [31:0]       bytes_read,     // in this cycle
    output logic [31:0]       bytes_written
);
  localparam int INDEX_BITS = $clog2(BYTES);
  code_t memory[BYTES]  /*verilator public_flat_rw*/;

  count_t source_bytes, target_bytes;
  logic [LANES-1:0] a_enable, b_enable, write;
  address_t [LANES-1:0] a_address, b_address, write_address;
  wide_t [LANES-1:0] a_data, b_data, write_data;
  real_straps_t unit_straps;
  for (genvar k = 0; k < 6; k++) assign unit_straps[32*(5-k)+:32] = straps[k];
  assign array_active = 0;

  real_unit #(
      .LANES(LANES),
      .STAGES(STAGES)
  ) unit (
      .straps(unit_straps),
      .*
  );

  function automatic wide_t read(logic enable, address_t address);
    wide_t data = 0;
    for (int k = 0; k < 8; k++) begin
      if (enable && count_t'(k) < source_bytes) data[8*k+:8] = memory[INDEX_BITS'(address+address_t'(k))];
    end
    return data;
  endfunction

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      a_data[lane] = read(a_enable[lane], a_address[lane]);
      b_data[lane] = read(b_enable[lane], b_address[lane]);
    end
    bytes_read = ($countones(a_enable) + $countones(b_enable)) * source_bytes;
    bytes_written = $countones(write) * target_bytes;
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < 8; k++) begin
        if (write[lane] && count_t'(k) < target_bytes) begin
          memory[INDEX_BITS'(write_address[lane]+address_t'(k))] <= write_data[lane][8*k+:8];
        end
      end
    end
  end
endmodule
