// Grants ports of the scratchpad's banks: all that an instruction needs at one edge, first come, first served.
//
// A bank's ports belong to those at work that do not end at this edge, and to all who ask for one and go before; so
// nobody is held up by one who asks later. Of those who ask since the same edge the lower unit goes before.
`timescale 1ns / 1ps

module bank_ports
  import npu_types::*;
#(
    parameter int USERS = 6
) (
    input  logic               clk,
    input  logic               reset,
    input  count_t             ports,     // of each bank
    input  logic   [USERS-1:0] ready,     // asks, with nothing else to wait for
    input  banks_t [USERS-1:0] wanted,
    input  logic   [USERS-1:0] running,
    input  logic   [USERS-1:0] done,
    output logic   [USERS-1:0] grant
);
  banks_t [USERS-1:0] held;
  count_t [USERS-1:0] waited;  // edges since the first one at which it asked

  always_comb begin
    for (int u = 0; u < USERS; u++) begin
      automatic logic enough = 1;
      for (int bank = 0; bank < BANKS; bank++) begin
        automatic count_t taken = 0;
        for (int other = 0; other < USERS; other++) begin
          automatic logic earlier = waited[other] > waited[u] || (waited[other] == waited[u] && other < u);
          if (running[other] && !done[other]) taken += 32'(held[other][bank]);
          else if (other != u && ready[other] && earlier) taken += 32'(wanted[other][bank]);
        end
        if (wanted[u][bank] && taken >= ports) enough = 0;
      end
      grant[u] = ready[u] && enough;
    end
  end

  always_ff @(posedge clk) begin
    for (int u = 0; u < USERS; u++) begin
      if (grant[u]) held[u] <= wanted[u];
      waited[u] <= reset || grant[u] || !ready[u] ? 0 : waited[u] + 1;
    end
  end
endmodule
