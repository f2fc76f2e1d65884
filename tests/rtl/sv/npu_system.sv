// The machine but for the host: front end, DMA channels, MAC and vector unit, DRAM port, both memories.
`timescale 1ns / 1ps

module npu_system
  import npu_types::*;
  import isa_words::*;
#(
    parameter int ROWS = 4,
    parameter int COLUMNS = 4,
    parameter int DEPTH = 64,
    parameter int IFM_PORT = 8,
    parameter int WEIGHT_PORT = 4,
    parameter int LANES = 4,
    parameter int VECTOR_LANES = 8,
    parameter int STAGES = 16,
    parameter int DMA_PORT = 16,
    parameter int SCRATCHPAD_BYTES = 65536,
    parameter int DRAM_BYTES = 262144
) (
    input  logic                     clk,
    input  logic                     reset,
    input  logic     [21+VECTOR_STRAPS:0][31:0] straps,
    input  logic                     start,
    input  logic     [31:0]          code_address,
    input  logic     [31:0]          instructions,
    // What happens at the edge that closes this cycle.
    output logic     [PRODUCERS-1:0] dispatched,
    output logic     [PRODUCERS-1:0] started,
    output logic     [PRODUCERS-1:0] ended,
    output logic                     reached,       // a barrier, by the front end
    output logic                     satisfied,     // its waits
    output logic                     passed
);
  localparam int SCRATCHPAD_BITS = $clog2(SCRATCHPAD_BYTES);
  localparam int DRAM_BITS = $clog2(DRAM_BYTES);
  localparam int CHANNELS = 4;
  localparam int MAC = 4;
  localparam int VECTOR = 5;
  localparam int USERS = VECTOR + 1;  // of the scratchpad
  code_t scratchpad[SCRATCHPAD_BYTES]  /*verilator public_flat_rw*/;
  code_t dram[DRAM_BYTES]  /*verilator public_flat_rw*/;

  straps_t array_straps;
  dram_straps_t dram_straps;
  dma_straps_t dma_straps;
  front_end_straps_t front_end_straps;
  assign array_straps = '{
          shadow: straps[0][0],
          half_accumulators: straps[1],
          ifm_port: straps[2],
          weight_port: straps[3],
          lanes: straps[4]
      };
  assign dram_straps = '{
          miss_cycles: straps[5],
          bank_shift: straps[20+VECTOR_STRAPS],
          numerator: straps[6],
          denominator: straps[7],
          reorder: straps[21+VECTOR_STRAPS]
      };
  assign dma_straps = '{
          setup_cycles: straps[8],
          latency_cycles: straps[9],
          port: straps[10],
          slack: straps[11],
          burst_shift: straps[12],
          row_shift: straps[13],
          grant_shift: straps[14],
          bank_shift: straps[20+VECTOR_STRAPS]
      };
  assign front_end_straps = '{
          queue_depth: straps[15],
          fetch_instructions: straps[16],
          decode_cycles: straps[17]
      };
  vector_straps_t vector_straps;
  for (genvar k = 0; k < VECTOR_STRAPS; k++) assign vector_straps[32*(VECTOR_STRAPS-1-k)+:32] = straps[18+k];

  // Units and their queues.
  logic [PRODUCERS-1:0] room, dispatch, running, done, unit_start;
  logic [PRODUCERS-1:0][575:0] unit_word;
  logic [USERS-1:0] ready, grant;
  banks_t [USERS-1:0] unit_banks;
  banks_t word_banks;
  counts_t completed, counts;
  logic [575:0] word;
  count_t index;
  assign started = unit_start;
  assign ended = done;
  assign dispatched = dispatch;
  always_comb begin
    for (int u = 0; u < PRODUCERS; u++) counts[u] = completed[u] + 24'(done[u]);
    for (int k = 0; k < 72; k++) word[8*k+:8] = dram[DRAM_BITS'(code_address+index*72+32'(k))];
  end
  always_ff @(posedge clk) begin
    if (reset || start) begin
      completed <= '0;
      running <= '0;
    end else begin
      completed <= counts;
      running <= (running & ~done) | unit_start;
    end
  end

  request_t [CHANNELS:0] requests;
  logic [CHANNELS:0] burst_done;
  logic urgent;
  dram_port #(
      .REQUESTERS(CHANNELS + 1)
  ) port (
      .clk,
      .reset(reset || start),
      .straps(dram_straps),
      .requests,
      .urgent,
      .burst_done
  );

  front_end fetch (
      .clk,
      .reset,
      .straps(front_end_straps),
      .dram(dma_straps),
      .start,
      .code_address(36'(code_address)),
      .instructions,
      .request(requests[0]),
      .urgent,
      .burst_done(burst_done[0]),
      .index,
      .word,
      .counts,
      .room,
      .dispatch,
      .reached,
      .satisfied,
      .barrier(passed)
  );

  for (genvar u = 0; u < PRODUCERS; u++) begin : g_unit
    if (u < USERS) begin : g_queue
      unit_queue waiting (
          .clk,
          .reset(reset || start),
          .queue_depth(front_end_straps.queue_depth),
          .dispatch(dispatch[u]),
          .dispatched(word),
          .dispatched_banks(word_banks),
          .room(room[u]),
          .counts,
          .running(running[u]),
          .done(done[u]),
          .ready(ready[u]),
          .grant(grant[u]),
          .word(unit_word[u]),
          .banks(unit_banks[u])
      );
      assign unit_start[u] = grant[u];
    end else begin : g_absent
      assign room[u] = 0;
      assign done[u] = 0;
      assign unit_start[u] = 0;
      assign unit_word[u] = '0;
    end
  end

  // Banks.
  bank_decoder decoder (
      .enable(dispatch != '0),
      .word,
      .bank_bytes(straps[18+VECTOR_STRAPS]),
      .banks(word_banks)
  );
  bank_ports #(
      .USERS(USERS)
  ) arbiter (
      .clk,
      .reset(reset || start),
      .ports(straps[19+VECTOR_STRAPS]),
      .ready,
      .wanted(unit_banks),
      .running(running[USERS-1:0]),
      .done(done[USERS-1:0]),
      .grant
  );

  // DMA.
  logic [CHANNELS-1:0] source_space, target_space;
  wide_address_t [CHANNELS-1:0] source_address, target_address;
  logic [CHANNELS-1:0][DMA_PORT-1:0] dma_read, dma_write;
  code_t [CHANNELS-1:0][DMA_PORT-1:0] dma_read_data, dma_write_data;
  for (genvar u = 0; u < CHANNELS; u++) begin : g_channel
    dma_engine #(
        .PORT(DMA_PORT)
    ) engine (
        .clk,
        .reset,
        .straps(dma_straps),
        .start(unit_start[u]),
        .word(unit_word[u]),
        .done(done[u]),
        .request(requests[u+1]),
        .burst_done(burst_done[u+1]),
        .source_space(source_space[u]),
        .source_address(source_address[u]),
        .read(dma_read[u]),
        .read_data(dma_read_data[u]),
        .target_space(target_space[u]),
        .target_address(target_address[u]),
        .write(dma_write[u]),
        .write_data(dma_write_data[u])
    );
  end

  // MAC array.
  logic [IFM_PORT-1:0] ifm_enable;
  address_t [IFM_PORT-1:0] ifm_address;
  code_t [IFM_PORT-1:0] ifm_data;
  logic [WEIGHT_PORT-1:0] weight_enable;
  address_t [WEIGHT_PORT-1:0] weight_address;
  code_t [WEIGHT_PORT-1:0] weight_data;
  address_t [LANES-1:0][PARAMETERS-1:0] parameter_address;
  parameters_t [LANES-1:0] parameter_data;
  logic [LANES-1:0][3:0] write;
  logic array_active;
  address_t [LANES-1:0] write_address;
  code_t [LANES-1:0][3:0] write_data;
  mac_unit #(
      .ROWS(ROWS),
      .COLUMNS(COLUMNS),
      .DEPTH(DEPTH),
      .IFM_PORT(IFM_PORT),
      .WEIGHT_PORT(WEIGHT_PORT),
      .LANES(LANES)
  ) mac (
      .straps(array_straps),
      .start(unit_start[MAC]),
      .word(unit_word[MAC]),
      .done(done[MAC]),
      .array_active,
      .*
  );

  // Vector unit.
  logic [VECTOR_LANES-1:0] a_enable, b_enable, c_enable, vector_write;
  address_t [VECTOR_LANES-1:0] a_address, b_address, c_address, vector_write_address;
  count_t source_size, target_size;
  element_t [VECTOR_LANES-1:0] a_data, b_data, c_data, vector_write_data;
  vector_unit #(
      .LANES(VECTOR_LANES),
      .STAGES(STAGES)
  ) vector (
      .clk,
      .reset(reset || start),
      .straps(vector_straps),
      .start(unit_start[VECTOR]),
      .word(unit_word[VECTOR]),
      .done(done[VECTOR]),
      .source_size,
      .target_size,
      .a_enable,
      .a_address,
      .a_data,
      .b_enable,
      .b_address,
      .b_data,
      .c_enable,
      .c_address,
      .c_data,
      .write(vector_write),
      .write_address(vector_write_address),
      .write_data(vector_write_data)
  );

  function automatic element_t element(logic enable, address_t address);
    if (!enable) return 0;
    return {source_size == 2 ? scratchpad[SCRATCHPAD_BITS'(address+1)] : 8'd0, scratchpad[SCRATCHPAD_BITS'(address)]};
  endfunction

  always_comb begin
    for (int u = 0; u < CHANNELS; u++) begin
      for (int p = 0; p < DMA_PORT; p++) begin
        dma_read_data[u][p] = !dma_read[u][p] ? 0
            : source_space[u] ? dram[DRAM_BITS'(source_address[u]+36'(p))]
            : scratchpad[SCRATCHPAD_BITS'(source_address[u]+36'(p))];
      end
    end
    for (int lane = 0; lane < VECTOR_LANES; lane++) begin
      a_data[lane] = element(a_enable[lane], a_address[lane]);
      b_data[lane] = element(b_enable[lane], b_address[lane]);
      c_data[lane] = element(c_enable[lane], c_address[lane]);
    end
    for (int p = 0; p < IFM_PORT; p++) begin
      ifm_data[p] = ifm_enable[p] ? scratchpad[SCRATCHPAD_BITS'(ifm_address[p])] : 0;
    end
    for (int p = 0; p < WEIGHT_PORT; p++) begin
      weight_data[p] = weight_enable[p] ? scratchpad[SCRATCHPAD_BITS'(weight_address[p])] : 0;
    end
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < PARAMETERS; k++) begin
        parameter_data[lane][k] = write[lane][0] ? scratchpad[SCRATCHPAD_BITS'(parameter_address[lane][k])] : 0;
      end
    end
  end

  always_ff @(posedge clk) begin
    for (int lane = 0; lane < LANES; lane++) begin
      for (int k = 0; k < 4; k++) begin
        if (write[lane][k]) scratchpad[SCRATCHPAD_BITS'(write_address[lane] + address_t'(k))] <= write_data[lane][k];
      end
    end
    for (int lane = 0; lane < VECTOR_LANES; lane++) begin
      for (int k = 0; k < 2; k++) begin
        if (vector_write[lane] && count_t'(k) < target_size) begin
          scratchpad[SCRATCHPAD_BITS'(vector_write_address[lane]+address_t'(k))] <= vector_write_data[lane][8*k+:8];
        end
      end
    end
    for (int u = 0; u < CHANNELS; u++) begin
      for (int p = 0; p < DMA_PORT; p++) begin
        if (dma_write[u][p]) begin
          if (target_space[u]) dram[DRAM_BITS'(target_address[u]+36'(p))] <= dma_write_data[u][p];
          else scratchpad[SCRATCHPAD_BITS'(target_address[u]+36'(p))] <= dma_write_data[u][p];
        end
      end
    end
  end
endmodule
