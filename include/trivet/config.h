/* SPDX-License-Identifier: Apache-2.0 */
/* Machine parameters. Each has a name, type, unit, default, range and meaning, from one schema per machine.
 *
 * A configuration starts with the schema's defaults. Profiles (INI files) and single overrides are applied in the order
 * of the calls. Functions that take a const configuration only read it, so threads may share one that does not change.
 * tv_machine_new copies it. */
#ifndef TRIVET_CONFIG_H
#define TRIVET_CONFIG_H

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_config tv_config;

/* One parameter with its current value. The strings are valid until the configuration changes or is freed. */
typedef struct tv_config_entry {
    const char *key;           /* "l2.words" */
    const char *type;          /* "integer", "rate" (a decimal or a fraction, kept exactly) or "enum" */
    const char *unit;          /* "words of 128 bit"; of an enum its values, "cores|lanes" */
    const char *default_value; /* as text */
    uint64_t min, max;
    const char *meaning;
    const char *value;  /* as text */
    uint64_t number;    /* of an integer; of an enum the index of the value; of a rate 0 */
    const char *origin; /* "default", "profile pccx-kv260", "my.ini:3" or "override" */
} tv_config_entry;

/* Creates a configuration with the defaults of `target`. The caller frees it with tv_config_free. TV_ERR_INPUT: unknown
 * target; TV_ERR_MEMORY. */
TV_API tv_status tv_config_new(const char *target, const tv_diag_sink *sink, tv_config **out);

/* Frees `config`, which may be NULL. */
TV_API void tv_config_free(tv_config *config);

/* Applies a profile to `config`. `profile_or_path` is the name of an embedded profile ("pccx-kv260", or "kv260" for the
 * target pccx) or the path of an INI file. All errors of the file are reported; on error `config` is unchanged.
 * TV_ERR_INPUT: no such profile, or an invalid one; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_config_load(tv_config *config, const char *profile_or_path, const tv_diag_sink *sink);

enum { TV_CONFIG_TARGET = 32 };

/* Sets `target` to the name of the machine that `profile_or_path` is for: of an embedded profile, also by its short
 * name
 * ("kv260") if only one machine has one of that name, or of an INI file by `target` in its section [profile]; "" if the
 * file names none. The file is not checked otherwise. TV_ERR_INPUT: no such profile, or several; TV_ERR_IO;
 * TV_ERR_MEMORY; then `target` is "". */
TV_API tv_status tv_config_profile_target(const char *profile_or_path, const tv_diag_sink *sink,
                                          char target[TV_CONFIG_TARGET]);

/* Sets parameter `key` of `config` from the text `value`. An integer is decimal or 0x hexadecimal, with `_` between
 * digits and an optional suffix Ki, Mi or Gi (2^10, 2^20, 2^30). A rate is an integer, a decimal with up to six places,
 * or a fraction such as 8/5. An enum has one of its values. TV_ERR_INPUT: unknown key, malformed or out of range;
 * TV_ERR_MEMORY; then `config` is unchanged. */
TV_API tv_status tv_config_set(tv_config *config, const char *key, const char *value, const tv_diag_sink *sink);

/* Parameter `i` in the schema's order. Returns 0 past the last. */
TV_API int tv_config_at(const tv_config *config, unsigned i, tv_config_entry *out);

/* What the model of a profile was compared with: section [validated] of its INI file. The strings are valid until the
 * configuration changes or is freed. */
typedef struct tv_config_validation {
    const char *against;             /* name of the table of measurements */
    uint64_t cases;                  /* measured programs */
    double mean_error;               /* mean absolute percentage error of their cycles */
    double worst_error;              /* signed error of largest magnitude, in percent */
    uint64_t min_cycles, max_cycles; /* range of the measured cycles */
    const char *changed;             /* a parameter that has another value now than the profile, or NULL */
} tv_config_validation;

/* What the loaded profile was validated against. Returns 0 if it was not. */
TV_API int tv_config_validation_of(const tv_config *config, tv_config_validation *out);

/* Checks that the parameters are consistent with each other, so that a machine can be built. TV_ERR_INPUT: they are
 * not.
 */
TV_API tv_status tv_config_check(const tv_config *config, const tv_diag_sink *sink);

/* Name of the target. Static string. */
TV_API const char *tv_config_target(const tv_config *config);

/* Sets `name` and `description` to those of embedded profile `i` of `target`, which may be NULL for all targets. Static
 * strings. Returns 0 past the last. */
TV_API int tv_config_profile_at(const char *target, unsigned i, const char **name, const char **description);

#ifdef __cplusplus
}
#endif
#endif
