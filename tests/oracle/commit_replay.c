/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program with commit records and replays their writes on a second machine, which must end with the same state.
 *
 *     commit_replay TARGET PROGRAM [-D KEY=VALUE] [--load SPACE:ADDR=FILE] [--dump RANGE] [--window FILE] [--execute]
 *
 * Compared: the ranges of --dump, which is all that the program writes as an independent model has it, what the records
 * write, and small spaces whole; queues element by element. --window sends the words of FILE through the register
 * window after the program has ended; --execute executes the words of the program one by one instead. Prints the index,
 * issue and end of each instruction of the program. Exit status 1: a difference. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

enum { SPACES_MAX = 16, WHOLE = 1 << 16 };

typedef struct cycles {
    uint64_t index, issue, start, end;
    int of_program;
} cycles;

/* Bytes of a queue: pushes append, pops remove from the front. */
typedef struct fifo {
    const char *space;
    uint8_t *bytes;
    size_t count;
} fifo;

typedef struct replay {
    tv_machine *model, *copy;
    const char *dumps[4096];
    unsigned dump_count;
    cycles *records;
    uint64_t count, capacity;
    fifo queues[4];
    uint64_t differences, instructions;
    int executes;
} replay;

static const tv_diag_sink *messages;

static void print_diagnostic(void *user, const tv_diag *diag) { tv_diag_print(user, diag, 0); }

static void check(tv_status status)
{
    if (status != TV_OK) {
        fprintf(stderr, "status %d\n", (int)status);
        exit(2);
    }
}

static void *allocate(size_t size)
{
    void *bytes = calloc(size + 1, 1);
    if (!bytes)
        exit(3);
    return bytes;
}

static void differ(replay *r, const char *what, const char *space, uint64_t at)
{
    if (r->differences++ < 8)
        printf("difference: %s %s[0x%" PRIx64 "]\n", what, space, at);
}

static fifo *queue_of(replay *r, const char *space)
{
    unsigned i = 0;
    while (r->queues[i].space && strcmp(r->queues[i].space, space) != 0)
        i++;
    r->queues[i].space = space;
    return &r->queues[i];
}

static void replay_queue(replay *r, const tv_effect *e)
{
    fifo *q = queue_of(r, e->space);
    if (e->write) {
        if (q->count != e->addr * e->unit_bytes)
            differ(r, "a push that is not at the end", e->space, e->addr);
        uint8_t *bytes = allocate(q->count + e->bytes);
        if (q->count)
            memcpy(bytes, q->bytes, q->count);
        memcpy(bytes + q->count, e->after, e->bytes);
        free(q->bytes);
        q->bytes = bytes;
        q->count += e->bytes;
        return;
    }
    if (e->addr || e->bytes > q->count || memcmp(q->bytes, e->after, e->bytes) != 0) {
        differ(r, "popped other elements than were pushed", e->space, 0);
        return;
    }
    q->count -= e->bytes;
    memmove(q->bytes, q->bytes + e->bytes, q->count);
}

static int is_window(const tv_effect *e) { return strcmp(e->space, "mmio") == 0; }

static void replay_effect(replay *r, const tv_effect *e, int has_before)
{
    uint8_t *now = allocate(e->bytes);
    if (!is_window(e) && !e->queue) {
        check(tv_machine_read(r->copy, e->space, e->addr, now, e->bytes, messages));
        if (!e->write && memcmp(now, e->after, e->bytes) != 0)
            differ(r, "reads what no record wrote:", e->space, e->addr);
        if (e->write && has_before && memcmp(now, e->before, e->bytes) != 0)
            differ(r, "'before' is what no record wrote:", e->space, e->addr);
    }
    if (e->queue)
        replay_queue(r, e);
    else if (e->write && !is_window(e)) {
        memset(now, 0, e->bytes); /* what a record without values writes is zero */
        check(tv_machine_write(r->copy, e->space, e->addr, e->after ? e->after : now, e->bytes, messages));
    }
    free(now);
}

static void on_commit(void *user, const tv_commit *c)
{
    replay *r = user;
    if (c->kind == TV_COMMIT_COMPLETION) {
        r->records[c->order].issue = c->issue;
        r->records[c->order].start = c->start;
        r->records[c->order].end = c->end;
        return;
    }
    if (c->order != r->count)
        differ(r, "records out of order", "", c->order);
    if (r->count == r->capacity) {
        r->capacity = r->capacity * 2 + 64;
        r->records = realloc(r->records, r->capacity * sizeof *r->records);
    }
    int instruction = c->kind == TV_COMMIT_INSTRUCTION && !c->fault;
    r->instructions += (uint64_t)instruction;
    r->records[r->count++] =
        (cycles){c->index, c->issue, c->start, c->end, instruction && c->origin != TV_ORIGIN_WINDOW};
    for (unsigned i = 0; i < c->effect_count; i++) /* all reads are before all writes */
        if (!c->effects[i].write)
            replay_effect(r, &c->effects[i], 0);
    for (unsigned i = 0; i < c->effect_count && c->kind == TV_COMMIT_INSTRUCTION; i++) {
        uint8_t *now = allocate(c->effects[i].bytes);
        const tv_effect *e = &c->effects[i];
        if (e->write && !e->queue && !is_window(e)) {
            check(tv_machine_read(r->copy, e->space, e->addr, now, e->bytes, messages));
            if (memcmp(now, e->before, e->bytes) != 0)
                differ(r, "'before' is what no record wrote:", e->space, e->addr);
        }
        free(now);
    }
    for (unsigned i = 0; i < c->effect_count; i++)
        if (c->effects[i].write)
            replay_effect(r, &c->effects[i], 0);
}

static void compare(replay *r, const char *space, uint64_t addr, uint64_t bytes)
{
    uint8_t *a = allocate(bytes), *b = allocate(bytes);
    check(tv_machine_read(r->model, space, addr, a, bytes, messages));
    check(tv_machine_read(r->copy, space, addr, b, bytes, messages));
    for (uint64_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            differ(r, "the replayed state differs after", space, addr);
            break;
        }
    free(a);
    free(b);
}

static void compare_queue(replay *r, const tv_space *space)
{
    fifo *q = queue_of(r, space->name);
    uint8_t *bytes = allocate(space->size * space->unit_bytes);
    check(tv_machine_read(r->model, space->name, 0, bytes, space->size * space->unit_bytes, messages));
    if (q->count && memcmp(q->bytes, bytes, q->count) != 0)
        differ(r, "the replayed queue differs:", space->name, 0);
    for (uint64_t i = q->count; i < space->size * space->unit_bytes; i++)
        if (bytes[i])
            differ(r, "the queue has more elements than were pushed:", space->name, i);
    free(bytes);
}

static void compare_all(replay *r)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(r->model, i, &space); i++) {
        if (space.alias_of || strcmp(space.name, "mmio") == 0)
            continue;
        if (space.queue)
            compare_queue(r, &space);
        else
            compare(r, space.name, 0, space.size * space.unit_bytes < WHOLE ? space.size * space.unit_bytes : WHOLE);
    }
    for (unsigned i = 0; i < r->dump_count; i++) {
        tv_range range;
        check(tv_machine_parse_range(r->model, NULL, 0, r->dumps[i], messages, &range));
        uint64_t bits = range.count * tv_dtype_bits(range.type);
        compare(r, range.space.name, range.addr, bits / 8);
    }
}

static void *read_file(const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    uint8_t *bytes = allocate(1 << 24);
    if (!in)
        exit(2);
    *size = fread(bytes, 1, 1 << 24, in);
    fclose(in);
    return bytes;
}

static void load_file(replay *r, const char *spec)
{
    char address[256];
    const char *rest, *path = strchr(spec, '=');
    tv_space space;
    uint64_t addr;
    size_t size;
    snprintf(address, sizeof address, "%.*s", (int)(path - spec), spec);
    check(tv_machine_parse_address(r->model, NULL, 0, address, messages, &space, &addr, &rest));
    void *bytes = read_file(path + 1, &size);
    check(tv_machine_write(r->model, space.name, addr, bytes, size, messages));
    free(bytes);
}

/* Sends words through the window, as many at a time as the command FIFO takes; stops at a fault. */
static void send_window(replay *r, const char *path)
{
    size_t size, next = 0;
    uint8_t *words = read_file(path, &size);
    while (next + 8 <= size) {
        for (unsigned i = 0; i < 4 && next + 8 <= size; i++, next += 8) {
            check(tv_machine_write(r->model, "mmio", 0, words + next, 4, messages));
            check(tv_machine_write(r->model, "mmio", 4, words + next + 4, 4, messages));
        }
        tv_status status = tv_machine_run(r->model, NULL, NULL);
        if (status == TV_FAULT)
            break;
        check(status);
    }
    free(words);
}

static void run(replay *r, const tv_program *program)
{
    if (r->executes) {
        tv_commit commit;
        for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
            check(tv_machine_execute(r->model, tv_program_word(program, i), 0, &commit));
            if (commit.fault)
                break;
        }
        check(tv_machine_run(r->model, NULL, NULL));
        return;
    }
    check(tv_machine_load(r->model, program, messages));
    tv_status status = tv_machine_run(r->model, NULL, NULL);
    if (status != TV_FAULT)
        check(status);
}

int main(int argc, char **argv)
{
    static tv_diag_sink sink = {print_diagnostic, NULL};
    static replay r;
    tv_config *config;
    tv_program *program;
    const char *window = NULL;
    sink.user = stderr;
    messages = &sink;
    if (argc < 3)
        return 2;
    check(tv_config_new(argv[1], messages, &config));
    for (int i = 3; i + 1 < argc; i++)
        if (strcmp(argv[i], "-D") == 0) {
            char *value = strchr(argv[i + 1], '=');
            *value = '\0';
            check(tv_config_set(config, argv[i + 1], value + 1, messages));
        }
    check(tv_machine_new(config, TV_MODE_FULL, messages, &r.model));
    check(tv_machine_new(config, TV_MODE_FULL, messages, &r.copy));
    check(tv_machine_commits(r.model, TV_COMMIT_ALL, &(tv_commit_sink){on_commit, &r}));
    tv_program_options options = {.size = sizeof options, .target = argv[1]};
    check(tv_program_open(argv[2], &options, messages, &program));
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--execute") == 0)
            r.executes = 1;
        if (strcmp(argv[i], "--load") == 0)
            load_file(&r, argv[i + 1]);
        if (strcmp(argv[i], "--dump") == 0 && r.dump_count < 4096)
            r.dumps[r.dump_count++] = argv[i + 1];
        if (strcmp(argv[i], "--window") == 0)
            window = argv[i + 1];
    }
    run(&r, program);
    if (window && !tv_machine_fault(r.model))
        send_window(&r, window);
    tv_stats stats = {.size = sizeof stats};
    check(tv_machine_stats(r.model, &stats));
    check(tv_machine_commits(r.model, 0, NULL));
    if (stats.instructions != r.instructions)
        differ(&r, "instructions without a record", "", stats.instructions);
    compare_all(&r);
    for (uint64_t i = 0; i < r.count; i++)
        if (r.records[i].of_program)
            printf("%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", r.records[i].index, (int64_t)r.records[i].issue,
                   (int64_t)r.records[i].start, (int64_t)r.records[i].end);
    tv_machine_free(r.model);
    tv_machine_free(r.copy);
    tv_program_free(program);
    tv_config_free(config);
    for (unsigned i = 0; i < 4; i++)
        free(r.queues[i].bytes);
    free(r.records);
    return r.differences != 0;
}
