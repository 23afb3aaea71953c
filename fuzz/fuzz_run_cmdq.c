/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as the choices of a generator of queues: most queues are valid, so that the machine executes deep. fuzz_queue.c
 * has the damaged ones. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "isa/cmdq/cmdq.h"
#include "queue/queue.h"
#include "queue_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES_MAX = 24, BANK_BYTES = 2048, PAST_END = 0xFD };

typedef struct choices {
    const uint8_t *at, *end;
} choices;

/* 0 after the end of the input. */
static uint8_t take_byte(choices *c) { return c->at < c->end ? *c->at++ : 0; }

/* A small value in the parameter's range; of the last bytes one near its maximum. */
static uint64_t take_integer(choices *c, const tv_parameter *p)
{
    uint8_t byte = take_byte(c);
    if (p->allowed) { /* a bit mask of legal values */
        uint64_t value = p->min + byte % (p->max - p->min + 1);
        while (!(p->allowed >> value & 1))
            value = value < p->max ? value + 1 : p->min;
        return value;
    }
    if (byte >= PAST_END)
        return p->max - (uint64_t)(byte - PAST_END);
    if (strcmp(p->unit, "bytes") == 0)
        return byte * UINT64_C(32) % BANK_BYTES;
    uint64_t limit = *p->unit ? 33 : 3;
    return p->min + byte % limit;
}

static void put_ids(choices *c, uint32_t id, tv_buf *out)
{
    tv_buf_str(out, "[");
    unsigned count = id ? take_byte(c) % 3 : 0;
    for (unsigned i = 0; i < count; i++)
        tv_buf_printf(out, "%s%u", i ? ", " : "", (unsigned)(take_byte(c) % id));
    tv_buf_str(out, "]");
}

static void put_text(choices *c, const char *name, tv_buf *out)
{
    if (strcmp(name, "deprecated_since") == 0)
        tv_buf_str(out, "\"1.2\"");
    else
        tv_buf_printf(out, "\"g%u\"", take_byte(c) % 3U);
}

static void put_members(choices *c, const tv_insn *insn, tv_buf *out);

static void put_value(choices *c, const tv_insn *insn, const tv_parameter *p, uint32_t id, tv_buf *out)
{
    static const char *const reals[] = {"1", "0.5", "0.0625", "2", "-1", "3.25", "1e-30", "1e30", "10000", "0.001"};
    unsigned names = 0;
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        tv_buf_printf(out, "%llu", (unsigned long long)take_integer(c, p));
        break;
    case TV_PARAMETER_REAL:
        tv_buf_str(out, reals[take_byte(c) % TV_COUNTOF(reals)]);
        break;
    case TV_PARAMETER_BOOLEAN:
        tv_buf_str(out, take_byte(c) % 2 ? "true" : "false");
        break;
    case TV_PARAMETER_ENUM:
        while (p->enum_names[names])
            names++;
        tv_buf_printf(out, "\"%s\"", p->enum_names[take_byte(c) % names]);
        break;
    case TV_PARAMETER_TEXT:
        put_text(c, p->name, out);
        break;
    case TV_PARAMETER_IDS:
        put_ids(c, id, out);
        break;
    case TV_PARAMETER_OBJECT:
        put_members(c, insn, out);
        break;
    }
}

/* The object parameter; its members are integers. */
static void put_members(choices *c, const tv_insn *insn, tv_buf *out)
{
    const char *separator = "{";
    for (unsigned i = 0; i < insn->parameter_count; i++) {
        const tv_parameter_use *use = &insn->parameters[i];
        const tv_parameter *p = &tv_isa_cmdq.parameters[use->parameter];
        if (use->presence != TV_MEMBER_REQUIRED && !(use->presence == TV_MEMBER && take_byte(c) % 4 == 1))
            continue;
        tv_buf_printf(out, "%s\"%s\": %llu", separator, p->name, (unsigned long long)take_integer(c, p));
        separator = ", ";
    }
    tv_buf_str(out, *separator == '{' ? "{}" : "}");
}

/* Optional fields that need another field or value of the entry, which comes before them. `required`: it needs them. */
static const struct {
    const char *field, *needs;
    bool required;
} needs[] = {{"bias_offset", "\"bias_bank\"", true},
             {"wgt_scale_offset", "\"wgt_scale_bank\"", true},
             {"gamma_offset", "\"gamma_bank\"", true},
             {"beta_offset", "\"beta_bank\"", true},
             {"factors_offset", "\"factors_bank\"", true},
             {"residual_offset", "\"residual_bank\"", true},
             {"wgt_group", "\"wgt_scale_bank\"", false},
             {"scale_residual", "\"residual_bank\"", false},
             {"qbits_residual", "\"residual_bank\"", false},
             {"valid_step", "\"valid_length\"", false},
             {"valid_rows", "\"valid_step\"", false},
             {"clip_min", "\"clip\"", true},
             {"clip_max", "\"clip\"", false},
             {"alpha", "\"leaky_relu\"", false},
             {"beta", "\"hardsigmoid\"", false},
             {"count_include_pad", "\"avg\"", false},
             {"nearest_mode", "\"nearest\"", false}};

/* Whether an optional field is given; `entry` is the entry's text so far. */
static bool take_presence(choices *c, const char *field, const char *entry)
{
    bool chosen = take_byte(c) % 4 == 1;
    for (size_t i = 0; i < TV_COUNTOF(needs); i++)
        if (strcmp(needs[i].field, field) == 0)
            return strstr(entry, needs[i].needs) && (chosen || needs[i].required);
    return chosen;
}

static void put_entry(choices *c, uint32_t id, tv_buf *out)
{
    size_t start = out->len;
    const tv_insn *insn = &tv_isa_cmdq.insns[take_byte(c) % tv_isa_cmdq.insn_count];
    if (strcmp(insn->id, "END") == 0)
        insn = &tv_isa_cmdq.insns[0]; /* the last entry is one */
    tv_buf_printf(out, "{\"opcode\": \"%s\", \"id\": %u, \"deps_before\": ", insn->id, id);
    put_ids(c, id, out);
    for (unsigned i = 0; i < insn->parameter_count; i++) {
        const tv_parameter_use *use = &insn->parameters[i];
        const tv_parameter *p = &tv_isa_cmdq.parameters[use->parameter];
        bool common = use->parameter < tv_isa_cmdq.common_count;
        bool present = use->presence == TV_REQUIRED ||
                       (use->presence == TV_OPTIONAL && take_presence(c, p->name, tv_buf_cstr(out) + start));
        if (common || !present || strcmp(p->name, "direction") == 0)
            continue;
        tv_buf_printf(out, ", \"%s\": ", p->name);
        put_value(c, insn, p, id, out);
    }
    tv_buf_str(out, "},\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = {data, data + size};
    tv_buf text = {0};
    tv_program *program;
    uint32_t id = 0;
    tv_buf_str(&text, "{\"metadata\": {\"version\": \"1.3\"}, \"cmdq\": [\n");
    for (; id < ENTRIES_MAX && c.at < c.end; id++)
        put_entry(&c, id, &text);
    tv_buf_printf(&text, "{\"opcode\": \"END\", \"id\": %u}]}\n", id);
    size_t len = text.len;
    tv_input input = {.data = (const uint8_t *)tv_buf_take(&text), .size = len};
    if (!input.data)
        abort();
    if (getenv("TRIVET_FUZZ_PRINT"))
        fwrite(input.data, 1, len, stderr);
    if (cmdq_read("fuzz.json", &input, NULL, &program) != TV_OK)
        return 0;
    fuzz_check_and_run(program);
    tv_program_free(program);
    return 0;
}
