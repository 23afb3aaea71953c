/* SPDX-License-Identifier: Apache-2.0 */
/* Max-min fair sharing of one memory among flows, event by event.
 *
 * Between two events every flow has a constant rate: flows that are limited by their own peak get that, and the rest of
 * the bandwidth is split evenly among the others. An event is the arrival of a flow's last byte or a change of its
 * limit. Times and amounts are exact rationals with one common denominator, so that a byte's arrival does not depend on
 * how often the simulation was advanced.
 *
 * While no flow is slowed down by others, all events are at whole ticks, in which a cycle and a byte of each flow have
 * whole numbers: then whole numbers are enough, which are several times as fast as fractions. */
#include "sim/share.h"

/* Sets the ticks: the smallest number in which a cycle and the bytes of all flows are whole. */
static void set_ticks(tv_share *share)
{
    const uint64_t TICKS_MAX = (1 << 20) - 1; /* fractions of them are exact, too (ratio.h) */
    share->ticks = 1;
    for (unsigned i = 0; i < share->flow_count && share->ticks; i++) {
        uint64_t rate = share->flows[i].rate, factor = rate ? rate / tv_gcd_u64(rate, share->unit) : 0;
        bool few = factor > 0 && factor <= TICKS_MAX;
        share->ticks = few ? share->ticks * (factor / tv_gcd_u64(share->ticks, factor)) : 0;
        share->ticks = share->ticks <= TICKS_MAX ? share->ticks : 0;
    }
    for (unsigned i = 0; i < share->flow_count && share->ticks; i++) {
        share->flows[i].ticks = share->ticks * share->unit / share->flows[i].rate;
        share->ticks = share->flows[i].ticks <= TICKS_MAX ? share->ticks : 0;
    }
}

bool tv_share_init(tv_share *share, const tv_rate *rates, unsigned flow_count)
{
    uint64_t unit = 1;
    *share = (tv_share){.now = tv_ratio_of(0), .flow_count = flow_count};
    assert(flow_count <= TV_FLOWS_MAX);
    for (unsigned i = 0; i <= flow_count; i++) {
        unit = unit / tv_gcd_u64(unit, rates[i].den) * rates[i].den;
        if (unit >= UINT64_C(1) << 20)
            return false;
    }
    share->unit = unit;
    share->capacity = rates[0].num * (unit / rates[0].den);
    for (unsigned i = 0; i < flow_count; i++)
        share->flows[i] = (tv_flow){.rate = rates[i + 1].num * (unit / rates[i + 1].den), .moved = tv_ratio_of(0)};
    set_ticks(share);
    return share->capacity >> 36 == 0;
}

static bool is_active(const tv_share *share, const tv_flow *flow)
{
    return flow->moved.whole < flow->limit && share->now.whole >= flow->start;
}

/* The speed of each flow as num / den bytes per cycle; 0 / 0: it does not move. When the sum of the maximum rates
 * exceeds the capacity, the slowest flows have their maximum, and the others share the rest evenly. */
typedef struct speeds {
    uint64_t num[TV_FLOWS_MAX], den[TV_FLOWS_MAX];
} speeds;

static void divide_capacity(const tv_share *share, speeds *s)
{
    uint64_t left = share->capacity;
    unsigned count = 0, order[TV_FLOWS_MAX];
    for (unsigned i = 0; i < share->flow_count; i++)
        if (is_active(share, &share->flows[i])) {
            unsigned at = count++;
            while (at > 0 && share->flows[order[at - 1]].rate > share->flows[i].rate) {
                order[at] = order[at - 1];
                at--;
            }
            order[at] = i;
        }
    for (unsigned k = 0; k < count; k++) {
        uint64_t rate = share->flows[order[k]].rate, sharers = count - k;
        bool full_rate = rate * sharers <= left;
        s->num[order[k]] = full_rate ? rate : left;
        s->den[order[k]] = full_rate ? share->unit : share->unit * sharers;
        if (full_rate) {
            left -= rate;
        } else { /* the remaining flows are faster: each has the same speed */
            for (unsigned j = k + 1; j < count; j++) {
                s->num[order[j]] = left;
                s->den[order[j]] = share->unit * sharers;
            }
            break;
        }
    }
}

static void find_speeds(const tv_share *share, speeds *s)
{
    uint64_t demand = 0;
    for (unsigned i = 0; i < share->flow_count; i++) {
        const tv_flow *flow = &share->flows[i];
        bool moves = is_active(share, flow);
        s->num[i] = moves ? flow->rate : 0;
        s->den[i] = moves ? share->unit : 0;
        demand += s->num[i];
    }
    if (demand > share->capacity)
        divide_capacity(share, s);
}

/* The next event: its time, and the flow that has then moved exactly `to` bytes; TV_FLOWS_MAX: none. */
typedef struct event {
    tv_ratio time;
    unsigned flow;
    uint64_t to;
} event;

/* Whether the denominators are so small that a sum of the quotients is not rounded (ratio.h). */
static bool is_exact(const tv_share *share, const tv_flow *flow, uint64_t num, uint64_t den)
{
    return (share->now.den | flow->moved.den | num | den) >> 20 == 0;
}

/* The byte count at which a flow has its next event. */
static uint64_t next_stop(const tv_flow *flow)
{
    bool before_target = flow->waiting && flow->target < flow->limit && flow->moved.whole < flow->target;
    return before_target ? flow->target : flow->limit;
}

/* Whether no flow has an event before `bound`; found without a division, for whole cycles, bytes and rates. False: not
 * known. */
static bool is_quiet(const tv_share *share, const speeds *s, tv_ratio bound)
{
    uint64_t cycles = bound.whole - share->now.whole, bytes;
    if (bound.num || share->now.num)
        return false;
    for (unsigned i = 0; i < share->flow_count; i++) {
        const tv_flow *flow = &share->flows[i];
        if (s->den[i] == 0) {
            if (flow->moved.whole < flow->limit && flow->start > share->now.whole && flow->start < bound.whole)
                return false;
        } else if (s->den[i] != 1 || flow->moved.num || __builtin_mul_overflow(cycles, s->num[i], &bytes) ||
                   bytes > next_stop(flow) - flow->moved.whole) {
            return false;
        }
    }
    return true;
}

/* The earliest event at which a speed may change or a target is reached; if `bounded`, at `bound` at the latest. */
static event next_event(const tv_share *share, const speeds *s, bool bounded, tv_ratio bound, bool *found)
{
    event best = {bound, TV_FLOWS_MAX, 0};
    *found = bounded;
    if (bounded && is_quiet(share, s, bound))
        return best;
    for (unsigned i = 0; i < share->flow_count; i++) {
        const tv_flow *flow = &share->flows[i];
        event e = {.flow = TV_FLOWS_MAX};
        if (s->den[i]) {
            e.to = next_stop(flow);
            tv_ratio left = tv_ratio_sub(tv_ratio_of(e.to), flow->moved);
            e.time = tv_ratio_add(share->now, tv_ratio_scale(left, s->den[i], s->num[i]));
            e.flow = is_exact(share, flow, s->num[i], s->den[i]) ? i : TV_FLOWS_MAX;
        } else if (flow->moved.whole < flow->limit && flow->start > share->now.whole) {
            e.time = tv_ratio_of(flow->start);
        } else {
            continue;
        }
        if (!*found || tv_ratio_cmp(e.time, best.time) < 0)
            best = e;
        *found = true;
    }
    return best;
}

static void move_to(tv_share *share, const speeds *s, event e)
{
    tv_ratio dt = tv_ratio_sub(e.time, share->now);
    for (unsigned i = 0; i < share->flow_count; i++) {
        tv_flow *flow = &share->flows[i];
        if (!s->den[i])
            continue;
        tv_ratio before = flow->moved;
        flow->moved = i == e.flow ? tv_ratio_of(e.to) : tv_ratio_add(before, tv_ratio_scale(dt, s->num[i], s->den[i]));
        if (flow->moved.whole >= flow->limit) /* a rounded step may end past it */
            flow->moved = tv_ratio_of(flow->limit);
        if (flow->waiting && flow->moved.whole >= flow->target) {
            flow->waiting = false;
            flow->arrived = e.time;
        }
        if (share->moved)
            share->moved(share->user, i, share->now, e.time, tv_ratio_scale(dt, s->num[i], s->den[i]));
    }
    share->now = e.time;
}

/* ---- In ticks ---- */

/* Brings a fraction to the denominator `ticks`. False: it has none of its divisors. */
static bool to_ticks(tv_ratio *r, uint64_t ticks)
{
    if (r->num == 0 || r->den == ticks)
        return true;
    if (r->den > ticks || ticks % r->den)
        return false;
    r->num *= ticks / r->den;
    r->den = ticks;
    return true;
}

/* r + dt / ticks, of whole ticks. */
static tv_ratio add_ticks(tv_ratio r, uint64_t dt, uint64_t ticks)
{
    uint64_t sum = r.num + dt, whole = ticks == 1 ? sum : sum / ticks, num = sum - whole * ticks;
    return (tv_ratio){r.whole + whole, num, num ? ticks : 1};
}

/* Ticks from `from`, in such, to `to`. False: there are too many. */
static bool ticks_until(tv_ratio from, uint64_t to, uint64_t ticks, uint64_t *out)
{
    bool fits = !__builtin_mul_overflow(to - from.whole, ticks, out);
    *out -= from.num;
    return fits;
}

/* The next event, at `cycle` at the latest unless that is UINT64_MAX, as ticks from now and the flow that has then
 * moved `to` bytes. */
typedef struct tick_event {
    uint64_t dt, to;
    unsigned flow;
    unsigned active; /* mask of the flows that move until then */
} tick_event;

/* False: not known in ticks, or no flow has an event. With a callback fractions are used: a traced run, whose cycles
 * tests compare with those of one that is not, so checks the ticks. */
static bool find_tick_event(tv_share *share, uint64_t cycle, tick_event *next)
{
    uint64_t demand = 0;
    *next = (tick_event){.dt = UINT64_MAX, .flow = TV_FLOWS_MAX};
    if (!share->ticks || share->moved || !to_ticks(&share->now, share->ticks) ||
        (cycle != UINT64_MAX && !ticks_until(share->now, cycle, share->ticks, &next->dt)))
        return false;
    for (unsigned i = 0; i < share->flow_count; i++) {
        tv_flow *flow = &share->flows[i];
        bool active = is_active(share, flow);
        uint64_t to = next_stop(flow), dt;
        if (!active && (flow->moved.whole >= flow->limit || flow->start <= share->now.whole))
            continue;
        if (active ? !to_ticks(&flow->moved, flow->ticks) || !ticks_until(flow->moved, to, flow->ticks, &dt)
                   : !ticks_until(share->now, flow->start, share->ticks, &dt))
            return false;
        demand += active ? flow->rate : 0;
        next->active |= (unsigned)active << i;
        if (dt < next->dt) {
            next->dt = dt;
            next->to = to;
            next->flow = active ? i : TV_FLOWS_MAX;
        }
    }
    return next->dt != UINT64_MAX && demand <= share->capacity;
}

/* As the next event and move_to, in ticks. False: nothing was done. */
static bool move_in_ticks(tv_share *share, uint64_t cycle)
{
    tick_event next;
    if (!find_tick_event(share, cycle, &next))
        return false;
    share->now = add_ticks(share->now, next.dt, share->ticks);
    for (unsigned i = 0; i < share->flow_count; i++) {
        tv_flow *flow = &share->flows[i];
        if (!(next.active >> i & 1))
            continue;
        flow->moved = i == next.flow ? tv_ratio_of(next.to) : add_ticks(flow->moved, next.dt, flow->ticks);
        if (flow->waiting && flow->moved.whole >= flow->target) {
            flow->waiting = false;
            flow->arrived = share->now;
        }
    }
    return true;
}

/* ---- Advancing ---- */

/* Whether no flow has bytes to move. */
static bool is_idle(const tv_share *share)
{
    for (unsigned i = 0; i < share->flow_count; i++)
        if (share->flows[i].moved.whole < share->flows[i].limit)
            return false;
    return true;
}

void tv_share_advance(tv_share *share, uint64_t cycle)
{
    tv_ratio end = tv_ratio_of(cycle);
    while (tv_ratio_cmp(share->now, end) < 0) {
        if (is_idle(share)) {
            share->now = end;
            return;
        }
        if (move_in_ticks(share, cycle))
            continue;
        bool found;
        speeds s;
        find_speeds(share, &s);
        move_to(share, &s, next_event(share, &s, true, end, &found));
    }
}

tv_ratio tv_share_wait(tv_share *share, unsigned flow)
{
    while (share->flows[flow].waiting) {
        if (move_in_ticks(share, UINT64_MAX))
            continue;
        bool found;
        speeds s;
        find_speeds(share, &s);
        event e = next_event(share, &s, false, share->now, &found);
        assert(found && "a flow with a target reaches it");
        move_to(share, &s, e);
    }
    return share->flows[flow].arrived;
}

void tv_share_target(tv_share *share, unsigned flow, uint64_t target)
{
    tv_flow *f = &share->flows[flow];
    assert(target <= f->limit);
    f->target = target;
    f->waiting = f->moved.whole < target;
    f->arrived = share->now;
}
