/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of instruction sets and machines, and the public functions that look up a target by name. */
#include "lib/targets.h"

#include "asm/assemble.h"
#include "cosim/coverage.h"

#define TV_TARGET(name) extern tv_isa tv_isa_##name;
#include "targets.def"
#undef TV_TARGET
#define TV_TARGET(name) extern const tv_target tv_target_##name;
#include "targets.def"
#undef TV_TARGET

static tv_isa *const isas[] = {
#define TV_TARGET(name) &tv_isa_##name,
#include "targets.def"
#undef TV_TARGET
};

static const tv_target *const targets[] = {
#define TV_TARGET(name) &tv_target_##name,
#include "targets.def"
#undef TV_TARGET
};

static_assert(TV_COUNTOF(isas) <= TV_TARGETS_MAX, "a larger TV_TARGETS_MAX");

const tv_isa_list tv_isas = {(const tv_isa *const *)isas, TV_COUNTOF(isas)};

tv_isa *tv_isa_to_extend(const char *name)
{
    for (size_t i = 0; i < TV_COUNTOF(isas); i++)
        if (strcmp(isas[i]->target, name) == 0)
            return isas[i];
    return NULL;
}

const tv_target *tv_target_get(unsigned i) { return i < TV_COUNTOF(targets) ? targets[i] : NULL; }

const tv_target *tv_target_find(const char *name)
{
    for (size_t i = 0; i < TV_COUNTOF(targets); i++)
        if (strcmp(targets[i]->name, name) == 0)
            return targets[i];
    return NULL;
}

int tv_target_at(unsigned i, tv_target_info *out)
{
    if (i >= TV_COUNTOF(targets))
        return 0;
    *out = (tv_target_info){targets[i]->name, targets[i]->isa->title, targets[i]->isa->word_bits};
    return 1;
}

static tv_status fail_unknown(const char *name, const tv_diag_sink *sink)
{
    char hint[80];
    tv_isa_suggest(&tv_isas, tv_sv_of(name), hint);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), hint, "unknown target '%.60s'", name);
}

tv_status tv_config_new(const char *name, const tv_diag_sink *sink, tv_config **out)
{
    const tv_target *target = tv_target_find(name);
    return target ? tv_config_new_for(target->schema, sink, out) : fail_unknown(name, sink);
}

tv_status tv_codec_new(const char *name, const tv_diag_sink *sink, tv_codec **out)
{
    const tv_isa *isa = tv_isa_find(&tv_isas, tv_sv_of(name));
    return isa ? tv_codec_new_for(isa, sink, out) : fail_unknown(name, sink);
}

tv_status tv_cover_new(const char *name, const tv_diag_sink *sink, tv_cover **out)
{
    const tv_isa *isa = tv_isa_find(&tv_isas, tv_sv_of(name));
    *out = NULL;
    return isa ? tv_cover_new_for(isa, sink, out) : fail_unknown(name, sink);
}

tv_status tv_assembly_keywords(const char *name, const tv_keyword_sink *keywords, const tv_diag_sink *sink)
{
    const tv_isa *isa = tv_isa_find(&tv_isas, tv_sv_of(name));
    return isa ? tv_asm_keywords(isa, keywords, sink) : fail_unknown(name, sink);
}
