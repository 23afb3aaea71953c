/* SPDX-License-Identifier: Apache-2.0 */
/* A tile load for OpenNPU: ld.tile rd, rs1, rs2 loads the four VX of VR rd, K bytes each, from rows of a matrix: the
 * first at the address in lane 0 of rs1, the others at distances of lane 0 of rs2. */
#include <string.h>
#include <trivet/extension.h>

enum { ROWS = 4 };
static uint64_t k(const tv_operation *op) { return tv_operation_parameter(op, "vector.k"); }

static int resolve(tv_operation *op)
{
    uint32_t address, stride;
    tv_operation_load(op, "vr", tv_operation_field(op, "rs1"), &address, 4);
    tv_operation_load(op, "vr", tv_operation_field(op, "rs2"), &stride, 4);
    for (uint32_t row = 0; row < ROWS; row++, address += stride)
        tv_operation_reads(op, "mem", address, k(op));
    tv_operation_writes(op, "vx", ROWS * tv_operation_field(op, "rd"), ROWS * k(op));
    return 1;
}

static void execute(tv_operation *op)
{
    for (unsigned row = 0; row < ROWS; row++)
        memcpy((uint8_t *)tv_operation_output(op, 0) + row * k(op), tv_operation_input(op, row), k(op));
}

/* A row of K bytes takes a tick of the port; half a picojoule a byte for a memory of a few hundred kilobytes. */
static void cost(const tv_operation *op, tv_operation_cost *cost)
{
    cost->latency = tv_operation_parameter(op, "ld.latency");
    cost->occupancy = ROWS;
    cost->bytes = ROWS * k(op);
    cost->picojoules = 0.5 * (double)cost->bytes;
}

static const tv_extension_insn rows[] = {
    {sizeof(tv_extension_insn), "opennpu", "LD_TILE", "ld.tile", "R", "opcode=4, funct3=0", "rd:vr, rs1:vr, rs2:vr",
     "PORT", "load four rows of K bytes", .resolve = resolve, .execute = execute, .cost = cost}};
TV_EXTENSION("tile", rows);
