/* SPDX-License-Identifier: Apache-2.0 */
/* Machine parameters: each has a name, a type, a unit, a default, a range and a meaning, from one schema per machine.
 *
 * A configuration starts with the schema's defaults; profiles (INI) and single overrides are laid over them in the
 * order of the calls. It is copied by tv_machine_new, so that it may be freed or changed afterwards. Not thread safe.
 */
#ifndef TRIVET_CONFIG_H
#define TRIVET_CONFIG_H

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_config tv_config;

/* One parameter as it stands. The strings live as long as the configuration is not changed. */
typedef struct tv_config_entry {
    const char *key;           /* "l2.words" */
    const char *type;          /* "integer" or "rate" (a decimal or a fraction, kept exactly) */
    const char *unit;          /* "words of 128 bit" */
    const char *default_value; /* the default, as text */
    uint64_t min, max;
    const char *meaning;
    const char *value;  /* as text */
    uint64_t number;    /* of an integer */
    const char *origin; /* "default", "profile pccx-kv260", "my.ini:3" or "override" */
} tv_config_entry;

/* The defaults of `target`. The caller frees it with tv_config_free. TV_ERR_INPUT: unknown target. */
TV_API tv_status tv_config_new(const char *target, const tv_diag_sink *sink, tv_config **out);
TV_API void tv_config_free(tv_config *config);

/* Lays a profile over `config`: the name of one that ships ("pccx-kv260", or "kv260" for the target pccx), or the path
 * of an INI file. All errors of the file are reported; on error `config` is unchanged. */
TV_API tv_status tv_config_load(tv_config *config, const char *profile_or_path, const tv_diag_sink *sink);

/* Sets one parameter from text. An integer: decimal or 0x hexadecimal, `_` between digits, suffix Ki Mi Gi for 2^10
 * 2^20 2^30. A rate: an integer, a decimal with up to six places, or a fraction like 8/5. */
TV_API tv_status tv_config_set(tv_config *config, const char *key, const char *value, const tv_diag_sink *sink);

/* Parameter `i` in the schema's order; returns 0 past the end. */
TV_API int tv_config_at(const tv_config *config, unsigned i, tv_config_entry *out);

/* TV_ERR_INPUT: the values do not go together, so that no machine can be made of them. */
TV_API tv_status tv_config_check(const tv_config *config, const tv_diag_sink *sink);

TV_API const char *tv_config_target(const tv_config *config);

/* Name and description of profile `i` of those that ship for `target` (NULL: for all); returns 0 past the end. */
TV_API int tv_config_profile_at(const char *target, unsigned i, const char **name, const char **description);

#ifdef __cplusplus
}
#endif
#endif
