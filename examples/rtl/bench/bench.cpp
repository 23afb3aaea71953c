// SPDX-License-Identifier: Apache-2.0
// A design in lockstep with the model: bench [INSTRUCTIONS [SEED]]. `design` is the class that Verilator has made of
// it.
#include "design.h"
#include "lockstep.h"
#include <algorithm>
#include <cstdlib>
#ifdef STREAM
#define PCCX(...) __VA_ARGS__ // ports that only the pccx design has
#else
#define PCCX(...)
#endif

static void clock_cycle(design &dut)
{
    dut.clk = 1;
    dut.eval();
    dut.clk = dut.load_valid = dut.instr_valid = 0;
    PCCX(dut.stream_valid = 0;)
}

// Passes an event to the design. An instruction executes to its end, and what it commits is compared: 1 is a mismatch.
// Outputs are those of the whole cycle, after the inputs have settled.
static int execute(design &dut, lockstep *model, uint32_t kind, uint32_t addr, const uint32_t *data)
{
    dut.load_valid = kind == LOCKSTEP_LOAD;
    dut.load_addr = addr;
    std::copy(data, data + 4, dut.load_data.data());
    PCCX(dut.stream_valid = kind == LOCKSTEP_STREAM; dut.stream_addr = addr; dut.stream_beats = data[0];)
    dut.instr_valid = kind == LOCKSTEP_INSTRUCTION;
    dut.instr = data[0] | uint64_t(data[1]) << 32;
    for (unsigned cycle = 0, done = 0; !done; clock_cycle(dut)) {
        dut.eval();
        if (dut.write_valid && !dut.rst)
            lockstep_write(model, dut.write_space, dut.write_addr, dut.write_data.data(), dut.write_mask);
        PCCX(if (dut.value_valid) lockstep_value(model, dut.value_kind, dut.value_element, dut.value);)
        bool retires = dut.retire_valid && !dut.rst;
        done = retires || kind != LOCKSTEP_INSTRUCTION;
        if (retires ? lockstep_retire(model, dut.retire_fault) : ++cycle == 50000 && lockstep_hang(model, cycle))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], nullptr, 0) : 10000;
    lockstep *model = lockstep_new(TARGET, argc > 2 ? atoi(argv[2]) : 1);
    uint32_t kind = 0, addr = 0, data[4] = {};
    Verilated::randReset(2); // registers begin as random bits
    design dut;
    dut.clk = 0;
    dut.rst = 1;
    execute(dut, model, kind, addr, data);
    for (dut.rst = 0; lockstep_instructions(model) < count;) {
        lockstep_next(model, &kind, &addr, data);
        if (execute(dut, model, kind, addr, data))
            break;
    }
    return lockstep_finish(model);
}
