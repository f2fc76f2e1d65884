// Fetches instruction after instruction through the DRAM port, as far ahead as its buffer holds, decodes and dispatches
// them in order.
`timescale 1ns / 1ps

module front_end
  import npu_types::*;
  import isa_words::*;
#(
    parameter int LATENCY = 1024
) (
    input  logic                         clk,
    input  logic                         reset,
    input  front_end_straps_t            straps,
    input  dma_straps_t                  dram,            // burst, row and grant sizes, latency
    input  logic                         start,
    input  wide_address_t                code_address,
    input  count_t                       instructions,
    output request_t                     request,
    output logic                         urgent,          // the request goes before all others
    input  logic                         burst_done,
    output count_t                       index,           // of the instruction that is decoded
    input  logic          [575:0]        word,            // of that index
    input  counts_t                      counts,
    input  logic          [PRODUCERS-1:0] room,
    output logic          [PRODUCERS-1:0] dispatch,
    output logic                         reached,         // a barrier is decoded
    output logic                         satisfied,       // its waits are; its cycles begin
    output logic                         barrier          // is passed
);
  localparam int BYTES = 72;

  // While fewer instructions are in queues or running, fetches go first.
  localparam int ENOUGH = 12;

  // Fetching. A request is for those bursts of an instruction that none before it has.
  logic running, asking;
  wide_address_t burst, burst_end;  // the next burst, the last one of the request
  wide_address_t burst_next, landed, landed_next;  // landed: the first burst that is not there yet
  logic [LATENCY:0] coming;
  logic arrives, asks;
  count_t index_next, next_word;
  count_t dispatched, ended, in_flight;

  function automatic wide_address_t last_of(count_t number);
    return (code_address + 36'(number) * BYTES + BYTES - 1) >> dram.burst_shift;
  endfunction

  logic last_burst, leaves_block;
  assign last_burst = burst == burst_end;
  assign leaves_block = ((burst + 1) >> dram.grant_shift) != (burst >> dram.grant_shift);
  assign request = '{
          valid: asking,
          ready: 2,
          row: 32'(burst >> dram.row_shift),
          goes_on: (burst_end >> dram.row_shift) != (burst >> dram.row_shift),
          row_behind: 32'(burst >> dram.row_shift) + 1,
          last_of_grant: last_burst || leaves_block,
          last: last_burst
      };
  assign arrives = dram.latency_cycles == 0 ? burst_done : coming[dram.latency_cycles-1];
  assign landed_next = landed + 36'(arrives);
  assign burst_next = burst + 36'(burst_done);
  always_comb begin
    automatic wide_address_t begins = burst_next << dram.burst_shift;
    next_word = begins <= code_address ? 0 : count_t'((begins - code_address) / BYTES);
    asks = running && (!asking || (burst_done && last_burst)) && next_word < instructions &&
        next_word < index_next + straps.fetch_instructions;
    ended = 0;
    for (int u = 0; u < PRODUCERS; u++) ended += 32'(counts[u]);
  end
  assign urgent = in_flight < ENOUGH;

  // Decoding: the last decode cycle, or any later one, dispatches.
  // A barrier whose waits are satisfied holds it for so many cycles more.
  logic [2:0] unit;
  logic decoding, holding;
  count_t decode_left, hold_left, hold_cycles;
  logic attempt, leaves, wants, takes;
  wait_t [WAITS-1:0] waits;
  assign waits = word[WAITS_OFFSET+:$bits(waits)];
  assign hold_cycles = count_t'(word[BARRIER_CYCLES_OFFSET+:BARRIER_CYCLES_BITS]);
  always_comb begin
    automatic logic [7:0] opcode = word[7:0];
    automatic logic completed = 1;
    unit = opcode == COPY_OPCODE || opcode == GATHER_OPCODE ? {1'b0, word[COPY_OFFSET+:2]}
        : opcode == CONVOLVE_OPCODE || opcode == DEPTHWISE_OPCODE ? 3'd4 : 3'd5;
    for (int k = 0; k < WAITS; k++) completed &= counts[3'(waits[k].unit)] >= waits[k].count;
    attempt = decoding && decode_left <= 1;
    reached = decoding && decode_left == 1 && opcode == BARRIER_OPCODE;
    satisfied = attempt && opcode == BARRIER_OPCODE && completed && !holding;
    barrier = holding ? hold_left == 1 : satisfied && hold_cycles == 0;
    dispatch = '0;
    if (attempt && opcode != BARRIER_OPCODE) dispatch[unit] = room[unit];
    leaves = barrier || dispatch != '0;
    index_next = index + 32'(leaves);
    wants = !decoding || leaves;
    takes = wants && index_next < instructions && last_of(index_next) < landed_next;
  end

  always_ff @(posedge clk) begin
    coming <= {coming[LATENCY-1:0], burst_done};
    if (reset) begin
      running <= 0;
      asking <= 0;
      decoding <= 0;
      holding <= 0;
      coming <= '0;
      landed <= '0;
      index <= 0;
    end else begin
      // Fetch.
      running <= running || start;
      asking <= start || asks || (asking && !(burst_done && last_burst));
      burst <= start ? code_address >> dram.burst_shift : burst_next;
      if (start || asks) burst_end <= last_of(start ? 0 : next_word);
      landed <= start ? code_address >> dram.burst_shift : landed_next;
      dispatched <= start ? 0 : dispatched + 32'(dispatch != '0);
      in_flight <= start ? 0 : dispatched + 32'(dispatch != '0) - ended;
      // Decode.
      holding <= (holding || satisfied) && !barrier;
      hold_left <= satisfied ? hold_cycles : hold_left - 1;
      index <= start ? 0 : index_next;
      decoding <= takes || (decoding && !wants);
      if (takes) decode_left <= straps.decode_cycles;
      else if (decode_left != 0) decode_left <= decode_left - 1;
    end
  end
endmodule
