/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/cmdq/order.h"

#include <string.h>

#define NO_ENTRY UINT32_MAX

bool cmdq_lower_order_begin(cmdq_lower_order *order, uint32_t tensor, uint32_t vector, uint32_t channels)
{
    order->tensor = tensor;
    order->vector = vector;
    order->channels = channels;
    order->engines = tensor + vector + channels;
    order->engine = order->next_channel = 0;
    order->owners.count = order->positions.count = order->clocks.count = order->last.count = 0;
    for (uint32_t i = 0; i < order->engines; i++)
        if (!TV_VEC_PUSH(&order->last, NO_ENTRY))
            return false;
    return true;
}

void cmdq_lower_order_fini(cmdq_lower_order *order)
{
    TV_VEC_FINI(&order->owners);
    TV_VEC_FINI(&order->positions);
    TV_VEC_FINI(&order->clocks);
    TV_VEC_FINI(&order->last);
}

void cmdq_lower_order_tensor(cmdq_lower_order *order, uint64_t id) { order->engine = (uint32_t)id; }

void cmdq_lower_order_vector(cmdq_lower_order *order, uint64_t id) { order->engine = order->tensor + (uint32_t)id; }

void cmdq_lower_order_transfer(cmdq_lower_order *order)
{
    if (order->engines)
        order->engine = order->tensor + order->vector + order->next_channel++ % order->channels;
}

static const uint32_t *clock_of(const cmdq_lower_order *order, uint32_t entry)
{
    return order->clocks.data + (size_t)entry * order->engines;
}

/* Whether `before` completes before `entry` starts. */
static bool is_ordered(const cmdq_lower_order *order, uint32_t before, uint32_t entry)
{
    return clock_of(order, entry)[order->owners.data[before]] >= order->positions.data[before];
}

/* Whether the last entry of the engine, or a dependency other than number `at`, implies dependency `at`. */
static bool is_implied(const cmdq_lower_order *order, const uint32_t *deps, uint32_t count, uint32_t at)
{
    uint32_t last = order->last.data[order->engine];
    if (last != NO_ENTRY && (last == deps[at] || is_ordered(order, deps[at], last)))
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (i != at && is_ordered(order, deps[at], deps[i]))
            return true;
    return false;
}

/* Orders `before`, and all that completes before it starts, before the entry of `clock`. */
static void merge_clock(const cmdq_lower_order *order, uint32_t *clock, uint32_t before)
{
    const uint32_t *other = clock_of(order, before);
    for (uint32_t e = 0; e < order->engines; e++)
        clock[e] = clock[e] > other[e] ? clock[e] : other[e];
    uint32_t *own = &clock[order->owners.data[before]];
    *own = *own > order->positions.data[before] ? *own : order->positions.data[before];
}

bool cmdq_lower_order_failed(const cmdq_lower_order *order)
{
    return order->owners.failed || order->positions.failed || order->clocks.failed || order->last.failed;
}

uint32_t cmdq_lower_order_end(cmdq_lower_order *order, uint32_t *deps, uint32_t count)
{
    uint32_t entry = (uint32_t)order->owners.count, last, kept = 0;
    if (!order->engines || order->engine >= order->engines)
        return count;
    last = order->last.data[order->engine];
    bool ok = TV_VEC_PUSH(&order->owners, order->engine) &&
              TV_VEC_PUSH(&order->positions, last == NO_ENTRY ? 1 : order->positions.data[last] + 1);
    for (uint32_t e = 0; e < order->engines && ok; e++)
        ok = TV_VEC_PUSH(&order->clocks, 0);
    if (!ok) { /* cmdq_lower_order_failed */
        order->engines = 0;
        return count;
    }
    uint32_t *clock = order->clocks.data + (size_t)entry * order->engines;
    if (last != NO_ENTRY)
        merge_clock(order, clock, last);
    for (uint32_t i = 0; i < count; i++)
        merge_clock(order, clock, deps[i]);
    /* What implies a dependency that is dropped implies all that this one implies: the order in which they are dropped
     * makes no difference. */
    bool implied[64] = {false};
    for (uint32_t i = 0; i < count && i < TV_COUNTOF(implied); i++)
        implied[i] = is_implied(order, deps, count, i);
    for (uint32_t i = 0; i < count; i++)
        if (i >= TV_COUNTOF(implied) || !implied[i])
            deps[kept++] = deps[i];
    order->last.data[order->engine] = entry;
    return kept;
}
