// SPDX-License-Identifier: Apache-2.0
// A design in lockstep with the model: bench [INSTRUCTIONS [SEED]]. `design` is the class that Verilator has made of it.
#include <cstdio>
#include <cstdlib>

#include "design.h"
#include "lockstep.h"

static void clock_cycle(design &dut)
{
    dut.clk = 1;
    dut.eval();
    dut.clk = 0;
    dut.load_valid = dut.stream_valid = dut.instr_valid = 0;
    dut.eval();
}

// Passes an event to the design. An instruction executes to its end, and what the design commits is compared. Returns 1
// at a mismatch.
static int execute(design &dut, lockstep *model, uint32_t kind, uint32_t addr, const uint32_t *data)
{
    dut.load_valid = kind == LOCKSTEP_LOAD;
    dut.stream_valid = kind == LOCKSTEP_STREAM;
    dut.instr_valid = kind == LOCKSTEP_INSTRUCTION;
    dut.load_addr = dut.stream_addr = addr;
    dut.stream_beats = data[0];
    dut.instr = data[0] | uint64_t(data[1]) << 32;
    for (int i = 0; i < 4; i++)
        dut.load_data[i] = data[i];
    clock_cycle(dut);
    for (unsigned cycle = 0; kind == LOCKSTEP_INSTRUCTION; cycle++, clock_cycle(dut)) {
        if (dut.write_valid)
            lockstep_write(model, dut.write_space, dut.write_addr, dut.write_data.data(), dut.write_mask);
        if (dut.retire_valid)
            break;
        if (cycle == 400000)
            return lockstep_hang(model, cycle);
    }
    int mismatch = kind == LOCKSTEP_INSTRUCTION && lockstep_retire(model, dut.retire_fault);
    clock_cycle(dut);
    return mismatch;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], nullptr, 0) : 10000;
    lockstep *model = lockstep_new(TARGET, argc > 2 ? atoi(argv[2]) : 1);
    uint32_t kind = 0, addr = 0, data[4] = {};
    design dut;
    dut.clk = 0;
    dut.rst = 1;
    int mismatch = execute(dut, model, kind, addr, data);
    dut.rst = 0;
    while (!mismatch && lockstep_instructions(model) < count) {
        lockstep_next(model, &kind, &addr, data);
        mismatch = execute(dut, model, kind, addr, data);
    }
    return lockstep_finish(model) | mismatch;
}
