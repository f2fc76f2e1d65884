// The commands of a block go through its four phases - inputs, products, outputs, their departure - `command_share`
// cycles of them in one. A stage does not leave the block before.
`timescale 1ns / 1ps

module block_commands
  import npu_types::*;
  import npu_blocks::*;
(
    input  logic          clk,
    input  logic          reset,
    input  block_straps_t straps,
    input  block_plan_t   plan,
    input  logic          start,    // a block begins in the next cycle
    input  block_step_t   first,    // of its steps
    output logic          complete  // with this cycle, or before
);
  typedef enum logic [2:0] {
    IN,
    STEPS,
    OUT,
    AWAY,
    OVER
  } phase_t;
  typedef struct packed {
    phase_t      phase;
    block_step_t at;
    count_t      cycles;  // of the phase, or of the step
  } state_t;

  function automatic state_t after_a_cycle(state_t from);
    state_t to;
    count_t depth, size;
    block_move_t moved;
    to = from;
    to.cycles = from.cycles + 1;
    depth = depth_of(from.at, plan, straps);
    size = height_of(from.at, plan, straps) * width_of(from.at, plan, straps) * depth;
    case (from.phase)
      IN:
      if (transferred(straps, to.cycles, input_bytes(plan, straps, depth))) begin
        to.phase  = STEPS;
        to.cycles = 0;
      end
      STEPS: begin
        automatic count_t waits = waits_behind(from.at, plan, straps) ? straps.lone_step_cycles : 0;
        if (to.cycles >= plan.step_cycles * plane_of(from.at, plan, straps) + waits &&
            (to.cycles - smaller(waits, to.cycles)) * straps.weight_port >= plan.products * plan.micro_channels) begin
          moved = move(from.at, plan, straps);
          to.cycles = 0;
          if (moved.leaves_block) to.phase = OUT;
          else to.at = moved.next;
        end
      end
      OUT:
      if (to.cycles * straps.output_denominator >= size * straps.output_numerator &&
          to.cycles * straps.weight_port >= 10 * depth) begin
        to.phase  = AWAY;
        to.cycles = 0;
      end
      AWAY: if (transferred(straps, to.cycles, size)) to.phase = OVER;
      default: ;
    endcase
    return to;
  endfunction

  state_t state, ahead;
  assign complete = ahead.phase == OVER;
  always_comb begin
    ahead = state;
    for (count_t k = 0; k < straps.command_share && ahead.phase != OVER; k = k + 1) ahead = after_a_cycle(ahead);
  end
  always_ff @(posedge clk) begin
    if (reset) state <= '{phase: OVER, at: '0, cycles: 0};
    else if (start) state <= '{phase: IN, at: first, cycles: 0};
    else state <= ahead;
  end
endmodule
