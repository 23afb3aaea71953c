// SPDX-License-Identifier: Apache-2.0
// Runs mutants of a design in lockstep with the model: mutants INSTRUCTIONS SECONDS SEED FIRST LAST. Each mutant runs in a
// process of its own, so that all begin in the same state. Prints for each its number, the instructions until the
// mismatch, or -1, and the mismatch.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#define main bench_main
#include "../../examples/rtl/bench/bench.cpp"
#undef main

static int run(design &dut, int number, uint64_t count, unsigned seed)
{
    uint32_t kind = 0, addr = 0, data[4] = {};
    printf("%d ", number);
    lockstep *model = lockstep_new(TARGET, seed);
    dut.mutant_input = number;
    dut.rst = 1;
    execute(dut, model, kind, addr, data);
    for (dut.rst = 0; lockstep_instructions(model) < count;) {
        lockstep_next(model, &kind, &addr, data);
        if (execute(dut, model, kind, addr, data))
            break;
    }
    return lockstep_finish(model);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    Verilated::randReset(2);
    design dut;
    dut.clk = 0;
    dut.eval(); // loads the table once; registers keep their random bits
    for (int number = atoi(argv[4]); number <= atoi(argv[5]); number++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(unsigned(atoi(argv[2])));
            run(dut, number, strtoull(argv[1], nullptr, 0), unsigned(atoi(argv[3])));
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("%d %s\n", number, WTERMSIG(status) == SIGALRM ? "TIME" : "CRASH");
    }
    return 0;
}
