/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/operation.h"

#include <inttypes.h>
#include <stdio.h>

/* Of latency, occupancy, bytes, multiply-adds and picojoules: sums over 2^32 instructions do not overflow. */
static const uint64_t COST_MAX = UINT32_MAX;
static const double ENERGY_MAX = 4e6;

/* ---- Rejections ---- */

static void reject(const tv_operation *op, const char *format, va_list args)
{
    if (op->why->rejected) /* the first reason counts */
        return;
    op->why->rejected = true;
    vsnprintf(op->why->message, sizeof op->why->message, format, args);
}

static void fail(const tv_operation *op, const char *format, ...) TV_PRINTF(2, 3);

static void fail(const tv_operation *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    reject(op, format, args);
    va_end(args);
}

int tv_operation_reject(tv_operation *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    reject(op, format, args);
    va_end(args);
    return 0;
}

/* ---- Fields and parameters ---- */

double tv_operation_number(const tv_operation *op, const char *name)
{
    for (unsigned i = 0; op->number && i < op->insn->parameter_count; i++) {
        unsigned p = op->insn->parameters[i].parameter;
        if (strcmp(op->isa->parameters[p].name, name) == 0)
            return op->number(op->entry, p);
    }
    fail(op, "%s has no field '%.60s'", op->insn->id, name);
    return 0;
}

uint64_t tv_operation_field(const tv_operation *op, const char *name)
{
    if (op->number) {
        double value = tv_operation_number(op, name);
        if (value >= 0 && value < 0x1p63)
            return (uint64_t)value;
        fail(op, "field '%.60s' is no whole number from 0 on", name);
        return 0;
    }
    for (unsigned i = 0; i < op->isa->field_count; i++) {
        const tv_field *field = &op->isa->fields[i];
        if (field->format == op->insn->format && strcmp(field->name, name) == 0)
            return tv_field_get(op->isa, field, op->word);
    }
    fail(op, "%s has no field '%.60s'", op->insn->id, name);
    return 0;
}

uint64_t tv_operation_parameter(const tv_operation *op, const char *key)
{
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(op->config, i, &e); i++)
        if (strcmp(e.key, key) == 0 && strcmp(e.type, "rate") != 0)
            return e.number;
    fail(op, "the machine has no parameter '%.60s' that is an integer", key);
    return 0;
}

/* ---- Ranges ---- */

/* The index of a space of the machine and the first byte of a range in it. False: it is not in the space. */
static bool find_space(const tv_operation *op, const char *name, uint64_t addr, uint64_t bytes, unsigned *index,
                       uint64_t *byte)
{
    tv_space space;
    for (*index = 0; op->target && op->target->space_at(op->state, *index, &space); ++*index) {
        if (strcmp(space.name, name) != 0)
            continue;
        *byte = addr * space.unit_bytes;
        return addr <= space.size && bytes <= (space.size - addr) * space.unit_bytes;
    }
    return false;
}

int tv_operation_load(const tv_operation *op, const char *space, uint64_t addr, void *data, size_t bytes)
{
    unsigned index;
    uint64_t byte;
    memset(data, 0, bytes);
    if (!op->target)
        fail(op, "%s depends on data, which only resolve on OpenNPU may", op->insn->id);
    if (!find_space(op, space, addr, bytes, &index, &byte))
        return 0;
    op->target->read_space(op->state, index, byte, data, bytes);
    return 1;
}

static void add_range(tv_operation *op, const char *space, uint64_t addr, uint64_t bytes, bool write)
{
    if (op->range_count == TV_OPERATION_RANGES)
        fail(op, "%s has more than %d ranges", op->insn->id, TV_OPERATION_RANGES);
    else if (bytes == 0 || bytes > UINT32_MAX)
        fail(op, "%s %s %" PRIu64 " bytes of %.20s", op->insn->id, write ? "writes" : "reads", bytes, space);
    else
        op->ranges[op->range_count++] = (tv_operation_range){space, addr, bytes, write, NULL};
}

void tv_operation_reads(tv_operation *op, const char *space, uint64_t addr, uint64_t bytes)
{
    add_range(op, space, addr, bytes, false);
}

void tv_operation_writes(tv_operation *op, const char *space, uint64_t addr, uint64_t bytes)
{
    add_range(op, space, addr, bytes, true);
}

bool tv_operation_resolve(tv_operation *op)
{
    op->range_count = 0;
    if (!op->insn->extension->resolve(op))
        fail(op, "%s rejects its operands", op->insn->id);
    return !op->why->rejected;
}

bool tv_operation_cost_of(const tv_operation *op, tv_operation_cost *cost)
{
    *cost = (tv_operation_cost){0};
    op->insn->extension->cost(op, cost);
    bool energy = cost->picojoules >= 0 && cost->picojoules <= ENERGY_MAX;
    if (cost->latency == 0 || cost->latency > COST_MAX || cost->occupancy > COST_MAX || cost->bytes > COST_MAX ||
        cost->macs > COST_MAX || !energy)
        fail(op, "the extension gives %s a cost that is out of range", op->insn->id);
    return !op->why->rejected;
}

/* ---- Execution ---- */

static void *range_data(const tv_operation *op, unsigned i, bool write)
{
    for (unsigned k = 0; k < op->range_count; k++)
        if (op->ranges[k].write == write && i-- == 0)
            return op->ranges[k].data;
    return NULL;
}

const void *tv_operation_input(const tv_operation *op, unsigned i) { return range_data(op, i, false); }

void *tv_operation_output(tv_operation *op, unsigned i) { return range_data(op, i, true); }

void tv_operation_value(tv_operation *op, const char *name, uint64_t element, double value)
{
    if (op->values)
        tv_values_real(op->values, name, element, value);
}

void tv_operation_copy_space(void *user, const tv_operation *op, unsigned i)
{
    const tv_operation_range *r = &op->ranges[i];
    unsigned index;
    uint64_t byte;
    (void)user;
    if (!r->write)
        tv_operation_load(op, r->space, r->addr, r->data, r->bytes);
    else if (find_space(op, r->space, r->addr, r->bytes, &index, &byte))
        op->target->write_space(op->state, index, byte, r->data, r->bytes);
}

bool tv_operation_execute(tv_operation *op, tv_operation_copy *copy, void *user, tv_buf *scratch)
{
    enum { ALIGNMENT = 64 };
    uint64_t total = ALIGNMENT;
    for (unsigned i = 0; i < op->range_count; i++)
        total += (op->ranges[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    scratch->len = 0;
    uint8_t *data = tv_buf_extend(scratch, total);
    if (!data)
        return false;
    data += (0 - (uintptr_t)data) % ALIGNMENT;
    for (unsigned i = 0; i < op->range_count; i++) {
        tv_operation_range *r = &op->ranges[i];
        r->data = data;
        data += (r->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (r->write)
            memset(r->data, 0, r->bytes);
        else
            copy(user, op, i);
    }
    op->insn->extension->execute(op);
    for (unsigned i = 0; i < op->range_count && !op->why->rejected; i++)
        if (op->ranges[i].write)
            copy(user, op, i);
    return true;
}
