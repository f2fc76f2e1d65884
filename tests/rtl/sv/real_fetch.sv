// Walks over the elements of a vector instruction on real numbers, `lanes` at a time, and makes their addresses.
//
// Functions of one operand or two and conversions are one line of elements. A pool and a reduction have a place (an
// output pixel, an outer index) with a line of channels, and for each `lanes` of them the elements of the window, one
// after the other. Elements in the padding of a pool take their turn like all others.
`timescale 1ns / 1ps

module real_fetch
  import npu_types::*;
  import npu_reals::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                   clk,
    input  logic                   reset,
    input  logic                   start,
    input  logic     [575:0]       word,          // of the instruction that runs
    input  count_t                 lanes,
    input  count_t                 source_bytes,  // of an element
    input  count_t                 target_bytes,
    input  logic                   advance,       // the step is taken
    output step_t                  now,
    output logic     [LANES-1:0]   enable,
    output address_t [LANES-1:0]   a_address,
    output address_t [LANES-1:0]   b_address
);
  binary_t binary;
  unary_t unary;
  reduce_t reduce;
  pool_t pool;
  convert_t convert;
  logic [7:0] opcode;
  assign opcode = word[7:0];
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign unary = unary_t'(word[VECTOR_OFFSET+:$bits(unary_t)]);
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign convert = convert_t'(word[VECTOR_OFFSET+:$bits(convert_t)]);

  // Ends of the loops.
  count_t rows, columns, line, window_rows, window_columns;
  always_comb begin
    rows = 1;
    columns = 1;
    window_rows = 1;
    window_columns = 1;
    case (opcode)
      BINARY_OPCODE: line = 32'(binary.rows) * 32'(binary.columns);
      UNARY_OPCODE: line = 32'(unary.size);
      REDUCE_OPCODE: begin
        rows = 32'(reduce.outer);
        line = 32'(reduce.inner);
        window_rows = 32'(reduce.count);
      end
      POOL_OPCODE: begin
        rows = 32'(pool.ofm_height);
        columns = 32'(pool.ofm_width);
        line = 32'(pool.depth);
        window_rows = 32'(pool.kernel_height);
        window_columns = 32'(pool.kernel_width);
      end
      default: line = 32'(convert.size);
    endcase
  end

  logic busy;
  count_t row, column, element, window_row, window_column;
  place_t place;                // of the first element of two operands' function,
  place_t [LANES-1:0] places;   // of one for each lane, and of the first one behind
  place_t next_place;
  coordinate_t ifm_row, ifm_column;
  logic row_ends, window_ends, line_ends, column_ends, all_ends;

  always_comb begin
    automatic place_t at = place;
    next_place = place;
    for (int lane = 0; lane < LANES; lane++) begin
      places[lane] = at;
      if (at.column + 1 == 32'(binary.columns)) at = '{row: at.row + 1, column: 0};
      else at.column = at.column + 1;
      if (count_t'(lane) + 1 == lanes) next_place = at;
    end
  end

  always_comb begin
    row_ends = window_column + 1 == window_columns;
    window_ends = row_ends && window_row + 1 == window_rows;
    line_ends = element + lanes >= line;
    column_ends = column + 1 == columns;
    all_ends = window_ends && line_ends && column_ends && row + 1 == rows;
    ifm_row = 32'(row) * 32'(pool.stride_height) - 32'(pool.pad_top) + window_row;
    ifm_column = 32'(column) * 32'(pool.stride_width) - 32'(pool.pad_left) + window_column;
    now.valid = busy;
    now.table_entries = 0;
    now.first = window_row == 0 && window_column == 0;
    now.opens = 0;
    now.last = window_ends;
    now.final_step = all_ends;
    now.used = line - element < lanes ? line - element : lanes;
    now.covered = opcode != POOL_OPCODE || (ifm_row >= 0 && ifm_row < 32'(pool.ifm_height) &&
        ifm_column >= 0 && ifm_column < 32'(pool.ifm_width));
    case (opcode)
      BINARY_OPCODE: now.target = binary.output_ + address_t'(element * target_bytes);
      UNARY_OPCODE: now.target = unary.output_ + address_t'(element * target_bytes);
      REDUCE_OPCODE: now.target = reduce.output_ + address_t'((row * line + element) * target_bytes);
      POOL_OPCODE: now.target = pool.ofm + address_t'(row * 32'(pool.ofm_row_stride)) +
          address_t'((column * line + element) * target_bytes);
      default: now.target = convert.output_ + address_t'(element * target_bytes);
    endcase
    for (int lane = 0; lane < LANES; lane++) begin
      automatic count_t across = element + count_t'(lane);
      enable[lane] = busy && count_t'(lane) < now.used;
      b_address[lane] = binary.b + address_t'(32'(places[lane].row) * 32'(binary.b_row_stride)) +
          (binary.b_column_stride ? address_t'(places[lane].column * source_bytes) : 0);
      case (opcode)
        BINARY_OPCODE:
        a_address[lane] = binary.a + address_t'(32'(places[lane].row) * 32'(binary.a_row_stride)) +
            (binary.a_column_stride ? address_t'(places[lane].column * source_bytes) : 0);
        UNARY_OPCODE: a_address[lane] = unary.input_ + address_t'(across * source_bytes);
        REDUCE_OPCODE:
        a_address[lane] = reduce.input_ +
            address_t'(((row * window_rows + window_row) * line + across) * source_bytes);
        POOL_OPCODE:
        a_address[lane] = pool.ifm + address_t'(ifm_row * 32'(pool.ifm_row_stride)) +
            address_t'((ifm_column * line + across) * source_bytes);
        default: a_address[lane] = convert.input_ + address_t'(across * source_bytes);
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (reset) busy <= 0;
    else if (start) begin
      busy <= 1;
      row <= 0;
      column <= 0;
      element <= 0;
      window_row <= 0;
      window_column <= 0;
      place <= '0;
    end else if (busy && advance) begin
      if (all_ends) busy <= 0;
      window_column <= row_ends ? 0 : window_column + 1;
      if (row_ends) window_row <= window_ends ? 0 : window_row + 1;
      if (window_ends) begin
        element <= line_ends ? 0 : element + lanes;
        place <= next_place;
        if (line_ends) begin
          column <= column_ends ? 0 : column + 1;
          if (column_ends) row <= all_ends ? 0 : row + 1;
        end
      end
    end
  end
endmodule
