/* SPDX-License-Identifier: Apache-2.0 */
/* Exact time: rationals against GMP, the shared memory against a max-min fair model in GMP rationals, cycle accounts
 * and stall attribution against a count cycle by cycle, sparse memory against an array, the chunks of the thread pool
 * against a count of iterations. */
#include "unit.h"

#include <gmp.h>
#include <stdatomic.h>
#include <time.h>

#include "sim/account.h"
#include "sim/bottleneck.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/ratio.h"
#include "sim/share.h"
#include "sim/stall.h"
#include "sim/stats.h"

/* ---- Rationals ---- */

static void to_mpq(mpq_t q, tv_ratio r)
{
    mpz_t whole;
    mpz_init_set_ui(whole, r.whole);
    mpz_set_ui(mpq_numref(q), r.num);
    mpz_set_ui(mpq_denref(q), r.den);
    mpq_canonicalize(q);
    mpz_addmul(mpq_numref(q), mpq_denref(q), whole);
    mpz_clear(whole);
}

static bool fits(const mpq_t q) { return mpz_sizeinbase(mpq_denref(q), 2) <= 62; }

/* `actual` is `exact`, or, where the denominator is too large, later by at most 2^-60. */
static void check_ratio(tv_ratio actual, const mpq_t exact)
{
    mpq_t got, difference, bound;
    mpq_inits(got, difference, bound, (mpq_ptr)NULL);
    to_mpq(got, actual);
    assert_true(actual.num < actual.den);
    mpq_sub(difference, got, exact);
    mpq_set_ui(bound, 1, UINT64_C(1) << 60);
    bool right = fits(exact) ? mpq_sgn(difference) == 0 : mpq_sgn(difference) >= 0 && mpq_cmp(difference, bound) <= 0;
    if (!right) {
        gmp_fprintf(stderr, "exact %Qd, got %Qd\n", exact, got);
        fail();
    }
    mpq_clears(got, difference, bound, (mpq_ptr)NULL);
}

static tv_ratio random_ratio(unit_rng *rng, unsigned whole_bits, unsigned den_bits)
{
    uint64_t den = unit_sized(rng, den_bits) + 1;
    mpq_t q;
    mpq_init(q);
    mpq_set_ui(q, unit_below(rng, den), den);
    mpq_canonicalize(q);
    tv_ratio r = {unit_sized(rng, whole_bits), mpz_get_ui(mpq_numref(q)), mpz_get_ui(mpq_denref(q))};
    mpq_clear(q);
    return r;
}

static void check_operations(unit_rng *rng, unsigned whole_bits, unsigned den_bits, unsigned factor_bits)
{
    mpq_t x, y, z, factor;
    mpq_inits(x, y, z, factor, (mpq_ptr)NULL);
    tv_ratio a = random_ratio(rng, whole_bits, den_bits), b = random_ratio(rng, whole_bits, den_bits);
    if (unit_below(rng, 8) == 0)
        b.whole = a.whole;
    to_mpq(x, a);
    to_mpq(y, b);
    int order = mpq_cmp(x, y), actual = tv_ratio_cmp(a, b);
    assert_true((order > 0) == (actual > 0) && (order < 0) == (actual < 0));
    mpq_add(z, x, y);
    check_ratio(tv_ratio_add(a, b), z);
    if (order < 0)
        mpq_sub(z, y, x);
    else
        mpq_sub(z, x, y);
    check_ratio(order < 0 ? tv_ratio_sub(b, a) : tv_ratio_sub(a, b), z);
    uint64_t p = unit_sized(rng, factor_bits), q = unit_sized(rng, factor_bits) + (factor_bits < 40 ? 1 : 0);
    uint64_t small = 1 + unit_below(rng, 64);
    if (unit_below(rng, 4) == 0 && p < UINT64_C(1) << 34) /* as rates often are: one is a multiple of the other */
        q = unit_below(rng, 2) ? p * small : (p *= small) / small;
    mpq_set_ui(factor, p, q ? q : 1);
    mpq_canonicalize(factor);
    mpq_mul(z, x, factor);
    check_ratio(tv_ratio_scale(a, p, q ? q : 1), z);
    mpz_cdiv_q(mpq_numref(z), mpq_numref(x), mpq_denref(x));
    assert_int_equal(tv_ratio_ceil(a), mpz_get_ui(mpq_numref(z)));
    mpz_set_ui(mpq_denref(z), 1);
    mpq_clears(x, y, z, factor, (mpq_ptr)NULL);
}

static void ratio_operations_equal_gmp(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned i = 0; i < 200000; i++)
        check_operations(&rng, 30, 20, 20);
}

static void ratios_too_fine_are_rounded_up_by_less_than_2_to_minus_60(void **state)
{
    (void)state;
    unit_rng rng = {2};
    for (unsigned i = 0; i < 200000; i++)
        check_operations(&rng, 22, 61, 40);
}

/* ---- Sharing: the exact model ---- */

typedef struct model_flow {
    mpq_t rate, moved, speed;
    uint64_t start, limit;
    bool active;
} model_flow;

typedef struct model {
    mpq_t now, capacity;
    unsigned count;
    model_flow flows[TV_FLOWS_MAX];
    bool exact; /* no number so far was too fine for tv_ratio */
} model;

static void model_init(model *m, const tv_rate *rates, unsigned count)
{
    mpq_inits(m->now, m->capacity, (mpq_ptr)NULL);
    mpq_set_ui(m->capacity, rates[0].num, rates[0].den);
    m->count = count;
    m->exact = true;
    for (unsigned i = 0; i < count; i++) {
        model_flow *f = &m->flows[i];
        mpq_inits(f->rate, f->moved, f->speed, (mpq_ptr)NULL);
        mpq_set_ui(f->rate, rates[i + 1].num, rates[i + 1].den);
        mpq_canonicalize(f->rate);
        f->start = f->limit = 0;
    }
}

static void model_fini(model *m)
{
    mpq_clears(m->now, m->capacity, (mpq_ptr)NULL);
    for (unsigned i = 0; i < m->count; i++)
        mpq_clears(m->flows[i].rate, m->flows[i].moved, m->flows[i].speed, (mpq_ptr)NULL);
}

/* Progressive filling: flows that need less than an even share of the rest get their rate; repeat with the others. */
static void model_speeds(model *m)
{
    mpq_t left, share;
    mpq_inits(left, share, (mpq_ptr)NULL);
    mpq_set(left, m->capacity);
    bool decided[TV_FLOWS_MAX];
    unsigned undecided = 0;
    for (unsigned i = 0; i < m->count; i++) {
        model_flow *f = &m->flows[i];
        f->active = mpq_cmp_ui(f->moved, f->limit, 1) < 0 && mpq_cmp_ui(m->now, f->start, 1) >= 0;
        mpq_set_ui(f->speed, 0, 1);
        decided[i] = !f->active;
        undecided += f->active;
    }
    for (bool changed = true; changed && undecided;) {
        changed = false;
        mpq_set_ui(share, 1, undecided);
        mpq_mul(share, share, left);
        for (unsigned i = 0; i < m->count; i++) {
            model_flow *f = &m->flows[i];
            if (decided[i] || mpq_cmp(f->rate, share) > 0)
                continue;
            mpq_set(f->speed, f->rate);
            mpq_sub(left, left, f->rate);
            decided[i] = changed = true;
            undecided--;
        }
    }
    for (unsigned i = 0; i < m->count; i++)
        if (!decided[i])
            mpq_set(m->flows[i].speed, share);
    mpq_clears(left, share, (mpq_ptr)NULL);
}

static void earliest(mpq_t best, bool *found, const mpq_t t)
{
    if (!*found || mpq_cmp(t, best) < 0)
        mpq_set(best, t);
    *found = true;
}

/* One stretch of constant speeds: to `end`, or to when `flow` (if >= 0) has moved `target`, at the latest. False:
 * nothing would ever happen again. */
static bool model_step(model *m, const uint64_t *end, int flow, uint64_t target)
{
    mpq_t t, next, moved;
    mpq_inits(t, next, moved, (mpq_ptr)NULL);
    bool found = false;
    model_speeds(m);
    if (end) {
        mpq_set_ui(t, *end, 1);
        earliest(next, &found, t);
    }
    for (unsigned i = 0; i < m->count; i++) {
        model_flow *f = &m->flows[i];
        if (mpq_cmp_ui(m->now, f->start, 1) < 0) {
            mpq_set_ui(t, f->start, 1);
            earliest(next, &found, t);
        }
        if (!f->active)
            continue;
        mpq_set_ui(t, flow == (int)i && target < f->limit ? target : f->limit, 1);
        mpq_sub(t, t, f->moved);
        mpq_div(t, t, f->speed);
        mpq_add(t, t, m->now);
        earliest(next, &found, t);
    }
    mpq_sub(t, next, m->now);
    m->exact = m->exact && fits(t) && fits(next);
    for (unsigned i = 0; found && i < m->count; i++) {
        mpq_mul(moved, t, m->flows[i].speed);
        m->exact = m->exact && fits(moved);
        mpq_add(m->flows[i].moved, m->flows[i].moved, moved);
        m->exact = m->exact && fits(m->flows[i].moved);
    }
    if (found)
        mpq_set(m->now, next);
    mpq_clears(t, next, moved, (mpq_ptr)NULL);
    return found;
}

static void model_advance(model *m, uint64_t cycle)
{
    while (mpq_cmp_ui(m->now, cycle, 1) < 0)
        model_step(m, &cycle, -1, 0);
}

static void model_wait(model *m, unsigned flow, uint64_t target)
{
    while (mpq_cmp_ui(m->flows[flow].moved, target, 1) < 0)
        assert_true(model_step(m, NULL, (int)flow, target));
}

/* ---- Sharing: the comparison ---- */

typedef struct moved_log {
    mpq_t sum[TV_FLOWS_MAX];
} moved_log;

static void log_moved(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved)
{
    moved_log *log = user;
    mpq_t q;
    mpq_init(q);
    to_mpq(q, moved);
    mpq_add(log->sum[flow], log->sum[flow], q);
    mpq_clear(q);
    assert_true(tv_ratio_cmp(t0, t1) <= 0);
}

static void check_near(tv_ratio actual, const mpq_t exact, bool strictly)
{
    mpq_t got, bound;
    mpq_inits(got, bound, (mpq_ptr)NULL);
    to_mpq(got, actual);
    mpq_sub(got, got, exact);
    mpq_abs(got, got);
    mpq_set_ui(bound, strictly ? 0 : 1, UINT64_C(1) << 40);
    if (mpq_cmp(got, bound) > 0) {
        gmp_fprintf(stderr, "expected %Qd, got %llu + %llu / %llu\n", exact, (unsigned long long)actual.whole,
                    (unsigned long long)actual.num, (unsigned long long)actual.den);
        fail();
    }
    mpq_clears(got, bound, (mpq_ptr)NULL);
}

static tv_rate random_rate(unit_rng *rng)
{
    static const uint32_t denominators[] = {1, 1, 2, 3, 5, 7, 10};
    tv_rate r = {1 + (uint32_t)unit_below(rng, 100), denominators[unit_below(rng, TV_COUNTOF(denominators))]};
    for (uint32_t d = 2; d <= 7; d++)
        while (r.num % d == 0 && r.den % d == 0) {
            r.num /= d;
            r.den /= d;
        }
    return r;
}

static void share_operation(unit_rng *rng, tv_share *share, model *m)
{
    unsigned i = (unsigned)unit_below(rng, m->count);
    uint64_t more = unit_below(rng, 2000), cycle = tv_ratio_ceil(share->now) + unit_below(rng, 60);
    switch (unit_below(rng, 4)) {
    case 0:
        tv_share_advance(share, cycle);
        model_advance(m, cycle);
        break;
    case 1:
        share->flows[i].limit = m->flows[i].limit += more;
        break;
    case 2: /* a flow that was not to start yet, or that has nothing to do, starts later */
        if (share->flows[i].moved.whole >= share->flows[i].limit)
            share->flows[i].start = m->flows[i].start = cycle;
        break;
    default: {
        uint64_t target = unit_below(rng, m->flows[i].limit + 1);
        bool there = mpq_cmp_ui(m->flows[i].moved, target, 1) >= 0;
        tv_share_target(share, i, target);
        assert_int_equal(share->flows[i].waiting, !there);
        tv_ratio arrived = tv_share_wait(share, i);
        model_wait(m, i, target);
        check_near(arrived, m->now, m->exact);
        break;
    }
    }
}

/* Any rates; a memory that is faster than all flows together; or the rates of pccx. Returns the number of flows. */
static unsigned random_rates(unit_rng *rng, tv_rate rates[TV_FLOWS_MAX + 1])
{
    static const tv_rate pccx[] = {{48, 1}, {20, 1}, {20, 1}, {10, 1}};
    unsigned kind = (unsigned)unit_below(rng, 3), count = 1 + (unsigned)unit_below(rng, kind ? 3 : TV_FLOWS_MAX);
    for (unsigned i = 0; i <= count; i++)
        rates[i] = kind == 2 ? pccx[i] : random_rate(rng);
    if (kind == 1)
        rates[0] = (tv_rate){1000, 1};
    return count;
}

static unsigned check_scenario(unit_rng *rng)
{
    tv_rate rates[TV_FLOWS_MAX + 1];
    unsigned count = random_rates(rng, rates);
    bool logged = unit_below(rng, 2); /* otherwise in ticks where that is possible */
    tv_share share;
    model m;
    moved_log log;
    model_init(&m, rates, count);
    assert_true(tv_share_init(&share, rates, count));
    share.moved = logged ? log_moved : NULL;
    share.user = &log;
    for (unsigned i = 0; i < count; i++) {
        mpq_init(log.sum[i]);
        share.flows[i].limit = m.flows[i].limit = unit_below(rng, 3000);
        share.flows[i].start = m.flows[i].start = unit_below(rng, 3) ? unit_below(rng, 100) : 0;
    }
    unsigned operations = 1 + (unsigned)unit_below(rng, 12), strict = 0;
    for (unsigned n = 0; n < operations; n++) {
        share_operation(rng, &share, &m);
        check_near(share.now, m.now, m.exact);
        strict += m.exact;
        for (unsigned i = 0; i < count; i++) {
            check_near(share.flows[i].moved, m.flows[i].moved, m.exact);
            if (logged)
                check_near(share.flows[i].moved, log.sum[i], m.exact);
        }
    }
    for (unsigned i = 0; i < count; i++)
        mpq_clear(log.sum[i]);
    model_fini(&m);
    return strict;
}

static void flows_share_max_min_fairly_as_the_exact_model(void **state)
{
    (void)state;
    unit_rng rng = {3};
    unsigned strict = 0;
    for (unsigned i = 0; i < 6000; i++)
        strict += check_scenario(&rng);
    assert_true(strict > 20000); /* most were compared without tolerance */
}

static void share_rejects_rates_without_a_common_unit(void **state)
{
    (void)state;
    tv_share share;
    const tv_rate apart[] = {{1, 1048573}, {1, 1}, {1, 3}};
    assert_false(tv_share_init(&share, apart, 2));
    const tv_rate pccx[] = {{48, 1}, {20, 1}, {20, 1}, {10, 1}};
    assert_true(tv_share_init(&share, pccx, 3));
}

static void two_streams_and_a_copy_share_48_bytes_a_cycle(void **state)
{
    (void)state;
    const tv_rate pccx[] = {{48, 1}, {20, 1}, {20, 1}, {10, 1}};
    tv_share share;
    assert_true(tv_share_init(&share, pccx, 3));
    for (unsigned i = 0; i < 3; i++)
        share.flows[i].limit = 1000000;
    tv_share_advance(&share, 100); /* 10, and (48 - 10) / 2 each */
    assert_int_equal(share.flows[0].moved.whole, 1900);
    assert_int_equal(share.flows[1].moved.whole, 1900);
    assert_int_equal(share.flows[2].moved.whole, 1000);
}

/* ---- Accounts and memory ---- */

static void accounts_add_up_to_every_cycle(void **state)
{
    (void)state;
    unit_rng rng = {4};
    for (unsigned n = 0; n < 2000; n++) {
        enum { CYCLES = 400 };
        uint64_t count[TV_STALL_REASONS_MAX + 2] = {0}, at = 0; /* reasons, then busy, then idle */
        tv_account account = {.name = "engine"};
        for (;;) {
            uint64_t from = at + unit_below(&rng, 10), to = from + unit_below(&rng, 20);
            unsigned kind = (unsigned)unit_below(&rng, TV_STALL_REASONS_MAX + 1);
            if (to > CYCLES)
                break;
            if (kind == TV_STALL_REASONS_MAX)
                tv_account_busy(&account, from, to);
            else
                tv_account_stall(&account, kind, from, to);
            if (to > from) {
                count[TV_STALL_REASONS_MAX + 1] += from - at;
                count[kind] += to - from;
                at = to;
            }
        }
        count[TV_STALL_REASONS_MAX + 1] += CYCLES - at;
        tv_account_finalize(&account, CYCLES);
        for (unsigned i = 0; i < TV_STALL_REASONS_MAX; i++)
            assert_int_equal(account.stalled[i], count[i]);
        assert_int_equal(account.busy, count[TV_STALL_REASONS_MAX]);
        assert_int_equal(account.idle, count[TV_STALL_REASONS_MAX + 1]);
    }
}

/* ---- Stalls and bottlenecks ---- */

enum { REASONS = 3 };
static const char *const reason_names[REASONS] = {"first", "second", "third"};

/* Each cycle has the first reason that still applies in it; the engine is stalled only where it is free. */
static void a_stall_cycle_has_the_first_reason_that_still_applies(void **state)
{
    (void)state;
    unit_rng rng = {6};
    for (unsigned n = 0; n < 2000; n++) {
        tv_account scheduler = {.name = "scheduler", .cursor = 10}, engine = {.name = "engine", .cursor = 5};
        tv_stall stalls[REASONS] = {0};
        uint64_t expected[2][REASONS] = {{0}}, issue = 10, engine_free = unit_below(&rng, 30);
        for (unsigned r = 0; r < REASONS; r++) {
            tv_stall_extend(&stalls[r], unit_below(&rng, 40), (int64_t)r);
            tv_stall_extend(&stalls[r], unit_below(&rng, 40), (int64_t)r);
            issue = stalls[r].until > issue ? stalls[r].until : issue;
        }
        for (uint64_t cycle = 10; cycle < issue; cycle++) {
            unsigned r = 0;
            while (stalls[r].until <= cycle)
                r++;
            expected[0][r]++;
            expected[1][r] += cycle >= engine_free;
        }
        engine.cursor = engine_free < 5 ? engine_free : 5;
        tv_stall_accounts accounts = {
            .scheduler = &scheduler, .engine = &engine, .engine_free = engine_free, .reasons = reason_names};
        assert_int_equal(tv_stalls_end(stalls, REASONS, 10), issue);
        assert_int_equal(tv_attribute_stalls(stalls, REASONS, 10, &accounts), issue);
        for (unsigned r = 0; r < REASONS; r++) {
            assert_int_equal(scheduler.stalled[r], expected[0][r]);
            assert_int_equal(engine.stalled[r], expected[1][r]);
        }
    }
}

typedef struct bottleneck_row {
    uint64_t busy[2], stalled[2]; /* of two engines; stalled by "second" */
    unsigned scheduler;
    const char *bound_by;
    double share;
    const char *text;
} bottleneck_row;

static void the_bottleneck_is_the_busiest_resource_or_latency(void **state)
{
    (void)state;
    static const bottleneck_row rows[] = {
        {{50, 20}, {0, 0}, 1, "A", 0.5, "bound by A (work): 50 % of cycles"},
        {{60, 60}, {0, 0}, 1, "A", 0.6, "bound by A (work): 60 % of cycles"},
        {{10, 90}, {0, 0}, 1, "B", 0.9, "bound by B (work): 90 % of cycles"},
        {{49, 20},
         {0, 30},
         1,
         "latency",
         0.3,
         "bound by latency: B is stalled by second in 30 % of cycles; no engine is busy in half of them"},
        {{40, 20},
         {5, 30},
         TV_NO_SCHEDULER,
         "latency",
         0.4,
         "bound by latency: no engine is busy in half of the cycles; most stall cycles are second"},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        tv_account accounts[2] = {{.name = "A"}, {.name = "B"}};
        tv_stats stats = {0};
        for (unsigned e = 0; e < 2; e++) {
            tv_account_busy(&accounts[e], 0, rows[i].busy[e]);
            tv_account_stall(&accounts[e], 1, rows[i].busy[e], rows[i].busy[e] + rows[i].stalled[e]);
            tv_account_finalize(&accounts[e], 100);
        }
        tv_stats_set_time(&stats, 100, 50);
        tv_stats_set_engines(&stats, accounts, 2, reason_names, REASONS);
        tv_bottleneck bottleneck = {.cycles = 100};
        tv_bottleneck_add_engines(&bottleneck, &stats, 2, "work");
        tv_bottleneck_classify(&bottleneck, rows[i].scheduler, &stats);
        assert_true(stats.seconds == 2.0 && stats.engines[0].idle == 100 - rows[i].busy[0] - rows[i].stalled[0]);
        assert_string_equal(stats.bound_by, rows[i].bound_by);
        assert_true(stats.bound_share == rows[i].share);
        assert_string_equal(stats.bottleneck, rows[i].text);
    }
}

static void memory_starts_as_zero_and_zeroes_exactly_the_range(void **state)
{
    (void)state;
    enum { SIZE = 1 << 19 };
    tv_memory memory;
    unit_rng rng = {5};
    uint8_t *model_bytes = malloc(SIZE);
    assert_non_null(model_bytes);
    assert_int_equal(tv_memory_init(&memory, SIZE, NULL), TV_OK);
    for (unsigned i = 0; i < SIZE; i += 4096)
        assert_int_equal(memory.bytes[i], 0);
    for (unsigned n = 0; n < 100; n++) {
        memset(memory.bytes, 0xA5, SIZE);
        memset(model_bytes, 0xA5, SIZE);
        uint64_t addr = unit_below(&rng, SIZE), size = unit_below(&rng, SIZE - addr + 1);
        if (n % 4 == 0) {
            addr &= ~(uint64_t)0xFFFF;
            size &= ~(uint64_t)0xFFFF;
        }
        tv_memory_zero(&memory, addr, size);
        memset(model_bytes + addr, 0, size);
        assert_memory_equal(memory.bytes, model_bytes, SIZE);
    }
    assert_true(tv_memory_contains(&memory, SIZE, 0) && tv_memory_contains(&memory, SIZE - 1, 1));
    assert_false(tv_memory_contains(&memory, SIZE - 1, 2) || tv_memory_contains(&memory, UINT64_MAX, 2));
    assert_false(tv_memory_contains(&memory, 1, UINT64_MAX));
    tv_memory_fini(&memory);
    free(model_bytes);
}

/* ---- Threads ---- */

enum { POOL_COUNT = 1000 };

typedef struct pool_work {
    uint8_t done[POOL_COUNT];
    uint64_t count;
    bool slow;
    atomic_uint errors; /* assertions belong to the thread that runs the tests */
} pool_work;

static void mark(void *user, uint64_t from, uint64_t to)
{
    pool_work *w = user;
    if (from >= to || to > w->count)
        w->errors++;
    for (uint64_t i = from; i < to && i < POOL_COUNT; i++)
        w->done[i]++;
    for (volatile unsigned i = 0; i < 100000 && w->slow; i++)
        continue;
}

/* Loops that follow each other immediately, and after the threads have gone to sleep. */
static void every_iteration_of_every_loop_runs_once(void **state)
{
    (void)state;
    unit_rng rng = {77};
    for (unsigned threads = 1; threads <= 5; threads++) {
        tv_pool *pool = tv_pool_new(threads);
        for (unsigned round = 0; round < 1000; round++) {
            pool_work w = {.count = 1 + unit_below(&rng, unit_below(&rng, 2) ? 20 : POOL_COUNT),
                           .slow = round % 256 == 0};
            if (round % 512 == 0)
                nanosleep(&(struct timespec){0, 2000000}, NULL);
            tv_pool_run(pool, w.count, mark, &w);
            assert_int_equal(w.errors, 0);
            for (uint64_t i = 0; i < POOL_COUNT; i++)
                assert_int_equal(w.done[i], i < w.count);
        }
        tv_pool_free(pool);
    }
}

static void run_job(void *user)
{
    pool_work *w = user;
    mark(w, 0, w->count);
}

/* Jobs of both outcomes of tv_pool_begin, quick and slow ones beside quick and slow loops, and after the threads have
 * gone to sleep. */
static void a_job_runs_once_beside_loops_of_the_caller(void **state)
{
    (void)state;
    unit_rng rng = {78};
    for (unsigned threads = 1; threads <= 4; threads++) {
        tv_pool *pool = tv_pool_new(threads);
        unsigned begun = 0;
        for (unsigned round = 0; round < 1000; round++) {
            pool_work job = {.count = 1 + unit_below(&rng, POOL_COUNT), .slow = round % 64 == 0}, loop = {0};
            if (round % 256 == 0)
                nanosleep(&(struct timespec){0, 2000000}, NULL);
            bool shared = tv_pool_begin(pool, 7, run_job, &job);
            assert_true(threads > 1 || !shared);
            begun += shared;
            for (unsigned i = 0; i < round % 3; i++) {
                loop = (pool_work){.count = 1 + unit_below(&rng, POOL_COUNT), .slow = round % 100 == 0};
                tv_pool_run(pool, loop.count, mark, &loop);
                for (uint64_t k = 0; k < POOL_COUNT; k++)
                    assert_int_equal(loop.done[k], k < loop.count);
            }
            tv_pool_end(pool);
            assert_int_equal(job.errors + loop.errors, 0);
            for (uint64_t k = 0; k < POOL_COUNT; k++)
                assert_int_equal(job.done[k], shared && k < job.count);
        }
        assert_true(begun > 0 || threads == 1);
        tv_pool_free(pool);
    }
}

/* The caller has nothing else to do, so that a job beside it only takes longer than none. */
static void jobs_that_gain_nothing_are_not_begun(void **state)
{
    (void)state;
    tv_pool *pool = tv_pool_new(2);
    unsigned begun = 0;
    for (unsigned round = 0; round < 60; round++) {
        pool_work job = {.count = 1, .slow = true};
        begun += tv_pool_begin(pool, 7, run_job, &job);
        tv_pool_end(pool);
    }
    tv_pool_free(pool);
    assert_in_range(begun, 1, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratio_operations_equal_gmp),
        cmocka_unit_test(ratios_too_fine_are_rounded_up_by_less_than_2_to_minus_60),
        cmocka_unit_test(flows_share_max_min_fairly_as_the_exact_model),
        cmocka_unit_test(share_rejects_rates_without_a_common_unit),
        cmocka_unit_test(two_streams_and_a_copy_share_48_bytes_a_cycle),
        cmocka_unit_test(accounts_add_up_to_every_cycle),
        cmocka_unit_test(a_stall_cycle_has_the_first_reason_that_still_applies),
        cmocka_unit_test(the_bottleneck_is_the_busiest_resource_or_latency),
        cmocka_unit_test(memory_starts_as_zero_and_zeroes_exactly_the_range),
        cmocka_unit_test(every_iteration_of_every_loop_runs_once),
        cmocka_unit_test(a_job_runs_once_beside_loops_of_the_caller),
        cmocka_unit_test(jobs_that_gain_nothing_are_not_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
