// DEPTH registers in a row: what skews operands and weights.
`timescale 1ns / 1ps

module delay #(
    parameter int WIDTH = 1,
    parameter int DEPTH = 1
) (
    input  logic             clk,
    input  logic             reset,
    input  logic [WIDTH-1:0] in,
    output logic [WIDTH-1:0] out
);
  if (DEPTH == 0) begin : g_wire
    assign out = in;
  end else begin : g_registers
    logic [DEPTH-1:0][WIDTH-1:0] stage;
    always_ff @(posedge clk) begin
      if (reset) stage <= '0;
      else begin
        stage[0] <= in;
        for (int k = 1; k < DEPTH; k++) stage[k] <= stage[k-1];
      end
    end
    assign out = stage[DEPTH-1];
  end
endmodule
