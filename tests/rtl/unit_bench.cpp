// A bench of one unit as a shared library: Python hands over an instruction word and a memory, and gets both back.
#include <cstdint>
#include <cstring>

#include "verilated.h"

namespace {

struct Bench {
    VerilatedContext context;
    Top top{&context};

    void edge() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
    }
};

}  // namespace

extern "C" {

Bench* bench_open() {
    auto* bench = new Bench;
    bench->top.reset = 1;
    bench->edge();
    bench->edge();
    bench->top.reset = 0;
    return bench;
}

void bench_close(Bench* bench) { delete bench; }

// Runs one instruction to its end. counts: cycles, cycles of the array, bytes read, bytes written. Returns 0 when
// `limit` is reached.
int bench_run(Bench* bench, const uint8_t* word, const uint32_t* straps, uint8_t* memory, uint32_t size,
              uint64_t limit, uint64_t* counts) {
    auto& top = bench->top;
    auto& cells = top.CELLS(memory);
    if (size > sizeof(cells)) return 0;
    std::memcpy(&cells[0], memory, size);
    std::memcpy(&top.word[0], word, 72);
    std::memcpy(&top.straps[0], straps, sizeof(top.straps));
    std::memset(counts, 0, 4 * sizeof(uint64_t));
    top.start = 1;
    top.eval();
    bench->edge();
    top.start = 0;
    top.eval();
    bool done = false;
    while (!done && counts[0] < limit) {
        done = top.done;
        counts[0] += 1;
        counts[1] += top.array_active;
        counts[2] += top.bytes_read;
        counts[3] += top.bytes_written;
        bench->edge();
    }
    std::memcpy(memory, &cells[0], size);
    return done;
}

}
