// The machine as a shared library: memories and straps in, an event list and the memories out.
#include <cstdint>
#include <cstring>

#include "verilated.h"

namespace {

constexpr int UNITS = 7;
constexpr uint32_t DISPATCHED = 0, STARTED = 1, ENDED = 2;

struct System {
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

System* system_open() { return new System; }

void system_close(System* system) { delete system; }

// Runs a program to its end. events: (kind, unit, cycle) of every dispatch, start, end and barrier, in order of time;
// returns how many there are, or -1 when `limit` cycles pass before all instructions have ended.
int64_t system_run(System* system, const uint32_t* straps, uint32_t code_address, uint32_t instructions,
                   uint8_t* scratchpad, uint32_t scratchpad_size, uint8_t* dram, uint32_t dram_size, uint64_t limit,
                   uint64_t* events) {
    auto& top = system->top;
    auto& near_cells = top.CELLS(scratchpad);
    auto& far_cells = top.CELLS(dram);
    if (scratchpad_size > sizeof(near_cells) || dram_size > sizeof(far_cells)) return -1;
    std::memcpy(&near_cells[0], scratchpad, scratchpad_size);
    std::memcpy(&far_cells[0], dram, dram_size);
    std::memcpy(&top.straps[0], straps, sizeof(top.straps));
    top.code_address = code_address;
    top.instructions = instructions;
    top.start = 0;
    top.reset = 1;
    system->edge();
    system->edge();
    top.reset = 0;
    top.start = 1;
    top.eval();
    system->edge();
    top.start = 0;
    top.eval();
    int64_t count = 0;
    uint32_t over = 0;
    for (uint64_t cycle = 0; over < instructions; cycle++) {
        if (cycle >= limit) return -1;
        // What is asserted now happens at the edge that ends this cycle.
        auto note = [&](uint32_t kind, uint32_t unit) {
            uint64_t* event = events + 3 * count++;
            event[0] = kind;
            event[1] = unit;
            event[2] = cycle + 1;
        };
        for (int u = 0; u < UNITS; u++) {
            if (top.dispatched >> u & 1) note(DISPATCHED, u);
            if (top.started >> u & 1) note(STARTED, u);
            if (top.ended >> u & 1) note(ENDED, u), over++;
        }
        if (top.reached) note(DISPATCHED, UNITS);
        if (top.satisfied) note(STARTED, UNITS);
        if (top.passed) note(ENDED, UNITS), over++;
        system->edge();
    }
    std::memcpy(scratchpad, &near_cells[0], scratchpad_size);
    std::memcpy(dram, &far_cells[0], dram_size);
    return count;
}

}
