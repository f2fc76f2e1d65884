// The scratchpad banks that an instruction touches, walked run by run from the fields of its word.
`timescale 1ns / 1ps

module bank_decoder
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
(
    input  logic           enable,
    input  logic   [575:0] word,
    input  count_t         bank_bytes,
    output banks_t         banks        // none unless enabled
);
  // A region: size bytes, repeated along up to three strides.
  typedef struct packed {
    wide_address_t       address;
    count_t        [2:0] counts;
    wide_address_t [2:0] strides;
    count_t              size;
  } region_t;

  function automatic banks_t touched(region_t region);
    banks_t found = '0;
    for (count_t i = 0; i < region.counts[0]; i++)
    for (count_t j = 0; j < region.counts[1]; j++)
    for (count_t k = 0; k < region.counts[2]; k++) begin
      wide_address_t first = region.address + 36'(i) * region.strides[0] + 36'(j) * region.strides[1] +
          36'(k) * region.strides[2];
      wide_address_t last = first + 36'(region.size) - 1;
      for (wide_address_t bank = first / 36'(bank_bytes); bank <= last / 36'(bank_bytes); bank++) begin
        found[$clog2(BANKS)'(bank)] = 1;
      end
    end
    return found;
  endfunction

  function automatic region_t dense(count_t address, count_t size);
    return '{address: 36'(address), counts: {3{32'd1}}, strides: '0, size: size};
  endfunction

  function automatic region_t map(count_t address, count_t height, count_t width, count_t depth, count_t row_stride,
                                  count_t pixel_stride);
    return '{
        address: 36'(address),
        counts: {32'd1, width, height},
        strides: {36'd0, 36'(pixel_stride), 36'(row_stride)},
        size: depth
    };
  endfunction

  // A stride with its sign.
  function automatic wide_address_t towards(logic backward, logic [31:0] stride);
    return backward ? -36'(stride) : 36'(stride);
  endfunction

  copy_t copy;
  gather_t gather;
  window_t window;
  binary_t binary;
  select_t choice;
  pool_t pool;
  reduce_t reduce;
  convert_t convert;
  lookup_t lookup;
  assign copy = copy_t'(word[COPY_OFFSET+:$bits(copy_t)]);
  assign gather = gather_t'(word[COPY_OFFSET+:$bits(gather_t)]);
  assign window = window_t'(word[WINDOW_OFFSET+:$bits(window_t)]);
  assign choice = select_t'(word[VECTOR_OFFSET+:$bits(select_t)]);
  assign binary = binary_t'(word[VECTOR_OFFSET+:$bits(binary_t)]);
  assign pool = pool_t'(word[VECTOR_OFFSET+:$bits(pool_t)]);
  assign reduce = reduce_t'(word[VECTOR_OFFSET+:$bits(reduce_t)]);
  assign convert = convert_t'(word[VECTOR_OFFSET+:$bits(convert_t)]);
  assign lookup = lookup_t'(word[VECTOR_OFFSET+:$bits(lookup_t)]);

  function automatic banks_t of_copy();
    banks_t found = '0;
    count_t [2:0] counts = {32'(copy.count2) + 1, 32'(copy.count1) + 1, 32'(copy.count0) + 1};
    if (copy.source_space == 0 && copy.fill == 0)
      found |= touched('{
          address: copy.source,
          counts: counts,
          strides: {
              towards(copy.backward[2], copy.source_stride2),
              towards(copy.backward[1], copy.source_stride1),
              towards(copy.backward[0], copy.source_stride0)
          },
          size: 32'(copy.size)
      });
    if (copy.target_space == 0)
      found |= touched('{
          address: copy.target,
          counts: counts,
          strides: {36'(copy.target_stride2), 36'(copy.target_stride1), 36'(copy.target_stride0)},
          size: 32'(copy.size)
      });
    return found;
  endfunction

  function automatic banks_t of_gather();
    banks_t found = '0;
    count_t batches = 32'(gather.batches) + 1, repeats = 32'(gather.repeats) + 1, rows = 32'(gather.rows) + 1;
    count_t numbers = batches * rows * (32'(gather.entries) + 1);
    count_t table_rows = 32'(gather.limit0) + 1;
    if (gather.entries > 0) table_rows = table_rows * (32'(gather.limit1) + 1);
    if (gather.entries > 1) table_rows = table_rows * (32'(gather.limit2) + 1);
    if (gather.entries > 2) table_rows = table_rows * (32'(gather.limit3) + 1);
    if (gather.index_space == 0) found |= touched(dense(32'(gather.index), numbers * (gather.index_type ? 8 : 4)));
    if ((gather.scatter ? gather.target_space : gather.source_space) == 0)
      found |= touched(dense(32'(gather.scatter ? gather.target : gather.source),
                             batches * repeats * table_rows * 32'(gather.size)));
    if ((gather.scatter ? gather.source_space : gather.target_space) == 0)
      found |= touched('{
          address: gather.scatter ? gather.source : gather.target,
          counts: {32'd1, 32'd1, batches * repeats},
          strides: {36'd0, 36'd0, 36'(gather.dense_stride)},
          size: rows * (32'(gather.span) + 1) * 32'(gather.size)
      });
    return found;
  endfunction

  function automatic banks_t of_window(logic depthwise);
    count_t channels = 32'(window.ofm_depth);
    count_t taps = 32'(window.kernel_height) * 32'(window.kernel_width);
    count_t weights = taps * channels * (depthwise ? 1 : 32'(window.ifm_depth));
    count_t results = channels << (depthwise ? 0 : word[CONVOLVE_WIDE_OFFSET+:CONVOLVE_WIDE_BITS]);
    count_t parameters = window.per_channel ? 9 * channels : 4 * channels + 5;
    return touched(dense(32'(window.weights), weights)) | touched(dense(32'(window.parameters), parameters)) |
        touched(map(32'(window.ifm), 32'(window.ifm_height), 32'(window.ifm_width), 32'(window.ifm_depth),
                    32'(window.ifm_row_stride), 32'(window.ifm_pixel_stride))) |
        touched(map(32'(window.ofm), 32'(window.ofm_height), 32'(window.ofm_width), results,
                    32'(window.ofm_row_stride), 32'(window.ofm_pixel_stride)));
  endfunction

  function automatic banks_t of_binary();
    count_t rows = 32'(binary.rows), columns = 32'(binary.columns);
    return touched(dense(32'(binary.output_), rows * columns)) |
        touched(map(32'(binary.a), rows, 1, binary.a_column_stride ? columns : 1, 32'(binary.a_row_stride), 0)) |
        touched(map(32'(binary.b), rows, 1, binary.b_column_stride ? columns : 1, 32'(binary.b_row_stride), 0));
  endfunction

  function automatic banks_t of_select();
    count_t rows = 32'(choice.rows), columns = 32'(choice.columns);
    return touched(dense(32'(choice.output_), rows * columns)) |
        touched(map(32'(choice.condition), rows, 1, choice.condition_column_stride ? columns : 1,
                    32'(choice.condition_row_stride), 0)) |
        touched(map(32'(choice.a), rows, 1, choice.a_column_stride ? columns : 1, 32'(choice.a_row_stride), 0)) |
        touched(map(32'(choice.b), rows, 1, choice.b_column_stride ? columns : 1, 32'(choice.b_row_stride), 0));
  endfunction

  function automatic banks_t of_pool();
    count_t depth = 32'(pool.depth);
    return touched(map(32'(pool.ifm), 32'(pool.ifm_height), 32'(pool.ifm_width), depth,
                       32'(pool.ifm_row_stride), depth)) |
        touched(map(32'(pool.ofm), 32'(pool.ofm_height), 32'(pool.ofm_width), depth,
                    32'(pool.ofm_row_stride), depth));
  endfunction

  function automatic banks_t of_reduce();
    count_t results = 32'(reduce.outer) * 32'(reduce.middle) * 32'(reduce.inner);
    return touched(dense(32'(reduce.input_), results * 32'(reduce.parts) * 32'(reduce.count))) |
        touched(dense(32'(reduce.output_), results * result_bytes(word)));
  endfunction

  function automatic banks_t of_convert();
    return touched(dense(32'(convert.input_), 32'(convert.size))) |
        touched(dense(32'(convert.output_), 32'(convert.size)));
  endfunction

  function automatic banks_t of_lookup();
    return touched(dense(32'(lookup.input_), 32'(lookup.size))) |
        touched(dense(32'(lookup.output_), 32'(lookup.size) << lookup.entry)) |
        touched(dense(32'(lookup.table_), 32'd256 << lookup.entry));
  endfunction

  always_comb begin
    banks = '0;
    if (enable) begin
      case (word[7:0])
        COPY_OPCODE: banks = of_copy();
        GATHER_OPCODE: banks = of_gather();
        CONVOLVE_OPCODE, DEPTHWISE_OPCODE: banks = of_window(word[7:0] == DEPTHWISE_OPCODE);
        BINARY_OPCODE: banks = of_binary();
        SELECT_OPCODE: banks = of_select();
        POOL_OPCODE: banks = of_pool();
        REDUCE_OPCODE: banks = of_reduce();
        CONVERT_OPCODE: banks = of_convert();
        LOOKUP_OPCODE: banks = of_lookup();
        default: ;
      endcase
    end
  end
endmodule
