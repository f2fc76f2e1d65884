// The DRAM port: one burst after the other for the requester whose turn it is.
//
// A grant lasts while the requester's bursts lie in one block of addresses. It pays the row miss when its bank has another
// row open, then its bursts, whose time is a fraction `numerator / denominator` of cycles; the next grant begins
// with a whole cycle. Instruction fetch (requester 0) goes first if it is urgent, else last; the others take turns in the
// order of asking, of those that ask in the same cycle the lower one first, and who has been served goes to the end.
// Instead of the first in line, the first one whose row is open and ready goes next, if there is one and fewer than
// `reorder` grants have passed the first in line since it is that.
//
// In the cycle in which a grant begins, one command opens a row of another bank ahead: the next row of the first in the
// line for whom one may be opened, at last the row that the requester itself needs behind the one it is in. It may be
// opened if its bank has a row that neither the requester nor anybody in the line needs now or next.
`timescale 1ns / 1ps

module dram_port
  import npu_types::*;
#(
    parameter int REQUESTERS = 5,
    parameter int DRAM_BANKS = 64
) (
    input  logic                         clk,
    input  logic                         reset,
    input  dram_straps_t                 straps,
    input  request_t [REQUESTERS-1:0]    requests,
    input  logic                         urgent,      // requester 0
    output logic     [REQUESTERS-1:0]    burst_done   // in the last cycle of a burst
);
  localparam int ID_BITS = $clog2(REQUESTERS);
  localparam int BANK_BITS = $clog2(DRAM_BANKS);
  typedef logic [ID_BITS-1:0] id_t;
  typedef logic [BANK_BITS-1:0] bank_t;

  logic granted, in_burst, returning;
  id_t owner, returning_id;
  logic signed [31:0] phase;  // of the burst, in 1 / denominator cycles; below zero: time left over

  // Of each bank its row, if it has one, and how long that still takes to open.
  logic [DRAM_BANKS-1:0] row_known;
  count_t [DRAM_BANKS-1:0] open_row;
  count_t [DRAM_BANKS-1:0] opening, opening_now;

  function automatic bank_t bank_of(count_t row);
    return bank_t'(row & ((1 << straps.bank_shift) - 1));
  endfunction
  function automatic logic is_open(count_t row);
    return row_known[bank_of(row)] && open_row[bank_of(row)] == row;
  endfunction

  // Who waits, in order of asking: what waited before, who asks now, who had the last grant.
  id_t [REQUESTERS-1:0] line, line_now;
  logic [REQUESTERS-1:0] waiting;
  count_t line_length, line_length_now;
  logic take;
  id_t current, place;  // who goes next, and from where in line
  count_t passed;       // grants since the first in line is that
  logic signed [31:0] phase_now;
  logic starts_burst, transferring, grant_ends;
  request_t request;
  logic [REQUESTERS:0] wanting;  // the line, and the requester behind it
  count_t [REQUESTERS:0] rows_wanted;
  logic opens, opens_ahead;
  count_t row_ahead;

  // Whether somebody needs the row that is open in a bank, now or next.
  function automatic logic wanted(bank_t bank);
    automatic logic result = 0;
    for (int r = 0; r < REQUESTERS; r++) begin
      if (involved[r]) begin
        result |= open_row[bank] == requests[r].row;
        result |= requests[r].goes_on && open_row[bank] == requests[r].row_behind;
      end
    end
    return row_known[bank] && result;
  endfunction

  logic [REQUESTERS-1:0] involved;  // the requester and the line
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

    place = 0;
    if (passed < straps.reorder) begin
      for (int k = REQUESTERS - 1; k >= 0; k--) begin
        if (count_t'(k) < line_length_now && is_open(requests[line_now[k]].row) &&
            opening[bank_of(requests[line_now[k]].row)] == 0) begin
          place = id_t'(k);
        end
      end
    end

    take = !granted && (requests[0].valid || line_length_now != 0);
    current = granted ? owner : requests[0].valid && (urgent || line_length_now == 0) ? 0 : line_now[place];
    request = requests[current];
    opens = take && !is_open(request.row);

    // A row ahead.
    involved = '0;
    involved[current] = take;
    wanting = '0;
    rows_wanted = '0;
    for (int k = 0; k < REQUESTERS; k++) begin
      if (count_t'(k) < line_length_now && line_now[k] != current) begin
        involved[line_now[k]] = 1;
        wanting[k] = 1;
        rows_wanted[k] = requests[line_now[k]].row;
      end
    end
    wanting[REQUESTERS] = request.goes_on;
    rows_wanted[REQUESTERS] = request.row_behind;
    opens_ahead = 0;
    row_ahead = 0;
    for (int k = 0; k <= REQUESTERS; k++) begin
      automatic bank_t bank = bank_of(rows_wanted[k]);
      if (take && wanting[k] && !opens_ahead && !is_open(rows_wanted[k]) && bank != bank_of(request.row) &&
          !wanted(bank)) begin
        opens_ahead = 1;
        row_ahead = rows_wanted[k];
      end
    end
    opening_now = opening;
    if (opens) opening_now[bank_of(request.row)] = straps.miss_cycles;
    if (opens_ahead) opening_now[bank_of(row_ahead)] = straps.miss_cycles;

    starts_burst = (granted || take) && opening_now[bank_of(request.row)] == 0 && !in_burst && request.ready != 0;
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
      passed <= 0;
      waiting <= '0;
      row_known <= '0;
      opening <= '0;
    end else begin
      returning <= 0;
      for (int r = 1; r < REQUESTERS; r++) if (requests[r].valid) waiting[r] <= 1;
      line <= line_now;
      line_length <= line_length_now;
      if (take && current != 0) begin
        for (int k = 0; k + 1 < REQUESTERS; k++) if (id_t'(k) >= place) line[k] <= line_now[k+1];
        passed <= place == 0 ? 0 : passed + 1;
        line_length <= line_length_now - 1;
      end
      for (int b = 0; b < DRAM_BANKS; b++) opening[b] <= opening_now[b] == 0 ? 0 : opening_now[b] - 1;
      if (opens) begin
        row_known[bank_of(request.row)] <= 1;
        open_row[bank_of(request.row)] <= request.row;
      end
      if (opens_ahead) begin
        row_known[bank_of(row_ahead)] <= 1;
        open_row[bank_of(row_ahead)] <= row_ahead;
      end
      if (granted || take) begin
        granted <= !grant_ends;
        waiting[current] <= 0;
        owner <= current;
        in_burst <= transferring && !burst_done[current];
        if (!transferring) phase <= 0;
        else if (burst_done[current] && request.ready < 2) phase <= 0;
        else phase <= phase_now - straps.denominator;
        if (grant_ends) begin
          returning <= !request.last;
          returning_id <= current;
        end
      end
    end
  end
endmodule
