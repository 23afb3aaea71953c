/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of 110 million parameters with random weights: opening, quantizing, prefill and decoding. */
#include "language.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/random_model.h"
#include "trivet/llm.h"
#include "trivet/trivet.h"

enum {
    CONTEXT = 512,
    PREFILL = 256,
    PROMPT = PREFILL - 4
}; /* plus BOS and the three byte tokens of the leading space */

static const random_dims llama110m = {768, 2048, 12, 12, 12, 32000, 1024, true};

bool language_write(const char *path) { return random_model_write(&llama110m, TV_GGUF_Q8_0, path); }

static void check_status(tv_status status)
{
    if (status == TV_OK)
        return;
    fprintf(stderr, "bench: %s\n", tv_status_text(status));
    exit(3);
}

static tv_llm_session *open_session(tv_llm *llm, const char *target, unsigned bits, unsigned threads)
{
    tv_config *config;
    tv_llm_session *session;
    check_status(tv_config_new(target, NULL, &config));
    check_status(tv_llm_session_new(llm,
                                    &(tv_llm_options){.size = sizeof(tv_llm_options),
                                                      .target = target,
                                                      .config = config,
                                                      .threads = threads,
                                                      .weight_bits = bits,
                                                      .context = CONTEXT,
                                                      .sample = "a"},
                                    NULL, &session));
    tv_config_free(config);
    return session;
}

/* ---- Opening ---- */

typedef struct memory_usage {
    unsigned long peak, anonymous, file; /* KiB */
} memory_usage;

/* Updates the maximum of each value; `peak` is recorded by the kernel. */
static void read_memory_usage(memory_usage *m)
{
    char line[256];
    unsigned long n;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (sscanf(line, "VmHWM: %lu", &n) == 1)
            m->peak = n;
        else if (sscanf(line, "RssAnon: %lu", &n) == 1 && n > m->anonymous)
            m->anonymous = n;
        else if (sscanf(line, "RssFile: %lu", &n) == 1 && n > m->file)
            m->file = n;
    }
    if (status)
        fclose(status);
}

typedef struct memory_watch {
    memory_usage max;
    atomic_bool done;
} memory_watch;

static void *watch_memory(void *user)
{
    memory_watch *w = user;
    while (!w->done) {
        read_memory_usage(&w->max);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return NULL;
}

/* Bytes of the model in the machine's memory: matrices with their scales, and pccx's BF16 table of embeddings. */
static double quantized_bytes(const char *target, unsigned bits)
{
    const random_dims *s = &llama110m;
    double layer = 4.0 * s->dim * s->dim + 3.0 * s->dim * s->hidden,
           weights = s->layers * layer + (double)s->vocab * s->dim;
    bool pccx = strcmp(target, "pccx") == 0;
    double scales = pccx ? weights / 64 * 2 : weights / 32 * 4;
    return weights * bits / 8 + scales + (pccx ? (double)s->vocab * s->dim * 2 : 0);
}

bool language_load(const char *target, unsigned bits, const char *path)
{
    tv_llm *llm;
    memory_watch w = {.done = false};
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_memory, &w) != 0)
        return false;
    double start = bench_seconds();
    check_status(tv_llm_open(path, NULL, &llm));
    tv_llm_session *session = open_session(llm, target, bits, 1);
    double seconds = bench_seconds() - start;
    w.done = true;
    pthread_join(watcher, NULL);
    memory_usage now = {0};
    read_memory_usage(&now);
    printf("{\"seconds\": %.6g, \"peak\": %.6g, \"anonymous\": %.6g, \"file\": %.6g, \"resident\": %.6g, \"weights\": "
           "%.6g}\n",
           seconds, 1024e-6 * (double)now.peak, 1024e-6 * (double)w.max.anonymous, 1024e-6 * (double)w.max.file,
           1024e-6 * (double)(now.anonymous + now.file), quantized_bytes(target, bits) / 1e6);
    tv_llm_session_free(session);
    tv_llm_free(llm);
    return true;
}

/* ---- Decoding and prefill ---- */

typedef struct task {
    tv_llm *llm;
    const char *target;
    unsigned bits;
    int tokens; /* 0: a prefill of PROMPT */
} task;

/* Tokens per second, or multiply-adds per second of a prefill. */
static bench_times measure_rates(const bench_report *r, const task *t, unsigned threads)
{
    double taken[BENCH_RUNS_MAX], macs = 0;
    char prompt[PROMPT + 1] = "a";
    if (!t->tokens)
        memset(prompt, 'a', PROMPT);
    for (int i = 0; i < r->runs; i++) {
        tv_llm_session *session = open_session(t->llm, t->target, t->bits, threads);
        tv_llm_summary s = {.size = sizeof s};
        tv_stats stats = {.size = sizeof stats};
        bench_profile(true);
        check_status(tv_llm_generate(session, prompt, t->tokens ? (uint32_t)t->tokens : 1,
                                     &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1}, NULL, NULL, NULL));
        bench_profile(false);
        tv_llm_session_summary(session, &s);
        check_status(t->tokens || s.prompt_tokens == PREFILL ? TV_OK : TV_ERR_INPUT);
        tv_machine_stats(s.machine, &stats);
        macs = (double)stats.macs;
        taken[i] = t->tokens ? s.host_seconds / s.tokens : s.prompt_host_seconds;
        tv_llm_session_free(session);
    }
    return bench_rates(t->tokens ? 1 : macs / 1e9, bench_sort_times(taken, r->runs));
}

/* Prints the row of one thread, and that of two threads relative to it. `row` lacks the name and the value. */
static void print_task_rows(const bench_report *r, const task *t, const char *name, bench_row row)
{
    char two[80];
    bench_times one = {0};
    snprintf(two, sizeof two, "%s, 2 threads", name);
    bool first = bench_selected(r, name), second = bench_selected(r, two) && !(r->rows_only && first);
    if (first || (second && !r->rows_only))
        one = measure_rates(r, t, 1);
    row.name = name;
    row.value = one;
    if (first)
        bench_print_row(r, &row);
    if (second)
        bench_print_row(r, &(bench_row){.name = two,
                                        .unit = row.unit,
                                        .value = measure_rates(r, t, 2),
                                        .of = "one thread",
                                        .ceiling = one.median,
                                        .goal = 1.7});
}

static bool any_selected(const bench_report *r, const char *const *names, size_t count)
{
    char two[80];
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        snprintf(two, sizeof two, "%s, 2 threads", names[i]);
        any = any || bench_selected(r, two);
    }
    return any;
}

void language_rows(const bench_report *r, const bench_ceilings *c)
{
    static const char *const names[] = {"decode of 110M, pccx W4", "decode of 110M, cmdq W4", "decode of 110M, cmdq W8",
                                        "prefill of 256 tokens of 110M, cmdq W4"};
    char path[BENCH_PATH];
    task tasks[] = {
        {NULL, "pccx", 4, r->tokens}, {NULL, "cmdq", 4, r->tokens}, {NULL, "cmdq", 8, r->tokens}, {NULL, "cmdq", 4, 0}};
    static const double goals[] = {150, 150, 90};
    tv_llm *llm;
    if (!any_selected(r, names, sizeof names / sizeof names[0]))
        return;
    if (!r->model) {
        bench_make_temporary(path);
        if (!language_write(path))
            exit(3);
    }
    check_status(tv_llm_open(r->model ? r->model : path, NULL, &llm));
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        tasks[i].llm = llm;
        print_task_rows(
            r, &tasks[i], names[i],
            tasks[i].tokens
                ? (bench_row){.unit = "tokens/s", .goal = goals[i]}
                : (bench_row){.unit = "GMAC/s", .of = "u4 x s8 peak", .ceiling = c->u4s8 / 1e9, .goal = 0.4});
    }
    tv_llm_free(llm);
    if (!r->model)
        remove(path);
}
