/* SPDX-License-Identifier: Apache-2.0 */
/* A language model of 110 million parameters with random weights: opening, quantizing, prefill and decoding; ceilings
 * beside them. */
#include "language.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/random_model.h"
#include "ceilings.h"
#include "harness.h"
#include "opennpu.h"
#include "trivet/llm.h"
#include "trivet/trivet.h"

enum { CONTEXT = 512, PREFIX = 4 /* tokens of a prompt before its text: BOS, and the bytes of the leading space */ };

static const random_dims llama110m = {768, 2048, 12, 12, 12, 32000, 1024, true, false};
static const random_dims llama1100m = {2048, 5632, 22, 32, 4, 32000, 2048, false, false}; /* as TinyLlama's */

bool language_write(const char *shape, const char *path)
{
    bool large = strncmp(shape, "1.1B", 4) == 0, q4 = strstr(shape, "Q4_0") != NULL;
    return random_model_write(large ? &llama1100m : &llama110m, q4 ? TV_GGUF_Q4_0 : TV_GGUF_Q8_0, path);
}

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

enum { LINE = BENCH_PATH + 100, NAME = 16 };

/* A session, and what it was created with. */
typedef struct server {
    char path[BENCH_PATH], target[NAME];
    unsigned bits, threads;
    uint32_t positions; /* used so far */
    tv_llm *llm;
    tv_llm_session *session;
    opennpu_programs opennpu; /* from the first `lanes` on */
} server;

typedef struct request {
    char kind[NAME], path[BENCH_PATH], target[NAME];
    unsigned threads, bits;
    int tokens;
} request;

/* The session of a request: the last one if the request continues it and there is room, otherwise a new one. */
static void prepare_session(server *s, const request *q)
{
    bool same = s->session && strcmp(q->kind, "continue") == 0 && strcmp(q->path, s->path) == 0 &&
                strcmp(q->target, s->target) == 0 && q->bits == s->bits && q->threads == s->threads &&
                s->positions + (uint32_t)q->tokens + PREFIX < CONTEXT;
    if (same)
        return;
    tv_llm_session_free(s->session);
    if (strcmp(q->path, s->path) != 0) {
        tv_llm_free(s->llm);
        check_status(tv_llm_open(q->path, NULL, &s->llm));
        snprintf(s->path, sizeof s->path, "%s", q->path);
    }
    s->session = open_session(s->llm, q->target, q->bits, q->threads);
    snprintf(s->target, sizeof s->target, "%s", q->target);
    s->bits = q->bits;
    s->threads = q->threads;
    s->positions = 0;
}

static void run_request(server *s, const request *q)
{
    bool prefill = strcmp(q->kind, "prefill") == 0;
    char prompt[CONTEXT + 1] = "a";
    tv_llm_summary before = {.size = sizeof before}, after = {.size = sizeof after};
    tv_stats first = {.size = sizeof first}, last = {.size = sizeof last};
    prepare_session(s, q);
    if (prefill)
        memset(prompt, 'a', (size_t)q->tokens - PREFIX);
    tv_llm_session_summary(s->session, &before);
    tv_machine_stats(before.machine, &first);
    bench_profile(true);
    check_status(tv_llm_generate(s->session, prompt, prefill ? 1 : (uint32_t)q->tokens + 1,
                                 &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1}, NULL, NULL, NULL));
    bench_profile(false);
    tv_llm_session_summary(s->session, &after);
    tv_machine_stats(after.machine, &last);
    s->positions = (uint32_t)(after.prompt_tokens + after.tokens);
    uint64_t tokens = after.tokens - before.tokens;
    check_status(tokens || after.prompt_tokens == (uint64_t)q->tokens ? TV_OK : TV_ERR_INPUT);
    double seconds = prefill ? after.prompt_host_seconds : (after.host_seconds - before.host_seconds) / (double)tokens;
    double all = after.prompt_host_seconds + after.host_seconds - before.prompt_host_seconds - before.host_seconds;
    printf("{\"seconds\": %.6g, \"macs\": %.6g, \"instructions_per_second\": %.6g}\n", seconds,
           (double)(last.macs - first.macs), (double)(last.instructions - first.instructions) / all);
}

static double lanes_seconds(server *s)
{
    enum { RUNS = 8 }; /* about as long as a session of OpenNPU */
    if (!s->opennpu.lanes)
        opennpu_prepare(&s->opennpu);
    double start = bench_seconds();
    for (int i = 0; i < RUNS; i++)
        opennpu_run(&s->opennpu, s->opennpu.lanes);
    return (bench_seconds() - start) / RUNS / OPENNPU_INSTRUCTIONS;
}

bool language_serve(void)
{
    char line[LINE];
    server s = {.path = ""};
    bool ok = true;
    while (ok && fgets(line, sizeof line, stdin)) {
        request q;
        if (strcmp(line, "read\n") == 0) {
            printf("{\"seconds\": %.6g}\n", 1 / bench_read_bandwidth());
        } else if (strcmp(line, "lanes\n") == 0) {
            printf("{\"seconds\": %.6g}\n", lanes_seconds(&s));
        } else {
            ok = sscanf(line, "%15[^\t]\t%4095[^\t]\t%u\t%d\t%15[^\t]\t%u", q.kind, q.path, &q.threads, &q.tokens,
                        q.target, &q.bits) == 6 &&
                 q.tokens > PREFIX && q.tokens < CONTEXT - PREFIX;
            if (ok)
                run_request(&s, &q);
        }
        fflush(stdout);
    }
    opennpu_fini(&s.opennpu);
    tv_llm_session_free(s.session);
    tv_llm_free(s.llm);
    return ok;
}
