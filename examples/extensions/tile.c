/* SPDX-License-Identifier: Apache-2.0 */
/* A tile load for OpenNPU: ld.tile rd, rs1, rs2 loads the four VX of VR rd, K bytes each, from four rows of a matrix; the
 * first is at the address in lane 0 of rs1, the others follow at distances of lane 0 of rs2. */
#include <string.h>
#include <trivet/extension.h>

enum { ROWS = 4 };

static int resolve(tv_operation *op)
{
    uint32_t address = 0, stride = 0;
    uint64_t k = tv_operation_parameter(op, "vector.k");
    tv_operation_load(op, "vr", tv_operation_field(op, "rs1"), &address, 4);
    tv_operation_load(op, "vr", tv_operation_field(op, "rs2"), &stride, 4);
    for (uint32_t row = 0; row < ROWS; row++)
        tv_operation_reads(op, "mem", (uint32_t)(address + row * stride), k);
    tv_operation_writes(op, "vx", ROWS * tv_operation_field(op, "rd"), ROWS * k);
    return 1;
}

static void execute(tv_operation *op)
{
    uint64_t k = tv_operation_parameter(op, "vector.k");
    for (unsigned row = 0; row < ROWS; row++)
        memcpy((uint8_t *)tv_operation_output(op, 0) + row * k, tv_operation_input(op, row), k);
}

static void cost(const tv_operation *op, tv_operation_cost *cost)
{
    *cost = (tv_operation_cost){.latency = tv_operation_parameter(op, "ld.latency"), .occupancy = ROWS,
                                .bytes = ROWS * tv_operation_parameter(op, "vector.k")};
}

static const tv_extension_insn rows[] = {{.size = sizeof(tv_extension_insn), .target = "opennpu", .id = "LD_TILE",
    .mnemonic = "ld.tile", .format = "R", .fixed = "opcode=4, funct3=0", .operands = "rd:vr, rs1:vr, rs2:vr",
    .unit = "PORT", .meaning = "load four rows of K bytes", .resolve = resolve, .execute = execute, .cost = cost}};
TV_EXTENSION("tile", rows);
