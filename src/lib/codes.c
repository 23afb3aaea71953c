/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all diagnostic codes. */
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
