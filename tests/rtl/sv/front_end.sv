// Fetches groups of instructions through the DRAM port, two ahead at most, decodes and dispatches them in order.
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

  // Fetching.
  count_t fetch_last;               // end of the group that is asked for
  logic fetching, asking;
  wide_address_t burst, burst_end;
  logic [LATENCY:0] coming;
  logic arrives;
  count_t buffered;
  logic [1:0][31:0] ends;           // of the groups that are buffered, the next one first
  count_t limit;                    // end of the group being decoded
  logic decoding;
  count_t decode_left;

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
  assign arrives = dram.latency_cycles == 0 ? burst_done && last_burst : coming[dram.latency_cycles-1];

  // Decoding: the last decode cycle, or any later one, dispatches.
  // A barrier whose waits are satisfied holds it for so many cycles more.
  logic [2:0] unit;
  logic holding;
  count_t hold_left, hold_cycles;
  logic attempt, leaves, wants_group, takes_group;
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
    wants_group = !decoding || (leaves && index + 1 == limit);
    takes_group = wants_group && (buffered != 0 || arrives);
  end

  count_t buffered_next;
  assign buffered_next = buffered + 32'(arrives) - 32'(takes_group);

  always_ff @(posedge clk) begin
    coming <= {coming[LATENCY-1:0], burst_done && last_burst};
    if (reset) begin
      fetching <= 0;
      asking <= 0;
      decoding <= 0;
      holding <= 0;
      coming <= '0;
      buffered <= 0;
      index <= 0;
    end else begin
      // Fetch.
      if (burst_done) begin
        burst <= burst + 1;
        if (last_burst) asking <= 0;
      end
      if (arrives) fetching <= 0;
      if (start || ((!fetching || arrives) && fetch_last < instructions && buffered_next < 2)) begin
        automatic count_t first = start ? 0 : fetch_last;
        automatic count_t last = first + straps.fetch_instructions < instructions
            ? first + straps.fetch_instructions : instructions;
        fetching <= 1;
        asking <= 1;
        fetch_last <= last;
        burst <= (code_address + 36'(first * BYTES)) >> dram.burst_shift;
        burst_end <= (code_address + 36'(last * BYTES) - 1) >> dram.burst_shift;
      end
      // The buffer of groups.
      buffered <= buffered_next;
      if (takes_group) begin
        limit <= buffered != 0 ? ends[0] : fetch_last;
        ends[0] <= buffered == 2 ? ends[1] : fetch_last;
      end else if (arrives) ends[buffered[0]] <= fetch_last;
      // Decode.
      holding <= (holding || satisfied) && !barrier;
      hold_left <= satisfied ? hold_cycles : hold_left - 1;
      if (leaves) index <= index + 1;
      if (start) index <= 0;
      decoding <= takes_group || (decoding && !wants_group);
      if (takes_group || leaves) decode_left <= straps.decode_cycles;
      else if (decode_left != 0) decode_left <= decode_left - 1;
    end
  end
endmodule
