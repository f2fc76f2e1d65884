// Walks over the elements of a vector instruction, `lanes` at a time, and makes their addresses.
//
// An elementwise instruction is one line of elements. A look-up begins with the entries of its table. A pool
// has places (output pixels), each with a line of channels, and for each `lanes` of them the elements of the window,
// one after the other. A reduction and a resize are one line of results with such windows. Elements in the padding of a pool take their turn like all others.
`timescale 1ns / 1ps

module vector_fetch
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                   clk,
    input  logic                   reset,
    input  logic                   start,
    input  logic     [575:0]       word,      // of the instruction that runs
    input  logic                   has_table, // of the instruction that starts
    input  count_t                 lanes,
    input  logic                   advance,   // the step is taken
    output step_t                  now,
    output count_t                 source_size, // bytes of an element
    output logic     [LANES-1:0]   enable,
    output address_t [LANES-1:0]   a_address,
    output address_t [LANES-1:0]   b_address,
    output address_t [LANES-1:0]   c_address,
    output sum_t     [LANES-1:0]   share      // of the pixels of a resize
);
  binary_t binary;
  pool_t pool;
  convert_t unary;  // a look-up has the same fields in front
  lookup_t look_up;
  reduce_t reduce;
  resize_t resize;
  logic [7:0] opcode;
  assign opcode = word[7:0];
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign unary = convert_t'(word[VECTOR_OFFSET+:$bits(convert_t)]);
  assign look_up = lookup_t'(word[VECTOR_OFFSET+:$bits(lookup_t)]);
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign resize = resize_t'(word[VECTOR_OFFSET+:$bits(resize_t)]);

  logic pools, by_columns;
  assign pools = opcode == POOL_OPCODE;
  assign by_columns = pools && computes_in_float32(word) && pool.by_columns;

  // The instructions on rows x columns: what they read through each port, in the order of their operands.
  typedef struct packed {
    address_t    address;
    logic [23:0] row_stride;
    logic        column_stride;
  } operand_place_t;
  select_t choice;
  operand_place_t a_operand, b_operand, c_operand;
  address_t grid_output;
  count_t grid_rows, grid_columns;
  assign choice = select_t'(word[VECTOR_OFFSET+:$bits(select_t)]);
  always_comb begin
    a_operand = '{address: binary.a, row_stride: binary.a_row_stride, column_stride: binary.a_column_stride};
    b_operand = '{address: binary.b, row_stride: binary.b_row_stride, column_stride: binary.b_column_stride};
    c_operand = '0;
    grid_output = binary.output_;
    grid_rows = 32'(binary.rows);
    grid_columns = 32'(binary.columns);
    if (opcode == SELECT_OPCODE) begin
      a_operand = '{
          address: choice.condition,
          row_stride: choice.condition_row_stride,
          column_stride: choice.condition_column_stride
      };
      b_operand = '{address: choice.a, row_stride: choice.a_row_stride, column_stride: choice.a_column_stride};
      c_operand = '{address: choice.b, row_stride: choice.b_row_stride, column_stride: choice.b_column_stride};
      grid_output = choice.output_;
      grid_rows = 32'(choice.rows);
      grid_columns = 32'(choice.columns);
    end
  end

  function automatic address_t at_place(operand_place_t operand, place_t at);
    return operand.address + address_t'(32'(at.row) * 32'(operand.row_stride)) +
        (operand.column_stride ? address_t'(32'(at.column) * source_bytes(word)) : 0);
  endfunction

  // Ends of the loops.
  count_t rows, columns, line, window_rows, window_columns;
  always_comb begin
    rows = 1;
    columns = 1;
    window_rows = 1;
    window_columns = 1;
    case (opcode)
      BINARY_OPCODE, SELECT_OPCODE: line = grid_rows * grid_columns;
      POOL_OPCODE: begin
        rows = 32'(pool.ofm_height);
        columns = 32'(pool.ofm_width);
        line = 32'(pool.depth);
        window_rows = 32'(pool.kernel_height);
        window_columns = 32'(pool.kernel_width);
      end
      REDUCE_OPCODE: begin
        line = 32'(reduce.outer) * 32'(reduce.middle) * 32'(reduce.inner);
        window_rows = 32'(reduce.parts);
        window_columns = 32'(reduce.count);
      end
      RESIZE_OPCODE: begin
        line = 32'(resize.ofm_height) * 32'(resize.ofm_width) * 32'(resize.depth);
        window_rows = resize.bilinear ? 2 : 1;
        window_columns = resize.bilinear ? 2 : 1;
      end
      LOOKUP_OPCODE:
      if (look_up.int16 == 0) line = (table_entries ? 256 : 32'(unary.size)) << look_up.entry;
      else if (!table_entries) line = 32'(unary.size);
      else line = 32'(look_up.int16) == TABLE_INTERPOLATED ? 2 * 513 : 2 * 256;
      default: line = 32'(unary.size);
    endcase
  end

  logic busy, table_entries;
  count_t row, column, element, window_row, window_column;
  place_t place;                // of an elementwise instruction's first element,
  place_t [LANES-1:0] places;   // of one for each lane, and of the first one behind
  place_t next_place;
  coordinate_t ifm_row, ifm_column;
  logic row_ends, window_ends, line_ends, column_ends, all_ends;

  always_comb begin
    automatic place_t at = place;
    next_place = place;
    for (int lane = 0; lane < LANES; lane++) begin
      places[lane] = at;
      if (at.column + 1 == grid_columns) at = '{row: at.row + 1, column: 0};
      else at.column = at.column + 1;
      if (count_t'(lane) + 1 == lanes) next_place = at;
    end
  end

  address_t [LANES-1:0] reduced;
  reduce_places #(
      .LANES(LANES)
  ) reduce_walk (
      .clk,
      .start,
      .next(busy && advance && window_ends),
      .word,
      .lanes,
      .part(window_row),
      .index(window_column),
      .address(reduced)
  );

  address_t [LANES-1:0] resized;
  resize_places #(
      .LANES(LANES)
  ) resize_walk (
      .clk,
      .start,
      .next(busy && advance && window_ends),
      .word,
      .lanes,
      .behind_row(window_row[0]),
      .behind_column(window_column[0]),
      .address(resized),
      .share
  );

  always_comb begin
    row_ends = by_columns ? window_row + 1 == window_rows : window_column + 1 == window_columns;
    window_ends = row_ends && (by_columns ? window_column + 1 == window_columns : window_row + 1 == window_rows);
    line_ends = element + lanes >= line;
    column_ends = column + 1 == columns;
    all_ends = window_ends && line_ends && column_ends && row + 1 == rows;
    ifm_row = 32'(row) * 32'(pool.stride_height) - 32'(pool.pad_top) + window_row;
    ifm_column = 32'(column) * 32'(pool.stride_width) - 32'(pool.pad_left) + window_column;
    source_size = table_entries ? 1 : source_bytes(word);
    now.valid = busy;
    now.table_entries = table_entries;
    now.first = window_row == 0 && window_column == 0;
    now.opens = window_row == 0;
    now.last = window_ends;
    now.final_step = all_ends && !table_entries;
    now.used = line - element < lanes ? line - element : lanes;
    now.covered = !pools || (ifm_row >= 0 && ifm_row < 32'(pool.ifm_height) &&
        ifm_column >= 0 && ifm_column < 32'(pool.ifm_width));
    case (opcode)
      BINARY_OPCODE, SELECT_OPCODE: now.target = grid_output + address_t'(element * target_bytes(word));
      POOL_OPCODE: now.target = pool.ofm + address_t'(row * 32'(pool.ofm_row_stride)) +
          address_t'((column * line + element) * source_size);
      RESIZE_OPCODE: now.target = resize.output_ + address_t'(element);
      REDUCE_OPCODE: now.target = reduce.output_ + address_t'(element * result_bytes(word));
      default: now.target = table_entries ? address_t'(element) : unary.output_ + address_t'(element * target_bytes(word));
    endcase
    for (int lane = 0; lane < LANES; lane++) begin
      automatic address_t across = address_t'((element + count_t'(lane)) * source_size);
      enable[lane] = busy && count_t'(lane) < now.used;
      b_address[lane] = at_place(b_operand, places[lane]);
      c_address[lane] = at_place(c_operand, places[lane]);
      case (opcode)
        BINARY_OPCODE, SELECT_OPCODE: a_address[lane] = at_place(a_operand, places[lane]);
        POOL_OPCODE: a_address[lane] = pool.ifm + address_t'(ifm_row * 32'(pool.ifm_row_stride)) +
            address_t'((ifm_column * line) * source_size) + across;
        REDUCE_OPCODE: a_address[lane] = reduced[lane];
        RESIZE_OPCODE: a_address[lane] = resized[lane];
        LOOKUP_OPCODE:
        a_address[lane] = table_entries ? look_up.table_ + across
            : unary.input_ + (across >> (look_up.int16 != 0 ? 0 : look_up.entry));
        default: a_address[lane] = unary.input_ + across;
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (reset) busy <= 0;
    else if (start) begin
      busy <= 1;
      table_entries <= has_table;
      row <= 0;
      column <= 0;
      element <= 0;
      window_row <= 0;
      window_column <= 0;
      place <= '0;
    end else if (busy && advance) begin
      if (all_ends && !table_entries) busy <= 0;
      table_entries <= table_entries && !all_ends;
      if (by_columns) begin
        window_row <= row_ends ? 0 : window_row + 1;
        if (row_ends) window_column <= window_ends ? 0 : window_column + 1;
      end else begin
        window_column <= row_ends ? 0 : window_column + 1;
        if (row_ends) window_row <= window_ends ? 0 : window_row + 1;
      end
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
