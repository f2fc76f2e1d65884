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
  count_t source_size, target_size;
  element_t [LANES-1:0] a_data, b_data, c_data, write_data;
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

  function automatic element_t read(logic enable, address_t address);
    if (!enable) return 0;
    return {source_size == 2 ? memory[INDEX_BITS'(address+1)] : 8'd0, memory[INDEX_BITS'(address)]};
  endfunction

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      a_data[lane] = read(a_enable[lane], a_address[lane]);
      b_data[lane] = read(b_enable[lane], b_address[lane]);
      c_data[lane] = read(c_enable[lane], c_address[lane]);
    end
    bytes_read = ($countones(a_enable) + $countones(b_enable) + $countones(c_enable)) * source_size;
    bytes_written = $countones(write) * target_size;
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < 2; k++) begin
        if (write[lane] && count_t'(k) < target_size) begin
          memory[INDEX_BITS'(write_address[lane]+address_t'(k))] <= write_data[lane][8*k+:8];
        end
      end
    end
  end
endmodule
