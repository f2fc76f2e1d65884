// One side of a copy that passes the burst buffer: byte after byte in the order of its loops, as many in a beat as the
// port takes.
//
// A beat begins with the next byte. It takes the bytes behind it while they are contiguous and within the port, then
// the runs behind that in the same line, whole, while they are. A line is what the innermost loop with a gap makes; no
// beat goes on into the next line or block. Bursts are numbered in the order in which they are touched.
`timescale 1ns / 1ps

module block_walk
  import npu_types::*;
#(
    parameter int PORT = 16
) (
    input  logic                     clk,
    input  logic                     start,
    input  wide_address_t            first,         // at the start
    input  nest_t                    nest,          // from then on
    input  logic                     active,
    input  count_t                   port,
    input  count_t                   burst_shift,
    input  logic                     goes,
    output wide_address_t            address,       // of lane 0
    output logic          [PORT-1:0] lanes,         // bytes of the beat
    output count_t        [PORT-1:0] places,        // of the lanes in the buffer
    output logic                     block_ends,    // with this beat
    output logic                     copy_ends,
    output count_t                   touched,       // bursts with it
    output count_t                   finished       // bursts that no later beat touches
);
  typedef enum logic [2:0] {
    SAME_RUN,
    NEXT_RUN,
    NEXT_LINE,
    NEXT_BLOCK,
    END
  } step_kind_t;

  typedef struct packed {
    logic [2:0][31:0] index;
    count_t inner;
    wide_address_t address;
    count_t place;
  } spot_t;

  // What a step of each loop means: loops next to the innermost bytes that leave no gap make the runs longer.
  step_kind_t [2:0] kinds;
  count_t run;
  wide_address_t run_stride;
  always_comb begin
    automatic logic dense = 1;
    automatic logic first_gap = 1;
    run = nest.size;
    run_stride = 0;
    for (int d = 2; d >= 0; d--) begin
      kinds[d] = NEXT_BLOCK;
      if (count_t'(d) + nest.block >= 3 && nest.count[d] != 1) begin
        if (dense && nest.stride[d] == 36'(run)) begin
          kinds[d] = SAME_RUN;
          run = run * nest.count[d];
        end else begin
          kinds[d] = first_gap ? NEXT_RUN : NEXT_LINE;
          if (first_gap) run_stride = nest.stride[d];
          dense = 0;
          first_gap = 0;
        end
      end
    end
  end

  function automatic spot_t after(spot_t at, output step_kind_t kind);
    spot_t result = at;
    if (at.inner + 1 < nest.size) begin
      result.inner = at.inner + 1;
      result.address = at.address + 1;
      result.place = at.place + 1;
      kind = SAME_RUN;
    end else begin
      result.inner = 0;
      result.address = at.address - 36'(at.inner);
      result.place = at.place - at.inner;
      kind = END;
      for (int d = 2; d >= 0; d--) begin
        if (kind == END) begin
          if (at.index[d] + 1 < nest.count[d]) begin
            result.index[d] = at.index[d] + 1;
            result.address = result.address + nest.stride[d];
            result.place = result.place + nest.place[d];
            kind = kinds[d];
          end else begin
            result.index[d] = 0;
            result.address = result.address - 36'(at.index[d]) * nest.stride[d];
            result.place = result.place - at.index[d] * nest.place[d];
          end
        end
      end
    end
    return result;
  endfunction

  spot_t at, next;
  count_t number;
  wide_address_t burst, burst_now;
  always_comb begin
    automatic logic open = active;
    automatic step_kind_t kind = SAME_RUN;
    automatic count_t lane = 0;
    lanes = '0;
    places = '0;
    next = at;
    touched = number;
    burst_now = burst;
    for (int k = 0; k < PORT; k++) begin
      if (open) begin
        lane = count_t'(next.address - at.address);
        lanes[lane] = 1;
        places[lane] = next.place;
        if (touched == 0 || next.address >> burst_shift != burst_now) touched = touched + 1;
        burst_now = next.address >> burst_shift;
        next = after(next, kind);
        lane = count_t'(next.address - at.address);
        open = kind == SAME_RUN ? lane < port
            : kind == NEXT_RUN && !run_stride[35] && 36'(run) <= run_stride && lane + run <= port;
      end
    end
    address = at.address;
    block_ends = kind == NEXT_BLOCK || kind == END;
    copy_ends = kind == END;
    finished = copy_ends || next.address >> burst_shift != burst_now ? touched : touched - 1;
  end

  always_ff @(posedge clk) begin
    if (start) begin
      at <= '{index: '0, inner: 0, address: first, place: 0};
      number <= 0;
    end else if (goes) begin
      at <= next;
      number <= touched;
      burst <= burst_now;
    end
  end
endmodule
