// The DRAM port: one burst after the other for the requester whose turn it is.
//
// A grant lasts while the requester's bursts lie in one block of addresses. It pays the row miss when its row is not
// the open one, then its bursts, whose time is a fraction `numerator / denominator` of cycles; the next grant begins
// with a whole cycle. Instruction fetch (requester 0) goes first; the others take turns in the order of asking, of
// those that ask in the same cycle the lower one first, and who has been served goes to the end.
`timescale 1ns / 1ps

module dram_port
  import npu_types::*;
#(
    parameter int REQUESTERS = 5
) (
    input  logic                         clk,
    input  logic                         reset,
    input  dram_straps_t                 straps,
    input  request_t [REQUESTERS-1:0]    requests,
    output logic     [REQUESTERS-1:0]    burst_done   // in the last cycle of a burst
);
  localparam int ID_BITS = $clog2(REQUESTERS);
  typedef logic [ID_BITS-1:0] id_t;

  logic granted, in_burst, returning;
  id_t owner, returning_id;
  count_t miss_left;
  logic signed [31:0] phase;  // of the burst, in 1 / denominator cycles; below zero: time left over
  logic row_known;
  count_t open_row;

  // Who waits, in order of asking: what waited before, who asks now, who had the last grant.
  id_t [REQUESTERS-1:0] line, line_now;
  logic [REQUESTERS-1:0] waiting;
  count_t line_length, line_length_now;
  logic take;
  id_t current;
  count_t miss_now;
  logic signed [31:0] phase_now;
  logic starts_burst, transferring, grant_ends;
  request_t request;

  always_comb begin
    line_now = line;
    line_length_now = line_length;
    for (int r = 1; r < REQUESTERS; r++) begin
      if (requests[r].valid && !waiting[r] && !(granted && owner == id_t'(r)) &&
          !(returning && returning_id == id_t'(r))) begin
        line_now[line_length_now] = id_t'(r);
        line_length_now = line_length_now + 1;
      end
    end
    if (returning && returning_id != 0) begin
      line_now[line_length_now] = returning_id;
      line_length_now = line_length_now + 1;
    end

    take = !granted && (requests[0].valid || line_length_now != 0);
    current = granted ? owner : requests[0].valid ? 0 : line_now[0];
    request = requests[current];
    miss_now = granted ? miss_left : row_known && request.row == open_row ? 0 : straps.miss_cycles;
    starts_burst = (granted || take) && miss_now == 0 && !in_burst && request.ready != 0;
    transferring = in_burst || starts_burst;
    // Time left over from the burst before counts only if this burst could begin right then.
    phase_now = (granted ? phase : 0) + (starts_burst ? straps.numerator : 0);
    burst_done = '0;
    burst_done[current] = transferring && phase_now <= straps.denominator;
    grant_ends = burst_done[current] && request.last_of_grant;
  end

  always_ff @(posedge clk) begin
    if (reset) begin
      granted <= 0;
      in_burst <= 0;
      returning <= 0;
      line_length <= 0;
      waiting <= '0;
      row_known <= 0;
    end else begin
      returning <= 0;
      for (int r = 1; r < REQUESTERS; r++) if (requests[r].valid) waiting[r] <= 1;
      line <= line_now;
      line_length <= line_length_now;
      if (take && current != 0) begin
        for (int k = 0; k + 1 < REQUESTERS; k++) line[k] <= line_now[k+1];
        line_length <= line_length_now - 1;
      end
      if (granted || take) begin
        granted <= !grant_ends;
        waiting[current] <= 0;
        owner <= current;
        miss_left <= miss_now == 0 ? 0 : miss_now - 1;
        in_burst <= transferring && !burst_done[current];
        if (!transferring) phase <= 0;
        else if (burst_done[current] && request.ready < 2) phase <= 0;
        else phase <= phase_now - straps.denominator;
        if (grant_ends) begin
          row_known <= 1;
          open_row <= request.row;
          returning <= !request.last;
          returning_id <= current;
        end
      end
    end
  end
endmodule
