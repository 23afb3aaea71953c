// SPDX-License-Identifier: Apache-2.0
// What the comparison costs: speed [INSTRUCTIONS [SEED [KIND]]] makes random events, runs them on the design alone and
// in lockstep, and prints cycles a second of processor time of both. KIND selects the instructions of pccx: sfu, gemv,
// decoder; otherwise all.
#include <cstdio>
#include <ctime>
#include <vector>
#define main bench_main
#include "bench.cpp"
#undef main

struct event {
    uint32_t kind, addr, data[4];
};

static uint64_t cycles;
constexpr size_t CHUNK = 4096; // events that one side executes before the other does, so that both see the same load

// The design alone: as execute(), without reports.
static void execute_alone(design &dut, const event &e)
{
    dut.load_valid = e.kind == LOCKSTEP_LOAD;
    dut.load_addr = e.addr;
    std::copy(e.data, e.data + 4, dut.load_data.data());
    PCCX(dut.stream_valid = e.kind == LOCKSTEP_STREAM; dut.stream_addr = e.addr; dut.stream_beats = e.data[0];)
    dut.instr_valid = e.kind == LOCKSTEP_INSTRUCTION;
    dut.instr = e.data[0] | uint64_t(e.data[1]) << 32;
    for (bool done = false; !done; clock_cycle(dut), cycles++) {
        dut.eval();
        done = dut.retire_valid || e.kind != LOCKSTEP_INSTRUCTION;
    }
}

static double seconds() { return (double)std::clock() / CLOCKS_PER_SEC; }

static void reset(design &dut)
{
    dut.clk = 0;
    dut.rst = 1;
    execute_alone(dut, event{});
    dut.rst = 0;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], nullptr, 0) : 10000;
    int seed = argc > 2 ? atoi(argv[2]) : 1;
    std::vector<event> events;
    lockstep *model = lockstep_new(TARGET, seed);
    lockstep_select(model, argc > 3 ? argv[3] : nullptr);
    for (uint64_t i = 0; i < count;) {
        event e{};
        lockstep_next(model, &e.kind, &e.addr, e.data);
        events.push_back(e);
        if (e.kind == LOCKSTEP_INSTRUCTION) {
            lockstep_skip(model);
            i++;
        }
    }
    lockstep_free(model);
    design alone, compared;
    reset(alone);
    model = lockstep_new(TARGET, seed);
    reset(compared);
    cycles = 0;
    double own = 0, both = 0;
    bool differs = false;
    for (size_t first = 0; first < events.size() && !differs; first += CHUNK) {
        size_t end = std::min(first + CHUNK, events.size());
        double start = seconds();
        for (size_t i = first; i < end; i++)
            execute_alone(alone, events[i]);
        double middle = seconds();
        for (size_t i = first; i < end && !differs; i++) {
            const event &e = events[i];
            lockstep_event(model, e.kind, e.addr, e.data);
            differs = execute(compared, model, e.kind, e.addr, e.data) != 0;
        }
        own += middle - start;
        both += seconds() - middle;
    }
    printf("%llu cycles: design alone %.2f M cycles/s, in lockstep %.2f M cycles/s: %.2f of its own\n",
           (unsigned long long)cycles, (double)cycles / own * 1e-6, (double)cycles / both * 1e-6, own / both);
    return lockstep_finish(model);
}
