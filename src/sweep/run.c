/* SPDX-License-Identifier: Apache-2.0 */
/* Running a sweep: threads claim the points of a batch that the search proposes, one by one. The search sees all
 * results of a batch in the same order, so that its next points do not depend on the threads. */
#include <math.h>
#include <pthread.h>
#include <sha2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/schema.h"
#include "machine/target.h"
#include "sim/pool.h"
#include "sweep/pareto.h"
#include "sweep/sweep.h"

enum { BATCH = 1024, THREADS_MAX = 256, PATH_BYTES = 4200 };

/* The files of a task of a cluster. */
typedef struct slice {
    uint64_t index, count;
    const char *folder;
    double seconds, written; /* between files; time of the last one */
    uint64_t number;         /* of the next file */
    tv_buf lines;            /* results that are in no file */
} slice;

typedef struct runner {
    tv_sweep *sweep;
    sweep_store *store;
    const tv_sweep_options *options;
    const tv_diag_sink *sink;
    slice *slice; /* or NULL */
    pthread_t caller;
    pthread_mutex_t lock;                 /* of the members below, up to the batch */
    sweep_context *contexts[THREADS_MAX]; /* that no thread uses */
    unsigned context_count;
    tv_sweep_progress progress;
    tv_status status;
    atomic_bool ended; /* stopped by the caller, or failed */
    bool stopped;
    unsigned target;
    sweep_point *batch;
    size_t batch_count;
    atomic_size_t next; /* point of the batch */
} runner;

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- One result ---- */

/* The configuration as text, a line for each parameter, and one for extensions. NULL: out of memory. */
static char *describe_config(const tv_config *config)
{
    tv_buf text = {0};
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        tv_buf_printf(&text, "%s=%s\n", e.key, e.value);
    const tv_isa *isa = ((const tv_target *)tv_config_schema(config)->machine)->isa;
    if (*isa->extensions)
        tv_buf_printf(&text, "extensions=%s\n", isa->extensions);
    return tv_buf_take(&text);
}

static void make_key(char key[STORE_KEY], const char *target, const char *configuration, const char *digest)
{
    SHA2_CTX hash;
    const char *const texts[] = {tv_version(), target, configuration, digest};
    SHA256Init(&hash);
    for (size_t i = 0; i < TV_COUNTOF(texts); i++)
        SHA256Update(&hash, (const uint8_t *)texts[i], strlen(texts[i]) + 1);
    SHA256End(&hash, key);
}

static tv_status keep_line(runner *r, const store_row *row, const sweep_result *result)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    tv_status status = file ? tv_result_write(file, row, result) : TV_ERR_MEMORY;
    if (file && fclose(file) != 0)
        status = TV_ERR_MEMORY;
    if (status == TV_OK) {
        pthread_mutex_lock(&r->lock);
        tv_buf_append(&r->slice->lines, text, size);
        if (size == 0 || text[size - 1] != '\n')
            tv_buf_append(&r->slice->lines, "\n", 1);
        status = r->slice->lines.failed ? TV_ERR_MEMORY : TV_OK;
        pthread_mutex_unlock(&r->lock);
    }
    free(text);
    return status;
}

static tv_status evaluate_workload(runner *r, sweep_context *context, size_t w, const tv_config *config,
                                   const char *configuration, sweep_result *out)
{
    bool found;
    const spec_workload *workload = &r->sweep->spec.workloads.data[w];
    store_row row = {.target = tv_config_target(config), .workload = workload->name, .configuration = configuration};
    make_key(row.key, row.target, configuration, workload->digest);
    TV_TRY(tv_store_find(r->store, row.key, r->sink, &found, out));
    if (found)
        return TV_OK;
    TV_TRY(tv_context_run(context, w, config, out));
    TV_TRY(tv_store_add(r->store, &row, out, r->sink));
    pthread_mutex_lock(&r->lock);
    r->progress.computed++;
    pthread_mutex_unlock(&r->lock);
    return r->slice ? keep_line(r, &row, out) : TV_OK;
}

/* ---- One point ---- */

static tv_status configure(const spec_target *target, uint64_t id, tv_config **out)
{
    uint32_t values[TV_SEARCH_DIMS_MAX];
    TV_TRY(tv_config_copy(target->base, NULL, out));
    tv_search_space_decode(&target->space, id, values);
    for (size_t d = 0; d < target->parameters.count; d++) {
        const spec_parameter *p = &target->parameters.data[d];
        tv_status status = tv_config_set(*out, p->key, p->texts.data[values[d]], NULL);
        if (status != TV_OK) {
            tv_config_free(*out);
            return status;
        }
    }
    return TV_OK;
}

static void sum_objectives(const tv_sweep *sweep, sweep_point *p)
{
    const spec_target *target = &sweep->spec.targets.data[p->target];
    double values[SPEC_NUMBERS_MAX], *sums = values + target->defaults.count, tokens = 0, token_seconds = 0;
    uint32_t indices[TV_SEARCH_DIMS_MAX];
    tv_search_space_decode(&target->space, p->id, indices);
    tv_spec_numbers(target, indices, values);
    for (unsigned i = 0; i < POINT_SUMS; i++)
        sums[i] = 0;
    for (size_t w = 0; w < sweep->spec.workloads.count; w++) {
        const sweep_result *r = &p->results[w];
        if (!tv_sweep_runs_on(sweep, w, p->target))
            continue;
        p->failed |= r->outcome != OUTCOME_OK;
        sums[SUM_CYCLES] += (double)r->cycles;
        sums[SUM_SECONDS] += r->clock_hz > 0 ? (double)r->cycles / r->clock_hz : 0;
        sums[SUM_BYTES] += (double)r->bytes;
        sums[SUM_MACS] += (double)r->macs;
        sums[SUM_INSTRUCTIONS] += (double)r->instructions;
        sums[SUM_ENERGY] += r->energy;
        tokens += (double)r->tokens;
        token_seconds += r->clock_hz > 0 ? (double)r->token_cycles / r->clock_hz : 0;
    }
    sums[SUM_EDP] = sums[SUM_ENERGY] * sums[SUM_SECONDS];
    sums[SUM_TOKENS_PER_SECOND] = token_seconds > 0 ? tokens / token_seconds : 0;
    for (unsigned i = 0; i < sweep->spec.objective_count; i++) {
        const spec_objective *o = &sweep->spec.objectives[i];
        p->objectives[i] = o->sum < POINT_SUMS ? sums[o->sum] : tv_expression_value(target->objectives[i], values);
        p->failed |= !isfinite(p->objectives[i]); /* an expression that divides by zero */
    }
    for (unsigned i = 0; i < sweep->spec.objective_count && p->failed; i++)
        p->objectives[i] = NAN;
}

static tv_status evaluate_point(runner *r, sweep_context *context, sweep_point *p)
{
    const tv_sweep *sweep = r->sweep;
    tv_config *config;
    TV_TRY(configure(&sweep->spec.targets.data[p->target], p->id, &config));
    char *configuration = describe_config(config);
    tv_status status = configuration ? TV_OK : TV_ERR_MEMORY;
    for (size_t w = 0; w < sweep->spec.workloads.count && status == TV_OK; w++)
        if (tv_sweep_runs_on(sweep, w, p->target))
            status = evaluate_workload(r, context, w, config, configuration, &p->results[w]);
    free(configuration);
    tv_config_free(config);
    if (status == TV_OK)
        sum_objectives(sweep, p);
    return status;
}

/* ---- Threads ---- */

static tv_status take_context(runner *r, sweep_context **out)
{
    pthread_mutex_lock(&r->lock);
    *out = r->context_count ? r->contexts[--r->context_count] : NULL;
    pthread_mutex_unlock(&r->lock);
    return *out ? TV_OK : tv_context_new(&r->sweep->spec, r->sweep->services, NULL, out);
}

static void return_context(runner *r, sweep_context *context)
{
    pthread_mutex_lock(&r->lock);
    bool kept = r->context_count < THREADS_MAX;
    if (kept)
        r->contexts[r->context_count++] = context;
    pthread_mutex_unlock(&r->lock);
    if (!kept && context != r->sweep->first)
        tv_context_free(context);
}

static void fail_run(runner *r, tv_status status)
{
    pthread_mutex_lock(&r->lock);
    if (r->status == TV_OK)
        r->status = status;
    pthread_mutex_unlock(&r->lock);
    r->ended = true;
}

static tv_status write_slice(runner *r);

/* What only the thread of the caller does: progress, and files of a slice. */
static void report_progress(runner *r)
{
    if (r->slice && now_seconds() - r->slice->written >= r->slice->seconds) {
        tv_status status = write_slice(r);
        if (status != TV_OK)
            fail_run(r, status);
    }
    if (!r->options->progress)
        return;
    pthread_mutex_lock(&r->lock);
    tv_sweep_progress progress = r->progress;
    pthread_mutex_unlock(&r->lock);
    if (r->options->progress(r->options->user, &progress) != 0) {
        r->stopped = true;
        r->ended = true;
    }
}

static void count_point(runner *r, const sweep_point *p)
{
    pthread_mutex_lock(&r->lock);
    r->progress.done++;
    r->progress.failed += p->failed;
    pthread_mutex_unlock(&r->lock);
    if (pthread_equal(pthread_self(), r->caller))
        report_progress(r);
}

/* Evaluates points of the batch until none is left. Points after an end have no results. */
static void evaluate_points(void *user, uint64_t from, uint64_t to)
{
    runner *r = user;
    sweep_context *context = NULL;
    (void)from;
    (void)to;
    for (size_t i; !r->ended && (i = atomic_fetch_add(&r->next, 1)) < r->batch_count;) {
        sweep_point *p = &r->batch[i];
        tv_status status = context ? TV_OK : take_context(r, &context);
        if (status == TV_OK && !(p->results = calloc(r->sweep->spec.workloads.count, sizeof *p->results)))
            status = TV_ERR_MEMORY;
        if (status == TV_OK)
            status = evaluate_point(r, context, p);
        if (status != TV_OK) {
            fail_run(r, status);
            for (size_t w = 0; p->results && w < r->sweep->spec.workloads.count; w++)
                free(p->results[w].stats);
            free(p->results);
            p->results = NULL;
            break;
        }
        count_point(r, p);
    }
    if (context)
        return_context(r, context);
}

/* ---- The search ---- */

/* Whether a point belongs to the slice; `number` counts the points of the search. */
static bool is_chosen(const runner *r, uint64_t number)
{
    return !r->slice || number % r->slice->count == r->slice->index;
}

static tv_status record_batch(runner *r, tv_search *search)
{
    const sweep_spec *spec = &r->sweep->spec;
    for (size_t i = 0; i < r->batch_count; i++) {
        const sweep_point *p = &r->batch[i];
        double objectives[TV_SWEEP_OBJECTIVES_MAX];
        if (!p->results)
            continue;
        for (unsigned k = 0; k < spec->objective_count; k++)
            objectives[k] = spec->objectives[k].maximize ? -p->objectives[k] : p->objectives[k];
        TV_TRY(tv_search_record(search, p->id, p->failed ? NULL : objectives));
        if (!TV_VEC_PUSH(&r->sweep->points, *p))
            return TV_ERR_MEMORY;
        r->batch[i].results = NULL;
    }
    return TV_OK;
}

static tv_status run_batch(runner *r, tv_pool *pool, tv_search *search, uint64_t *number)
{
    uint64_t ids[BATCH];
    size_t count;
    TV_TRY(tv_search_next(search, ids, BATCH, &count));
    r->batch_count = 0;
    for (size_t i = 0; i < count; i++)
        if (is_chosen(r, (*number)++))
            r->batch[r->batch_count++] = (sweep_point){.target = r->target, .id = ids[i]};
    r->next = 0;
    uint64_t threads = r->options->threads > 1 ? r->options->threads : 1;
    tv_pool_run(pool, tv_min_u64(threads, THREADS_MAX), evaluate_points, r);
    tv_status status = record_batch(r, search);
    for (size_t i = 0; i < r->batch_count; i++)
        free(r->batch[i].results); /* only after a failure */
    return r->status == TV_OK ? status : r->status;
}

static tv_status search_target(runner *r, tv_pool *pool, uint64_t *number)
{
    tv_search *search;
    TV_TRY(tv_search_new(&r->sweep->spec.targets.data[r->target].space, &r->sweep->spec.search, &search));
    tv_status status = TV_OK;
    while (status == TV_OK && !r->ended && !tv_search_is_done(search))
        status = run_batch(r, pool, search, number);
    tv_search_free(search);
    return status;
}

static uint64_t planned_points(const runner *r)
{
    const sweep_spec *spec = &r->sweep->spec;
    uint64_t total = 0;
    for (size_t t = 0; t < spec->targets.count; t++) {
        uint64_t points = tv_search_space_total(&spec->targets.data[t].space);
        total += spec->search.budget ? tv_min_u64(points, spec->search.budget) : points;
    }
    return r->slice ? tv_ceil_div(total, r->slice->count) : total;
}

static int compare_points(const void *a, const void *b)
{
    const sweep_point *x = a, *y = b;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static tv_status mark_front(tv_sweep *sweep)
{
    unsigned k = sweep->spec.objective_count;
    size_t count = 0, front_count = 0, n = sweep->points.count;
    double *values = calloc(n ? n : 1, k * sizeof *values);
    size_t *indices = calloc(n ? n : 1, sizeof *indices), *front = calloc(n ? n : 1, sizeof *front);
    tv_status status = values && indices && front ? TV_OK : TV_ERR_MEMORY;
    for (size_t i = 0; i < n && status == TV_OK; i++) {
        const sweep_point *p = &sweep->points.data[i];
        if (p->failed)
            continue;
        for (unsigned o = 0; o < k; o++)
            values[count * k + o] = sweep->spec.objectives[o].maximize ? -p->objectives[o] : p->objectives[o];
        indices[count++] = i;
    }
    if (status == TV_OK)
        status = tv_pareto_front(values, count, k, front, &front_count);
    for (size_t i = 0; i < front_count && status == TV_OK; i++)
        sweep->points.data[indices[front[i]]].on_front = true;
    free(values);
    free(indices);
    free(front);
    return status;
}

static tv_status run_searches(runner *r)
{
    tv_sweep *sweep = r->sweep;
    tv_status status = TV_OK;
    uint64_t number = 0;
    unsigned threads = r->options->threads < THREADS_MAX ? r->options->threads : THREADS_MAX;
    tv_pool *pool = tv_pool_new(threads);
    r->batch = calloc(BATCH, sizeof *r->batch);
    if (!r->batch)
        status = TV_ERR_MEMORY;
    tv_sweep_clear_points(sweep);
    pthread_mutex_init(&r->lock, NULL);
    r->caller = pthread_self();
    r->contexts[r->context_count++] = sweep->first;
    r->progress.total = planned_points(r);
    for (r->target = 0; r->target < sweep->spec.targets.count && status == TV_OK && !r->ended; r->target++)
        status = search_target(r, pool, &number);
    if (status == TV_OK && !r->ended)
        report_progress(r); /* the last points may be those of other threads */
    if (sweep->points.count)
        qsort(sweep->points.data, sweep->points.count, sizeof *sweep->points.data, compare_points);
    if (status == TV_OK)
        status = mark_front(sweep);
    if (status == TV_OK && r->slice)
        status = write_slice(r);
    for (unsigned i = 0; i < r->context_count; i++)
        if (r->contexts[i] != sweep->first)
            tv_context_free(r->contexts[i]);
    pthread_mutex_destroy(&r->lock);
    tv_pool_free(pool);
    free(r->batch);
    if (status != TV_OK)
        tv_sweep_clear_points(sweep);
    return status == TV_ERR_MEMORY ? tv_fail_memory(r->sink) : status;
}

tv_status tv_sweep_run(tv_sweep *sweep, const tv_sweep_options *options, const tv_diag_sink *sink, int *stopped)
{
    tv_sweep_options own;
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_sweep_options, user), options))
        return tv_fail_size(sink, "tv_sweep_options");
    runner *r = calloc(1, sizeof *r);
    if (!r)
        return tv_fail_memory(sink);
    r->sweep = sweep;
    r->options = &own;
    r->sink = sink;
    tv_status status = tv_store_open(own.database, sink, &r->store);
    if (status == TV_OK)
        status = run_searches(r);
    if (stopped)
        *stopped = r->stopped;
    tv_store_close(r->store);
    free(r);
    return status;
}

/* ---- Slices ---- */

static void slice_path(const slice *s, uint64_t number, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%.4000s/slice-%llu-of-%llu-%llu.jsonl", s->folder, (unsigned long long)s->index,
             (unsigned long long)s->count, (unsigned long long)number);
}

/* Writes the results that are in no file yet. */
static tv_status write_slice(runner *r)
{
    char path[PATH_BYTES];
    tv_output *output;
    slice *s = r->slice;
    pthread_mutex_lock(&r->lock);
    tv_buf lines = s->lines;
    s->lines = (tv_buf){0};
    pthread_mutex_unlock(&r->lock);
    s->written = now_seconds();
    if (lines.len == 0) {
        tv_buf_fini(&lines);
        return TV_OK;
    }
    slice_path(s, s->number++, path);
    tv_status status = tv_output_open(path, r->sink, &output);
    if (status == TV_OK) {
        fwrite(lines.data, 1, lines.len, tv_output_stream(output));
        status = tv_output_commit(output, r->sink);
    }
    tv_buf_fini(&lines);
    return status;
}

/* Adds the results of the earlier files of the task. */
static tv_status read_slice(runner *r)
{
    char path[PATH_BYTES];
    uint64_t added;
    tv_status status = TV_OK;
    for (slice_path(r->slice, 0, path); status == TV_OK && access(path, F_OK) == 0;
         slice_path(r->slice, ++r->slice->number, path))
        status = tv_store_collect(r->store, path, r->sink, &added);
    return status;
}

tv_status tv_sweep_check_slices(const tv_sweep *sweep, const tv_diag_sink *sink)
{
    if (sweep->spec.search.kind != TV_SEARCH_NSGA2)
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(SWEEP_FORM), "search = exhaustive or random, or run it on one machine",
                   "the points of nsga2 depend on results, so that it has no slices");
}

tv_status tv_sweep_run_slice(tv_sweep *sweep, const tv_sweep_options *options, uint64_t index, uint64_t count,
                             const char *folder, double seconds, const tv_diag_sink *sink, int *stopped)
{
    tv_sweep_options own;
    slice s = {.index = index, .count = count, .folder = folder, .seconds = seconds, .written = now_seconds()};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_sweep_options, user), options))
        return tv_fail_size(sink, "tv_sweep_options");
    if (index >= count)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(SWEEP_FORM), NULL, "there is no slice %llu of %llu",
                       (unsigned long long)index, (unsigned long long)count);
    TV_TRY(tv_sweep_check_slices(sweep, sink));
    runner *r = calloc(1, sizeof *r);
    if (!r)
        return tv_fail_memory(sink);
    r->sweep = sweep;
    r->options = &own;
    r->sink = sink;
    r->slice = &s;
    tv_status status = tv_store_open(NULL, sink, &r->store);
    if (status == TV_OK)
        status = read_slice(r);
    if (status == TV_OK)
        status = run_searches(r);
    if (stopped)
        *stopped = r->stopped;
    tv_store_close(r->store);
    tv_buf_fini(&s.lines);
    free(r);
    return status;
}

tv_status tv_sweep_collect(const char *database, const char *const *paths, size_t path_count, const tv_diag_sink *sink,
                           uint64_t *added)
{
    sweep_store *store;
    uint64_t sum = 0, count = 0;
    TV_TRY(tv_store_open(database, sink, &store));
    tv_status status = TV_OK;
    for (size_t i = 0; i < path_count && status == TV_OK; i++) {
        status = tv_store_collect(store, paths[i], sink, &count);
        sum += count;
    }
    tv_store_close(store);
    if (added)
        *added = sum;
    return status;
}
