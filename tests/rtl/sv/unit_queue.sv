// The queue in front of a unit, and its head: the instruction that waits for its counts, then for ports of its banks.
//
// Everything that happens at an edge is seen by everyone at that edge: a unit that is done counts at once, the
// queue moves up, and an instruction whose waits are satisfied starts, even one that is dispatched at this edge.
`timescale 1ns / 1ps

module unit_queue
  import npu_types::*;
  import isa_words::*;
#(
    parameter int DEPTH = 16
) (
    input  logic           clk,
    input  logic           reset,
    input  count_t         queue_depth,
    input  logic           dispatch,
    input  logic [575:0]   dispatched,
    input  banks_t         dispatched_banks,
    output logic           room,        // takes an instruction at this edge
    input  counts_t        counts,      // completed instructions, this edge included
    input  logic           running,
    input  logic           done,
    output logic           ready,
    input  logic           grant,
    output logic [575:0]   word,
    output banks_t         banks
);
  logic [DEPTH-1:0][575:0] queue;
  banks_t [DEPTH-1:0] queue_banks;
  banks_t head_banks;
  count_t length;
  logic head_valid;
  logic [575:0] head;

  logic vacant, pops, passes, candidate;
  assign vacant = !head_valid && (!running || done);
  assign pops = vacant && length != 0;
  assign passes = vacant && length == 0 && dispatch;
  assign candidate = head_valid || pops || passes;
  assign word = head_valid ? head : pops ? queue[0] : dispatched;
  assign banks = head_valid ? head_banks : pops ? queue_banks[0] : dispatched_banks;
  assign room = length < queue_depth || pops;

  wait_t [WAITS-1:0] waits;
  assign waits = word[WAITS_OFFSET+:$bits(waits)];
  logic satisfied;
  always_comb begin
    satisfied = 1;
    for (int k = 0; k < WAITS; k++) satisfied &= counts[3'(waits[k].unit)] >= waits[k].count;
  end
  assign ready = candidate && satisfied;

  always_ff @(posedge clk) begin
    if (reset) begin
      length <= 0;
      head_valid <= 0;
    end else begin
      head_valid <= candidate && !grant;
      head <= word;
      head_banks <= banks;
      if (pops) begin
        for (int k = 0; k + 1 < DEPTH; k++) begin
          queue[k] <= queue[k+1];
          queue_banks[k] <= queue_banks[k+1];
        end
      end
      if (dispatch && !passes) begin
        queue[length-32'(pops)] <= dispatched;
        queue_banks[length-32'(pops)] <= dispatched_banks;
      end
      length <= length + 32'(dispatch && !passes) - 32'(pops);
    end
  end
endmodule
