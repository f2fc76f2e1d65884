// One DMA channel: a strided copy of up to four dimensions, a fill, or a gather or scatter of rows.
//
// Data moves in beats of up to `port` bytes that are contiguous in source and target, one per cycle. Bursts from the
// DRAM are handed over whole; a beat waits for the last burst that it needs. On the way out a burst is offered to the
// DRAM port when all its beats have been read. The time that one burst may take through the port, `slack` cycles, is
// part of what the engine waits anyway: reads of the scratchpad begin so much before the end of the setup, and a burst
// from the DRAM is handed over so much before its latency ends.
//
// A copy in blocks has two walks of its own, one that fills a half of the burst buffer and one that drains the other.
//
// A gather is two copies, one behind the other: its list of indices into the burst buffer, then the rows. On the side of
// the tables (the target of a scatter) the DRAM port gets to know places in rows of their own, all of one bank; where
// they are says the list.
`timescale 1ns / 1ps

module dma_engine
  import npu_types::*;
  import isa_words::*;
#(
    parameter int PORT = 16,
    parameter int LATENCY = 1024,  // longest
    parameter int HALF = 2048,     // bytes of half the burst buffer
    parameter int SKIPS = 64       // runs within one burst that are passed over in a cycle
) (
    input  logic                           clk,
    input  logic                           reset,
    input  dma_straps_t                    straps,
    input  logic                           start,
    input  logic         [ 575:0]          word,
    output logic                           done,
    output request_t                       request,
    input  logic                           burst_done,
    output logic                           source_space,   // 1: DRAM
    output wide_address_t                  source_address,
    output logic         [PORT-1:0]        read,           // bytes of the beat
    input  code_t        [PORT-1:0]        read_data,
    output logic                           target_space,
    output wide_address_t                  target_address,
    output logic         [PORT-1:0]        write,
    output code_t        [PORT-1:0]        write_data
);
  // Nested loops over contiguous runs of `run` bytes; loop 0 is the outermost.
  typedef struct packed {
    count_t run;
    logic [2:0][31:0] count;
    logic [2:0][35:0] source_stride;  // backwards: negative
    logic [2:0][35:0] target_stride;
  } loops_t;

  typedef struct packed {
    logic [2:0][31:0] index;
    wide_address_t source;
    wide_address_t target;
  } position_t;

  function automatic wide_address_t towards(logic backward, logic [31:0] stride);
    return backward ? -36'(stride) : 36'(stride);
  endfunction

  function automatic loops_t written(copy_t c);
    return '{
        run: 32'(c.size),
        count: '{32'(c.count2) + 1, 32'(c.count1) + 1, 32'(c.count0) + 1},
        source_stride: '{
            towards(c.backward[2], c.source_stride2),
            towards(c.backward[1], c.source_stride1),
            towards(c.backward[0], c.source_stride0)
        },
        target_stride: '{36'(c.target_stride2), 36'(c.target_stride1), 36'(c.target_stride0)}
    };
  endfunction

  // How far behind the beginning of a burst a row of a table can begin.
  function automatic wide_address_t late(gather_t g);
    automatic wide_address_t burst = 36'(1) << straps.burst_shift;
    automatic wide_address_t factors = burst | 36'(g.size) | (g.scatter ? g.target : g.source);
    return burst - (factors & -factors);
  endfunction

  // The contiguous bytes that an index selects.
  function automatic count_t run_of(gather_t g);
    return (32'(g.span) + 1) * 32'(g.size);
  endfunction

  // The two copies of a gather; the first ends in the burst buffer.
  function automatic copy_t of_list(gather_t g);
    automatic copy_t result = '0;
    result.channel = g.channel;
    result.source_space = g.index_space;
    result.source = g.index;
    result.size = 30'((32'(g.batches) + 1) * (32'(g.rows) + 1) * (32'(g.entries) + 1) * (g.index_type ? 8 : 4));
    return result;
  endfunction

  function automatic copy_t of_rows(gather_t g);
    automatic copy_t result = '0;
    result.channel = g.channel;
    result.source_space = g.source_space;
    result.source = g.scatter ? g.source : (36'(1) << ANYWHERE_BIT) + late(g);
    result.target_space = g.target_space;
    result.target = g.scatter ? (36'(1) << ANYWHERE_BIT) + late(g) : g.target;
    result.size = 30'(run_of(g));
    return result;
  endfunction

  function automatic loops_t gathered(gather_t g);
    automatic count_t row_bits = straps.burst_shift + straps.row_shift + straps.bank_shift;
    automatic wide_address_t pitch = (((late(g) + 36'(run_of(g)) - 1) >> row_bits) + 1) << row_bits;
    automatic count_t rows = 32'(g.rows) + 1, repeats = 32'(g.repeats) + 1;
    automatic logic [2:0][35:0] anywhere = '{pitch, 36'(rows) * pitch, 36'(repeats) * 36'(rows) * pitch};
    automatic logic [2:0][35:0] dense = '{36'(run_of(g)), 36'(g.dense_stride), 36'(repeats) * 36'(g.dense_stride)};
    return '{
        run: run_of(g),
        count: '{rows, repeats, 32'(g.batches) + 1},
        source_stride: g.scatter ? dense : anywhere,
        target_stride: g.scatter ? anywhere : dense
    };
  endfunction

  // The loops with the inner ones merged as long as they are contiguous on the sides that count.
  function automatic loops_t merged(loops_t loops, logic by_source, logic by_target);
    loops_t result;
    logic open;
    result = loops;
    open = 1;
    for (int d = 2; d >= 0; d--) begin
      if (loops.count[d] != 1) begin
        if (open && (!by_source || result.source_stride[d] == 36'(result.run)) &&
            (!by_target || result.target_stride[d] == 36'(result.run))) begin
          result.run = result.run * loops.count[d];
          result.count[d] = 1;
        end else open = 0;
      end
    end
    return result;
  endfunction

  // The source side of a copy in blocks: its loops, and where their bytes lie in the buffer.
  function automatic nest_t filling(copy_t c);
    nest_t result;
    loops_t loops;
    count_t place;
    loops = written(c);
    result.count = loops.count;
    result.stride = loops.source_stride;
    result.size = loops.run;
    result.block = count_t'(c.block);
    place = loops.run;
    for (int d = 2; d >= 0; d--) begin
      result.place[d] = count_t'(d) + result.block >= 3 ? place : 0;
      place = place * loops.count[d];
    end
    return result;
  endfunction

  // The target side: the loops of a block by falling strides.
  function automatic nest_t draining(copy_t c);
    nest_t result;
    loops_t loops;
    loops = written(c);
    result = filling(c);
    result.stride = loops.target_stride;
    for (int pass = 0; pass < 2; pass++) begin
      for (int d = 0; d < 2; d++) begin
        if (count_t'(d) + result.block >= 3 && result.stride[d] < result.stride[d+1]) begin
          automatic nest_t other = result;
          result.count[d] = other.count[d+1];
          result.count[d+1] = other.count[d];
          result.stride[d] = other.stride[d+1];
          result.stride[d+1] = other.stride[d];
          result.place[d] = other.place[d+1];
          result.place[d+1] = other.place[d];
        end
      end
    end
    return result;
  endfunction

  // The next run; `carry` is set behind the last one.
  function automatic position_t after(position_t at, loops_t loops, output logic carry);
    position_t result;
    result = at;
    carry  = 1;
    for (int d = 2; d >= 0; d--) begin
      if (carry) begin
        if (at.index[d] + 1 < loops.count[d]) begin
          result.index[d] = at.index[d] + 1;
          result.source = result.source + loops.source_stride[d];
          result.target = result.target + loops.target_stride[d];
          carry = 0;
        end else begin
          result.index[d] = 0;
          result.source = result.source - 36'(at.index[d]) * loops.source_stride[d];
          result.target = result.target - 36'(at.index[d]) * loops.target_stride[d];
        end
      end
    end
    return result;
  endfunction

  // What is copied: all of an instruction, or one of the two copies of a gather.
  copy_t c, incoming;
  gather_t g, incoming_gather;
  logic gathering, rows_leg, list_leg, leg_ends, second_begins, begins;
  assign incoming_gather = gather_t'(word[COPY_OFFSET+:$bits(gather_t)]);
  assign list_leg = gathering && !rows_leg;
  assign second_begins = leg_ends && list_leg;
  assign begins = start || second_begins;
  assign incoming = second_begins ? of_rows(g)
      : word[7:0] == GATHER_OPCODE ? of_list(incoming_gather) : copy_t'(word[COPY_OFFSET+:$bits(copy_t)]);
  always_ff @(posedge clk) begin
    if (begins) c <= incoming;
    if (start) begin
      g <= incoming_gather;
      gathering <= word[7:0] == GATHER_OPCODE;
      rows_leg <= 0;
    end else if (second_begins) rows_leg <= 1;
  end

  logic reads_dram, writes_dram, uses_dram;
  logic in_blocks;
  loops_t beat_loops, burst_loops;
  nest_t fill_nest, drain_nest;
  always_comb begin
    reads_dram = c.source_space && !c.fill;
    writes_dram = c.target_space;
    uses_dram = reads_dram || writes_dram;
    in_blocks = c.block != 0;
    fill_nest = filling(c);
    drain_nest = draining(c);
    beat_loops = rows_leg ? gathered(g) : merged(written(c), !c.fill, 1);
    burst_loops = rows_leg ? gathered(g) : written(c);
    if (in_blocks && writes_dram) begin
      burst_loops.count = drain_nest.count;
      burst_loops.target_stride = drain_nest.stride;
    end
    burst_loops = merged(burst_loops, reads_dram, writes_dram);
  end
  assign source_space = c.source_space;
  assign target_space = c.target_space;

  // Time since the start.
  logic busy;
  count_t clock_count, beats_from;
  assign beats_from = !writes_dram || reads_dram ? straps.setup_cycles
      : straps.setup_cycles > straps.slack ? straps.setup_cycles - straps.slack : 0;

  // Beats. Bursts are numbered in the order in which they are first touched.
  position_t beat_at, beat_next;
  count_t beat_offset, beat_bytes, burst_number, touched_number;
  logic beats_left, beat_goes, run_ends, last_run;
  wide_address_t dram_byte, burst_of_first, burst_of_last, burst_touched, burst_of_next;
  count_t arrived, complete;
  always_comb begin
    beat_bytes = beat_loops.run - beat_offset < straps.port ? beat_loops.run - beat_offset : straps.port;
    run_ends = beat_offset + beat_bytes == beat_loops.run;
    beat_next = after(beat_at, beat_loops, last_run);
    dram_byte = (reads_dram ? beat_at.source : beat_at.target) + 36'(beat_offset);
    burst_of_first = dram_byte >> straps.burst_shift;
    burst_of_last = (dram_byte + 36'(beat_bytes) - 1) >> straps.burst_shift;
    burst_of_next = (run_ends ? (reads_dram ? beat_next.source : beat_next.target)
                              : dram_byte + 36'(beat_bytes)) >> straps.burst_shift;
    touched_number = burst_number + 32'(burst_of_last - burst_of_first);
    if (burst_number == 0 || burst_of_first != burst_touched) touched_number = touched_number + 1;
    beat_goes = busy && !in_blocks && beats_left && clock_count >= beats_from &&
        (!reads_dram || arrived >= touched_number);
  end

  // Blocks: one half of the buffer is filled while the other one is drained.
  code_t buffer[2*HALF];
  logic [1:0] full;
  logic fill_half, drain_half, fill_left, fill_goes, fill_block_ends, fill_ends;
  logic drain_goes, drain_block_ends, drain_ends;
  wide_address_t fill_address, drain_address;
  logic [PORT-1:0] fill_lanes, drain_lanes;
  count_t [PORT-1:0] fill_places, drain_places;
  count_t fill_touched, fill_finished, drain_touched, drain_finished;
  assign fill_goes = busy && in_blocks && fill_left && clock_count >= beats_from && !full[fill_half] &&
      (!reads_dram || arrived >= fill_touched);
  assign drain_goes = busy && in_blocks && full[drain_half];
  block_walk #(
      .PORT(PORT)
  ) fill_walk (
      .clk,
      .start(begins),
      .first(incoming.source),
      .nest(fill_nest),
      .active(busy && in_blocks),
      .port(straps.port),
      .burst_shift(straps.burst_shift),
      .goes(fill_goes),
      .address(fill_address),
      .lanes(fill_lanes),
      .places(fill_places),
      .block_ends(fill_block_ends),
      .copy_ends(fill_ends),
      .touched(fill_touched),
      .finished(fill_finished)
  );
  block_walk #(
      .PORT(PORT)
  ) drain_walk (
      .clk,
      .start(begins),
      .first(incoming.target),
      .nest(drain_nest),
      .active(busy && in_blocks),
      .port(straps.port),
      .burst_shift(straps.burst_shift),
      .goes(drain_goes),
      .address(drain_address),
      .lanes(drain_lanes),
      .places(drain_places),
      .block_ends(drain_block_ends),
      .copy_ends(drain_ends),
      .touched(drain_touched),
      .finished(drain_finished)
  );

  localparam logic [1:0] CLAMPED = 2;  // the value of the field `bounds`

  // The row that an index of the list says.
  function automatic wide_address_t chosen(position_t at);
    automatic logic [3:0][31:0] sizes = {
      32'(g.limit3) + 1, 32'(g.limit2) + 1, 32'(g.limit1) + 1, 32'(g.limit0) + 1
    };
    automatic count_t width = g.index_type ? 8 : 4;
    automatic count_t place, row = 0, table_rows = 1;
    place = (at.index[0] * (32'(g.rows) + 1) + at.index[2]) * (32'(g.entries) + 1) * width;
    for (int k = 0; k < 4; k++) begin
      if (k <= 32'(g.entries)) begin
        automatic logic signed [63:0] number;
        automatic logic signed [63:0] last = 64'(sizes[k]) - 1 - (k == 32'(g.entries) ? 64'(g.span) : 0);
        for (int byte_ = 0; byte_ < 8; byte_++)
          number[8*byte_+:8] = buffer[$clog2(2*HALF)'(place+count_t'(k)*width+count_t'(byte_))];
        if (!g.index_type) number = 64'(signed'(number[31:0]));
        if (g.bounds == CLAMPED) number = number < 0 ? 0 : number > last ? last : number;
        else if (number < 0) number = number + 64'(sizes[k]);
        row = row * sizes[k] + 32'(number);
        table_rows = table_rows * sizes[k];
      end
    end
    return (g.scatter ? g.target : g.source) +
        36'((at.index[0] * (32'(g.repeats) + 1) + at.index[1]) * table_rows + row) * 36'(g.size);
  endfunction

  // The bytes of this cycle.
  always_comb begin
    source_address = in_blocks ? fill_address
        : (rows_leg && !g.scatter ? chosen(beat_at) : beat_at.source) + 36'(beat_offset);
    target_address = in_blocks ? drain_address
        : (rows_leg && g.scatter ? chosen(beat_at) : beat_at.target) + 36'(beat_offset);
    for (int p = 0; p < PORT; p++) begin
      automatic logic straight = beat_goes && count_t'(p) < beat_bytes;
      read[p] = (straight && !c.fill) || (fill_goes && fill_lanes[p]);
      write[p] = (straight && !list_leg) || (drain_goes && drain_lanes[p]);
      write_data[p] = !in_blocks ? (c.fill ? c.value : read_data[p])
          : buffer[$clog2(2*HALF)'(drain_places[p]+(drain_half?HALF:0))];
    end
  end
  always_ff @(posedge clk) begin
    for (int p = 0; p < PORT; p++) begin
      if (fill_goes && fill_lanes[p]) begin
        buffer[$clog2(2*HALF)'(fill_places[p]+(fill_half?HALF:0))] <= read_data[p];
      end
      if (list_leg && beat_goes && count_t'(p) < beat_bytes) begin
        buffer[$clog2(2*HALF)'(beat_offset+count_t'(p))] <= read_data[p];
      end
    end
  end

  // Bursts asked for: the next run that does not end in the burst of the one before.
  position_t burst_at, burst_next_at;
  wide_address_t burst_now, burst_next, burst_end;
  count_t transferred;
  logic bursts_left, no_more;
  function automatic wide_address_t first_burst(position_t at);
    return (reads_dram ? at.source : at.target) >> straps.burst_shift;
  endfunction
  function automatic wide_address_t last_burst(position_t at);
    return ((reads_dram ? at.source : at.target) + 36'(burst_loops.run) - 1) >> straps.burst_shift;
  endfunction
  always_comb begin
    automatic logic carry = 0;
    automatic logic found = 0;
    burst_end = last_burst(burst_at);
    burst_next_at = burst_at;
    burst_next = burst_now + 1;
    no_more = 0;
    if (burst_now == burst_end) begin
      for (int k = 0; k < SKIPS; k++) begin
        if (!found && !no_more) begin
          burst_next_at = after(burst_next_at, burst_loops, carry);
          no_more = carry;
          burst_next = first_burst(burst_next_at);
          if (burst_next == burst_now) burst_next = burst_next + 1;
          found = burst_next <= last_burst(burst_next_at);
        end
      end
    end
    request.valid = busy && uses_dram && bursts_left && clock_count >= straps.setup_cycles;
    request.row = 32'(burst_now >> straps.row_shift);
    request.last = no_more;
    request.goes_on = behind_found;
    request.row_behind = 32'(burst_behind >> straps.row_shift);
    request.last_of_grant = no_more || (burst_next >> straps.grant_shift) != (burst_now >> straps.grant_shift);
    request.ready = reads_dram ? 2 : complete - transferred;
  end

  // The first burst behind the row of this one.
  wide_address_t burst_behind;
  logic behind_found;
  always_comb begin
    automatic position_t at = burst_at;
    automatic wide_address_t row_end = ((burst_now >> straps.row_shift) + 1) << straps.row_shift;
    automatic logic carry = 0;
    burst_behind = row_end;
    behind_found = last_burst(at) >= row_end;
    while (!behind_found && !carry && bursts_left) begin
      at = after(at, burst_loops, carry);
      if (!carry) begin
        // What of a run lies in the row is passed over.
        burst_behind = first_burst(at) >> straps.row_shift == burst_now >> straps.row_shift ? row_end : first_burst(at);
        behind_found = last_burst(at) >= row_end || burst_behind != row_end;
      end
    end
  end

  // What comes back: a burst `latency - slack` cycles after its transfer, the end of the transfer after `latency`.
  logic [LATENCY:0] coming, ending;
  count_t handover;
  logic lands, ended_now, ended;
  assign handover = straps.latency_cycles > straps.slack ? straps.latency_cycles - straps.slack : 0;
  assign lands = handover == 0 ? burst_done : coming[handover-1];
  assign ended_now = straps.latency_cycles == 0 || writes_dram ? burst_done && request.last
                                                               : ending[straps.latency_cycles-1];

  logic last_beat;
  assign last_beat = in_blocks ? drain_goes && drain_ends : beat_goes && run_ends && last_run;
  assign leg_ends = busy && (!beats_left || last_beat) && (!uses_dram || ended || ended_now);
  assign done = leg_ends && !list_leg;

  always_ff @(posedge clk) begin
    coming <= {coming[LATENCY-1:0], burst_done && reads_dram};
    ending <= {ending[LATENCY-1:0], burst_done && reads_dram && request.last};
    if (reset) begin
      busy   <= 0;
      coming <= '0;
      ending <= '0;
    end else if (begins) begin
      busy <= 1;
      full <= '0;
      fill_half <= 0;
      drain_half <= 0;
      fill_left <= 1;
      clock_count <= 0;
      beats_left <= 1;
      bursts_left <= 1;
      beat_at <= '{index: '0, source: incoming.source, target: incoming.target};
      burst_at <= '{index: '0, source: incoming.source, target: incoming.target};
      burst_now <= (incoming.source_space && !incoming.fill ? incoming.source : incoming.target) >>
          straps.burst_shift;
      beat_offset <= 0;
      burst_number <= 0;
      arrived <= 0;
      complete <= 0;
      transferred <= 0;
      ended <= 0;
    end else if (busy) begin
      clock_count <= clock_count + 1;
      if (done) busy <= 0;
      if (beat_goes) begin
        burst_number <= touched_number;
        burst_touched <= burst_of_last;
        complete <= (run_ends && last_run) || burst_of_next != burst_of_last ? touched_number : touched_number - 1;
        if (!run_ends) beat_offset <= beat_offset + beat_bytes;
        else begin
          beat_offset <= 0;
          beat_at <= beat_next;
        end
      end
      if (fill_goes && fill_block_ends) begin
        full[fill_half] <= 1;
        fill_half <= !fill_half;
        if (fill_ends) fill_left <= 0;
      end
      if (drain_goes) begin
        complete <= drain_finished;
        if (drain_block_ends) begin
          full[drain_half] <= 0;
          drain_half <= !drain_half;
        end
      end
      if (last_beat) beats_left <= 0;
      if (burst_done) begin
        transferred <= transferred + 1;
        burst_now <= burst_next;
        burst_at <= burst_next_at;
        if (no_more) bursts_left <= 0;
      end
      if (lands) arrived <= arrived + 1;
      if (ended_now) ended <= 1;
    end
  end
endmodule
