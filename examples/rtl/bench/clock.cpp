// SPDX-License-Identifier: Apache-2.0
// The clock of a bench in SystemVerilog.
#include <verilated.h>

#include "design.h"

int main(int argc, char **argv)
{
    VerilatedContext context;
    context.commandArgs(argc, argv);
    context.randReset(2); // registers begin as random bits
    design top(&context);
    for (top.clk = 0; !context.gotFinish(); top.clk = !top.clk)
        top.eval();
    top.final();
    return 0;
}
