// Normalization of rows in the vector unit: statistics of up to HELD rows, their inverse roots, then the results.
//
// Lanes take adjacent elements of a row. Their sums are added from the first lane to the last. A lane takes the root of
// one row. For each group of elements, lanes load factor and addend once, a byte a cycle, for all rows that are held.
`timescale 1ns / 1ps

module normal_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import npu_reals::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                   clk,
    input  logic                   reset,
    input  count_t                 lanes,
    input  count_t                 startup_cycles,
    input  count_t                 exp_cycles,
    input  count_t                 moment_cycles,
    input  count_t                 fused_cycles,
    input  count_t                 dequantise_cycles,
    input  count_t                 literal_cycles,
    input  logic                   start,
    input  logic     [575:0]       word,
    output logic                   done,
    // Scratchpad ports of a byte per lane: data comes in the cycle of the address.
    output logic     [LANES-1:0]   read,
    output address_t [LANES-1:0]   read_address,
    input  code_t    [LANES-1:0]   read_data,
    output logic     [LANES-1:0]   write,
    output address_t [LANES-1:0]   write_address,
    output code_t    [LANES-1:0]   write_data
);
  localparam int HELD = NORMALIZE_HELD_ROWS;
  localparam int PARAMETER_BYTES = 8;

  typedef enum logic [2:0] {SUM, SQUARES, MOMENTS, ROOT, LOAD, RESULT} phase_t;

  logic [575:0] held;
  normalize_t i;
  always_ff @(posedge clk) if (start) held <= word;
  assign i = normalize_t'(held[VECTOR_OFFSET+:$bits(normalize_t)]);

  logic busy;
  phase_t phase, first_phase;
  count_t waiting, stayed, stays, base, row, first, byte_number, held_rows;
  logic of_row, last_row, last_group, last_block, ends, begins;
  assign first_phase = i.fused ? MOMENTS : i.function_ == 0 ? SUM : SQUARES;
  assign held_rows = 32'(i.rows) - base < HELD ? 32'(i.rows) - base : HELD;
  assign of_row = phase == SUM || phase == SQUARES || phase == MOMENTS || phase == RESULT;
  assign last_row = phase == ROOT ? row + lanes >= held_rows : row + 1 == held_rows;
  assign last_group = first + lanes >= 32'(i.depth);
  assign last_block = base + held_rows == 32'(i.rows);
  assign begins = busy && waiting == 0 && stayed == 0;
  assign ends = busy && waiting == 0 && stayed + 1 == stays;
  assign done = ends && phase == RESULT && last_row && last_group && last_block;

  always_comb begin
    case (phase)
      SUM: stays = dequantise_cycles;
      SQUARES: stays = dequantise_cycles + fused_cycles;
      MOMENTS: stays = moment_cycles;
      ROOT: stays = exp_cycles;
      LOAD: stays = PARAMETER_BYTES;
      default: stays = i.fused ? fused_cycles : literal_cycles;
    endcase
  end

  always_ff @(posedge clk) begin
    if (reset) busy <= 0;
    else if (start) begin
      busy <= 1;
      waiting <= startup_cycles;
      stayed <= 0;
      base <= 0;
      row <= 0;
      first <= 0;
      phase <= word_phase(word);
    end else if (busy && waiting != 0) waiting <= waiting - 1;
    else if (busy && !ends) stayed <= stayed + 1;
    else if (busy) begin
      stayed <= 0;
      case (phase)
        ROOT: begin
          row <= last_row ? 0 : row + lanes;
          if (last_row) phase <= LOAD;
        end
        LOAD: phase <= RESULT;
        RESULT: begin
          row <= last_row ? 0 : row + 1;
          if (last_row) begin
            first <= last_group ? 0 : first + lanes;
            phase <= last_group ? first_phase : LOAD;
            if (last_group) base <= base + HELD;
            if (last_group && last_block) busy <= 0;
          end
        end
        default: begin
          first <= last_group ? 0 : first + lanes;
          if (last_group) begin
            row <= last_row ? 0 : row + 1;
            if (last_row) phase <= phase == SUM ? SQUARES : ROOT;
          end
        end
      endcase
    end
  end

  function automatic phase_t word_phase(input logic [575:0] w);
    normalize_t n = normalize_t'(w[VECTOR_OFFSET+:$bits(normalize_t)]);
    return n.fused ? MOMENTS : n.function_ == 0 ? SUM : SQUARES;
  endfunction

  // Of the rows that are held: sums, sums of squares, and what the root leaves.
  wide_t sums[HELD], squares[HELD], factors[HELD];
  code_t [LANES-1:0] element, element_held;
  logic [LANES-1:0][PARAMETER_BYTES-1:0][7:0] parameters;
  logic [LANES-1:0] used;
  assign byte_number = stayed;

  always_comb begin
    for (int lane = 0; lane < LANES; lane++) begin
      used[lane] = 32'(lane) < lanes && first + 32'(lane) < 32'(i.depth);
      read[lane] = used[lane] && busy && waiting == 0 && (of_row && begins || phase == LOAD);
      read_address[lane] = phase == LOAD
          ? i.table_ + address_t'(PARAMETER_BYTES * (first + 32'(lane)) + byte_number)
          : i.input_ + address_t'((base + row) * 32'(i.depth) + first + 32'(lane));
      element[lane] = begins ? read_data[lane] : element_held[lane];
      write[lane] = used[lane] && ends && phase == RESULT;
      write_address[lane] = i.output_ + address_t'((base + row) * 32'(i.depth) + first + 32'(lane));
      write_data[lane] = 8'(normal_result(32'(i.fused), 32'(extended(element[lane], i.input_signed)), sums[row[3:0]],
                                          factors[row[3:0]], parameters[lane][3:0], parameters[lane][7:4],
                                          i.input_scale, 32'(i.input_zero), i.output_scale, 32'(i.output_zero),
                                          32'(i.low), 32'(i.high), i.signed_ ? -128 : 0));
    end
  end

  always_ff @(posedge clk) begin
    wide_t sum, square;
    if (begins && of_row) element_held <= read_data;
    if (busy && waiting == 0 && phase == LOAD)
      for (int lane = 0; lane < LANES; lane++) parameters[lane][byte_number[2:0]] <= read_data[lane];
    if (ends && (phase == SUM || phase == MOMENTS || phase == SQUARES)) begin
      sum = first == 0 && phase != SQUARES ? 0 : sums[row[3:0]];
      square = first == 0 ? 0 : squares[row[3:0]];
      if (first == 0 && phase == SQUARES && i.function_ == 1) sum = 0;
      for (int lane = 0; lane < LANES; lane++) begin
        if (used[lane] && phase != SQUARES && i.function_ == 0)
          sum = normal_sum(32'(i.fused), sum, 32'(extended(element[lane], i.input_signed)), i.input_scale,
                           32'(i.input_zero));
        if (used[lane] && phase != SUM)
          square = normal_square(32'(i.fused), square, 32'(extended(element[lane], i.input_signed)), sum,
                                 i.input_scale, 32'(i.input_zero));
      end
      if (phase == SUM && last_group) sum = normal_mean(sum, 32'(i.depth));
      sums[row[3:0]] <= sum;
      squares[row[3:0]] <= square;
    end
    if (ends && phase == ROOT)
      for (int lane = 0; lane < LANES; lane++)
        if (32'(lane) < lanes && row + 32'(lane) < held_rows)
          factors[4'(row+32'(lane))] <= normal_root(32'(i.fused), sums[4'(row+32'(lane))], squares[4'(row+32'(lane))],
                                                    32'(i.depth), i.input_scale, i.epsilon);
  end
endmodule
