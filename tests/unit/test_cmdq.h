/* SPDX-License-Identifier: Apache-2.0 */
/* Queues for the CMDQ tests: JSON text that grows by entries, read from memory. */
#ifndef TV_TESTS_CMDQ_H
#define TV_TESTS_CMDQ_H

#include "unit.h"

#include "base/buf.h"
#include "machine/cmdq/internal.h"
#include "trivet/trivet.h"

/* Zeroed, it is empty. */
typedef struct queue_text {
    tv_buf text;
    unsigned entries;
} queue_text;

static inline void queue_add(queue_text *q, const char *format, ...) TV_PRINTF(2, 3);

/* An entry's text, without braces. */
static inline void queue_add(queue_text *q, const char *format, ...)
{
    va_list args;
    tv_buf_str(&q->text, q->entries++ ? ",\n{" : "{\"metadata\": {\"version\": \"1.3\"},\n\"cmdq\": [\n{");
    va_start(args, format);
    tv_buf_vprintf(&q->text, format, args);
    va_end(args);
    tv_buf_str(&q->text, "}");
}

/* Ends the queue and reads it; the text is gone then. */
static inline tv_program *queue_open(queue_text *q)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_program *program;
    queue_add(q, "\"opcode\": \"END\"");
    tv_buf_str(&q->text, "]}\n");
    tv_input input = {.data = q->text.data, .size = q->text.len};
    tv_status status = cmdq_read("test.json", &input, &sink, &program);
    *q = (queue_text){0};
    if (status != TV_OK)
        fail_msg("the queue cannot be read: %s: %s", log.at[0].code, log.at[0].message);
    return program;
}

/* A machine of the default configuration with "key=value" overrides up to NULL. */
static inline tv_machine *machine_with(tv_mode mode, const char *const *overrides)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    for (; overrides && *overrides; overrides++) {
        char key[64];
        size_t n = strcspn(*overrides, "=");
        snprintf(key, sizeof key, "%.*s", (int)n, *overrides);
        assert_int_equal(tv_config_set(config, key, *overrides + n + 1, NULL), TV_OK);
    }
    assert_int_equal(tv_machine_new(config, mode, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

/* Loads and runs to the end. */
static inline void run_all(tv_machine *machine, const tv_program *program)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_stop_reason why;
    if (tv_machine_load(machine, program, &sink) != TV_OK)
        fail_msg("the queue cannot be loaded: %s: %s", log.at[0].code, log.at[0].message);
    assert_int_equal(tv_machine_run(machine, NULL, &why), TV_OK);
    assert_int_equal(why, TV_STOP_END);
}

/* Runs a queue of one entry: its engine, and the queue, take `cycles`. */
static inline void expect_busy(const char *engine, uint64_t cycles, const char *const *overrides, const char *entry)
{
    queue_text q = {0};
    tv_stats stats = {.size = sizeof stats};
    queue_add(&q, "%s", entry);
    tv_program *program = queue_open(&q);
    tv_machine *machine = machine_with(TV_MODE_TIMING, overrides);
    run_all(machine, program);
    tv_machine_stats(machine, &stats);
    assert_int_equal(stats.cycles, cycles);
    for (unsigned e = 0; e < stats.engine_count; e++)
        assert_int_equal(stats.engines[e].busy, strcmp(stats.engines[e].name, engine) == 0 ? cycles : 0);
    tv_machine_free(machine);
    tv_program_free(program);
}

#define GEMM(id, sizes)                                                                                                \
    "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": " id                                                                     \
    ", \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": 0, \"ofm_bank\": 2, "                      \
    "\"ofm_offset\": 0, " sizes
#define ROWS(opcode, sizes)                                                                                            \
    "\"opcode\": \"" opcode                                                                                            \
    "\", \"ve_id\": 1, \"in_bank\": 0, \"in_offset\": 0, \"out_bank\": 1, \"out_offset\": 0, " sizes

#endif
