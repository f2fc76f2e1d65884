// The step of LSTM cells in the vector unit: a lane takes a cell through the functions of its gates one after the other,
// then through the products that make its state and its output.
//
// A lane has one unit for exponentials and reciprocals and one multiplier. Sums come through a port of six bytes per
// lane when their gate begins, the state when it is multiplied; the last cycle of a cell writes its three bytes.
`timescale 1ns / 1ps

module cell_unit
  import npu_types::*;
  import npu_arithmetic::*;
  import isa_words::*;
#(
    parameter int LANES = 8
) (
    input  logic                        clk,
    input  logic                        reset,
    input  count_t                      lanes,
    input  count_t                      startup_cycles,
    input  count_t                      exp_cycles,
    input  count_t                      mul_cycles,
    input  logic                        start,
    input  logic     [575:0]            word,
    output logic                        done,
    // Scratchpad ports: data comes in the cycle of the address.
    output logic     [LANES-1:0][5:0]   read,           // a word of 2 bytes, and 4 of what is added to it
    output address_t [LANES-1:0][5:0]   read_address,
    input  code_t    [LANES-1:0][5:0]   read_data,
    output logic     [LANES-1:0]        write,
    output address_t [LANES-1:0]        state_address,
    output code_t    [LANES-1:0][1:0]   state_data,
    output address_t [LANES-1:0]        output_address,
    output code_t    [LANES-1:0]        output_data
);
  typedef logic signed [31:0] number_t;
  typedef logic signed [63:0] wide_t;

  // Words of 16 bits without integer bits, but for the two of the reciprocal, which have 2.
  localparam number_t ONE = 32767, THIRD = 10923, EXP_EIGHTH = 28918, START = 23130, SLOPE = -15420;
  localparam number_t FACTORS[11] = '{25520, 19875, 12055, 4435, 600, 11, 0, 0, 0, 0, 0};

  function automatic number_t clamp16(number_t v);
    return v > 32767 ? 32767 : v < -32768 ? -32768 : v;
  endfunction

  function automatic number_t times(number_t a, number_t b);  // halves up
    return 32'((wide_t'(a) * wide_t'(b) + 64'sd16384) >>> 15);
  endfunction

  function automatic number_t rounded(wide_t v, int places);  // halves away from zero
    wide_t half = places == 0 ? 64'sd0 : 64'sd1 <<< (places - 1);
    return v < 0 ? -32'((half - v) >>> places) : 32'((v + half) >>> places);
  endfunction

  // exp of a word <= 0 with so many integer bits.
  function automatic number_t exponential(number_t x, int integer_bits);
    int place = 13 - integer_bits;  // of 1/4
    number_t quarter = 32'sd1 <<< place;
    number_t below = (x & (quarter - 1)) - quarter;
    number_t t = (below <<< integer_bits) + 4096;
    number_t square = times(t, t);
    number_t cubic = times(rounded(wide_t'(times(square, square)), 2) + times(square, t), THIRD);
    number_t result = EXP_EIGHTH + times(t + rounded(wide_t'(cubic) + wide_t'(square), 1), EXP_EIGHTH);
    number_t quarters = (below - x) >>> place;
    if (result > ONE) result = ONE;
    for (int k = 0; k < integer_bits + 2; k++) if (quarters[k]) result = times(result, FACTORS[k]);
    return x == 0 ? ONE : result;
  endfunction

  // 2 / (1 + x) with 2 integer bits.
  function automatic number_t reciprocal(number_t x);
    number_t half = (x + ONE + 1) >>> 1;
    number_t guess = START + times(half, SLOPE);
    for (int k = 0; k < 3; k++) guess = guess + clamp16(times(guess, 8192 - times(half, guess)) <<< 2);
    return guess;
  endfunction

  logic [575:0] held;
  lstm_t i;
  always_ff @(posedge clk) if (start) held <= word;
  assign i = lstm_t'(held[VECTOR_OFFSET+:$bits(lstm_t)]);

  // Operations of a cell: exponential and reciprocal of each gate, what is kept, what comes, exponential and reciprocal
  // of the state, the output.
  logic busy;
  count_t waiting, operation, stayed, first, gates, elements, last_operation, stays;
  logic of_gates, multiplies, begins, ends, last_group;
  assign gates = i.coupled ? 3 : 4;
  assign elements = 32'(i.rows) * 32'(i.cells);
  assign last_operation = 2 * gates + 4;
  assign of_gates = operation < 2 * gates;
  assign multiplies = operation == 2 * gates || operation == 2 * gates + 1 || operation == last_operation;
  assign stays = multiplies ? mul_cycles : exp_cycles;
  assign begins = busy && waiting == 0 && stayed == 0;
  assign ends = busy && waiting == 0 && stayed + 1 == stays;
  assign last_group = first + lanes >= elements;
  assign done = ends && operation == last_operation && last_group;

  always_ff @(posedge clk) begin
    if (reset) busy <= 0;
    else if (start) begin
      busy <= 1;
      waiting <= startup_cycles;
      operation <= 0;
      stayed <= 0;
      first <= 0;
    end else if (busy) begin
      if (waiting != 0) waiting <= waiting - 1;
      else if (!ends) stayed <= stayed + 1;
      else begin
        stayed <= 0;
        if (operation != last_operation) operation <= operation + 1;
        else begin
          operation <= 0;
          first <= first + lanes;
          if (last_group) busy <= 0;
        end
      end
    end
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    number_t x_held, grown, kept, state;
    number_t [3:0] gate;  // input, forget, candidate, output
    number_t x, sum, magnitude, reciprocal_now, squashed, result;
    logic used, squashes;
    count_t element, row, cell_, number;
    wide_t product, grows;

    always_comb begin
      element = first + 32'(lane);
      used = 32'(lane) < lanes && element < elements;
      row = element / (i.cells == 0 ? 1 : 32'(i.cells));
      cell_ = element - row * 32'(i.cells);
      number = operation / 2;  // of the gate, in the order of the sums
      read[lane] = '0;
      read_address[lane] = '0;
      for (int k = 0; k < 6; k++) begin
        if (of_gates && k < 2)
          read_address[lane][k] = i.sums + address_t'(row) * address_t'(i.sums_stride) +
              address_t'(2 * (number * 32'(i.cells) + cell_)) + address_t'(k);
        else if (of_gates)
          read_address[lane][k] = i.addends + address_t'(4 * ((row * gates + number) * 32'(i.cells) + cell_)) +
              address_t'(k - 2);
        else read_address[lane][k] = i.state + address_t'(2 * element) + address_t'(k);
      end
      if (used && begins && of_gates && !operation[0]) read[lane] = i.added ? 6'b111111 : 6'b000011;
      if (used && begins && operation == 2 * gates) read[lane] = 6'b000011;
    end

    always_comb begin
      // The word that the operation is about.
      sum = 32'(signed'({read_data[lane][1], read_data[lane][0]}));
      grows = wide_t'(sum) + wide_t'(signed'(read_data[lane][5:2]));
      if (i.added && of_gates) sum = grows > 32767 ? 32767 : grows < -32768 ? -32768 : 32'(grows);
      x = of_gates && operation[0] || !begins ? x_held : sum;
      if (operation > 2 * gates + 1) x = state;

      // Functions.
      squashes = !of_gates || number + 32'(i.coupled) == 2;  // tanh, not logistic
      magnitude = x < 0 ? x : -x;
      reciprocal_now = reciprocal(grown);
      if (squashes) begin
        squashed = clamp16((reciprocal_now - 8192) <<< 2);
        squashed = x == 0 ? 0 : x < 0 ? -squashed : squashed;
      end else begin
        squashed = clamp16(reciprocal_now <<< 1);
        squashed = x == 0 ? 16384 : x < 0 ? ONE - squashed : squashed;
      end

      // The output: gate 0 has become the function of the state by then.
      product = wide_t'(gate[3]) * wide_t'(gate[0]);
      if (i.arithmetic) begin
        result = rounded(wide_t'(times(gate[3], gate[0])), 8);
        result = result > 127 ? 127 : result < -128 ? -128 : result;
      end else result = round_twice(32'(product), {1'b0, i.multiplier}, 8'(i.shift));
      write[lane] = used && ends && operation == last_operation;
      state_address[lane] = i.next_state + address_t'(2 * element);
      state_data[lane] = state[15:0];
      output_address[lane] = i.output_ + address_t'(element);
      output_data[lane] = i.signed_ ? clamped(result + 32'(i.zero), -128, 127) : clamped(result + 32'(i.zero), 0, 255);
    end

    function automatic number_t limited(number_t v);
      number_t found = clamp16(v);
      number_t most = number_t'(i.limit);
      if (i.limit == 0) return found;
      return found > most ? most : found < -most ? -most : found;
    endfunction

    always_ff @(posedge clk) begin
      if (begins && (of_gates ? !operation[0] : operation == 2 * gates)) x_held <= sum;
      if (ends) begin
        if (!multiplies && !operation[0])
          grown <= exponential(magnitude, (of_gates ? 3 : int'(i.state_integer_bits)) + (squashes ? 1 : 0));
        if (of_gates && operation[0]) gate[2'(number+32'(i.coupled))] <= squashed;
        if (operation == 2 * gates) begin
          kept <= i.arithmetic ? times(gate[1], x) : rounded(wide_t'(gate[1]) * wide_t'(x), 15);
          if (i.coupled) gate[0] <= ONE - gate[1];
        end
        if (operation == 2 * gates + 1) begin
          state <= limited(kept + (i.arithmetic
              ? rounded(wide_t'(times(gate[0], gate[2])), int'(i.state_integer_bits))
              : rounded(wide_t'(gate[0]) * wide_t'(gate[2]), 15 + int'(i.state_integer_bits))));
        end
        if (operation == 2 * gates + 3) gate[0] <= squashed;
      end
    end
  end
endmodule
