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

#endif
