/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all diagnostic codes. */
#include <string.h>
#include <strings.h>

#include "graph/codes.h"
#include "lib/targets.h"

int tv_code_at(unsigned i, tv_code_info *out)
{
    const tv_code *codes = tv_codes;
    unsigned count = TV_CODE_COUNT;
    for (unsigned t = 0; i >= count; t++) {
        i -= count;
        if (t > tv_isas.count)
            return 0;
        codes = t < tv_isas.count ? tv_isas.isas[t]->codes : tv_llm_codes;
        count = t < tv_isas.count ? tv_isas.isas[t]->code_count : TV_LLM_CODE_COUNT;
    }
    *out = codes[i];
    return 1;
}

static const struct {
    const char *code, *cause, *fix, *example;
} explanations[] = {
#define TV_EXPLANATION(code, cause, fix, example) {(code), (cause), (fix), (example)},
#include "lib/explanations.def"
#undef TV_EXPLANATION
};

int tv_code_explain(const char *code, tv_code_explanation *out)
{
    *out = (tv_code_explanation){.fix = NULL};
    for (unsigned i = 0; tv_code_at(i, &out->info); i++) {
        if (strcasecmp(out->info.code, code) != 0 && strcasecmp(out->info.name, code) != 0)
            continue;
        for (size_t k = 0; k < sizeof explanations / sizeof explanations[0]; k++)
            if (strcmp(explanations[k].code, out->info.code) == 0) {
                out->cause = explanations[k].cause;
                out->fix = explanations[k].fix;
                out->example = explanations[k].example;
            }
        return 1;
    }
    return 0;
}
