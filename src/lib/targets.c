/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction sets, from the build's list of targets. */
#include "isa/isa.h"

#define TV_TARGET(name) extern const tv_isa tv_isa_##name;
#include "targets.def"
#undef TV_TARGET

static const tv_isa *const all[] = {
#define TV_TARGET(name) &tv_isa_##name,
#include "targets.def"
#undef TV_TARGET
};

const tv_isa *tv_isa_at(unsigned i) { return i < TV_COUNTOF(all) ? all[i] : NULL; }

const tv_isa *tv_isa_find(tv_sv target)
{
    for (unsigned i = 0; i < TV_COUNTOF(all); i++)
        if (tv_sv_is(target, all[i]->target))
            return all[i];
    return NULL;
}

const tv_code *tv_isa_code_at(unsigned *i)
{
    if (*i < TV_CODE_COUNT)
        return &tv_codes[*i];
    *i -= TV_CODE_COUNT;
    for (unsigned t = 0; t < TV_COUNTOF(all); t++) {
        if (*i < all[t]->code_count)
            return &all[t]->codes[*i];
        *i -= all[t]->code_count;
    }
    return NULL;
}
