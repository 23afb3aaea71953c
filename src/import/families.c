/* SPDX-License-Identifier: Apache-2.0 */
/* The table of families. */
#include "import/families.h"

#include <string.h>

#define ROPE_HALVES TV_TRAIT_ROPE_HALVES
#define LEARNED_POSITIONS TV_TRAIT_LEARNED_POSITIONS
#define LAYER_NORM TV_TRAIT_LAYER_NORM
#define QK_NORM TV_TRAIT_QK_NORM
#define POST_NORMS TV_TRAIT_POST_NORMS
#define QKV_BIAS TV_TRAIT_QKV_BIAS
#define OTHER_BIASES TV_TRAIT_OTHER_BIASES
#define JOINED_QKV TV_TRAIT_JOINED_QKV
#define JOINED_GATE TV_TRAIT_JOINED_GATE
#define NO_GATE TV_TRAIT_NO_GATE
#define SCALED_EMBEDDING TV_TRAIT_SCALED_EMBEDDING
#define LOCAL_THETA TV_TRAIT_LOCAL_THETA
#define TIED TV_TRAIT_TIED
#define EXPERTS TV_TRAIT_EXPERTS
#define NORMALIZED_EXPERTS TV_TRAIT_NORMALIZED_EXPERTS
#define ALTUP TV_TRAIT_ALTUP

static const tv_family families[] = {
#define FAMILY(architecture, types, pattern, activation, traits)                                                       \
    {architecture, types, pattern, TV_ACTIVATION_##activation, traits},
#include "import/families.def"
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const struct {
    const char *architecture, *name;
    double value;
} defaults[] = {
#define DEFAULT(architecture, name, value) {architecture, name, value},
#include "import/families.def"
};

const tv_family *tv_family_find(tv_sv architecture)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (tv_sv_is(architecture, families[i].architecture))
            return &families[i];
    return NULL;
}

bool tv_family_next_name(const char **names, tv_sv *name)
{
    if (!**names)
        return false;
    size_t length = strcspn(*names, "|");
    *name = (tv_sv){*names, length};
    *names += length + ((*names)[length] == '|');
    return true;
}

const tv_family *tv_family_find_type(tv_sv type)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        const char *names = families[i].types;
        for (tv_sv name; tv_family_next_name(&names, &name);)
            if (name.len == type.len && memcmp(name.ptr, type.ptr, type.len) == 0)
                return &families[i];
    }
    return NULL;
}

void tv_family_list(tv_buf *out)
{
    for (size_t i = 0; i < FAMILIES; i++)
        tv_buf_printf(out, "%s%s", i ? ", " : "", families[i].architecture);
}

bool tv_family_default(const tv_family *family, const char *names, double *out)
{
    for (tv_sv name; tv_family_next_name(&names, &name);)
        for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
            if (strcmp(defaults[i].architecture, family->architecture) == 0 && tv_sv_is(name, defaults[i].name)) {
                *out = defaults[i].value;
                return true;
            }
    return false;
}
