/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the coverage models. */
#include "cosim/coverage.h"

#define READ false
#define WRITE true
#define INSTRUCTIONS(g, i) {.kind = COVER_INSTRUCTIONS, .group = g, .insns = i},
#define FIELDS(g, i) {.kind = COVER_FIELDS, .group = g, .insns = i},
#define ROUTES(g, i) {.kind = COVER_ROUTES, .group = g, .insns = i},
#define CROSS(g, i, fields) {.kind = COVER_CROSS, .group = g, .insns = i, .what = fields},
#define REMAINDERS(g, i, field, of) {.kind = COVER_REMAINDERS, .group = g, .insns = i, .what = field, .size = of},
#define TAILS(g, i, name, first, mask)                                                                                 \
    {.kind = COVER_TAILS, .group = g, .insns = i, .what = name, .space = "const", .size = mask, .from = first},
#define SIZES(g, i, name, first, mask)                                                                                 \
    {.kind = COVER_SIZES, .group = g, .insns = i, .what = name, .space = "const", .size = mask, .from = first},
#define VALUES(g, i, writes, where, of, bytes)                                                                         \
    {.kind = COVER_VALUES, .group = g, .insns = i, .space = where, .write = writes, .type = COVER_##of, .size = bytes},
#define DEPENDENCES(g, engines) {.kind = COVER_DEPENDENCES, .group = g, .what = engines},
#define STALLS(g, engines, reasons) {.kind = COVER_STALLS, .group = g, .insns = engines, .what = reasons},
#define FAULTS(g, names) {.kind = COVER_FAULTS, .group = g, .what = names},
#define NEVER(g, bins, text) {.kind = COVER_NEVER, .group = g, .insns = bins, .what = text},
#define REASON(g, bins, text) {.kind = COVER_REASON, .group = g, .insns = bins, .what = text},

static const cover_rule pccx_rules[] = {
#include "cosim/cover_pccx.def"
};
static const cover_rule opennpu_rules[] = {
#include "cosim/cover_opennpu.def"
};
static const cover_rule cmdq_rules[] = {
#include "cosim/cover_cmdq.def"
};

#define COUNT_OF(rules) ((unsigned)(sizeof(rules) / sizeof *(rules)))

static const struct {
    const char *target;
    const cover_rule *rules;
    unsigned count;
} models[] = {{"pccx", pccx_rules, COUNT_OF(pccx_rules)},
              {"opennpu", opennpu_rules, COUNT_OF(opennpu_rules)},
              {"cmdq", cmdq_rules, COUNT_OF(cmdq_rules)}};

const cover_rule *tv_cover_rules(const char *target, unsigned *count)
{
    for (unsigned i = 0; i < COUNT_OF(models); i++)
        if (strcmp(models[i].target, target) == 0) {
            *count = models[i].count;
            return models[i].rules;
        }
    *count = 0;
    return NULL;
}
