/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration schemas: how a machine declares its parameters and reads their values.
 *
 * A machine lists its parameters once, in a .def file of rows
 *   TV_PARAM(ID, key, type, unit, default text, min, max, meaning)
 * from which it generates its enum of indices and its tv_schema. The unit of an ENUM lists its values, separated by
 * `|`, in the order of their numbers; min is 0 and max the last number. */
#ifndef TV_BASE_SCHEMA_H
#define TV_BASE_SCHEMA_H

#include "base/diag.h"
#include "trivet/config.h"

typedef enum tv_param_type { TV_PARAM_INTEGER, TV_PARAM_RATE, TV_PARAM_ENUM } tv_param_type;

typedef struct tv_param {
    const char *key;
    tv_param_type type;
    const char *unit;
    const char *default_value;
    uint64_t min, max;
    const char *meaning;
} tv_param;

typedef struct tv_schema {
    const char *target;
    const struct tv_target *machine; /* whose parameters these are; opaque here */
    const tv_param *params;
    unsigned count;
} tv_schema;

/* An exact non-negative quotient in lowest terms; den is never 0. */
typedef struct tv_rate {
    uint32_t num, den;
} tv_rate;

/* The profiles of configs/, embedded at build time; ends with a NULL name. */
typedef struct tv_embedded {
    const char *name;        /* "pccx-kv260" */
    const char *description; /* the `description` line of its text */
    const uint8_t *data;
    size_t size;
} tv_embedded;
extern const tv_embedded tv_embedded_profiles[];

tv_status tv_config_new_for(const tv_schema *schema, const tv_diag_sink *sink, tv_config **out);
const tv_schema *tv_config_schema(const tv_config *config);
tv_status tv_config_copy(const tv_config *config, const tv_diag_sink *sink, tv_config **out);

/* `index` is the machine's enum value of the parameter; its type must fit. */
uint64_t tv_config_integer(const tv_config *config, unsigned index);
tv_rate tv_config_rate(const tv_config *config, unsigned index);
unsigned tv_config_enum(const tv_config *config, unsigned index);

/* Parses INI text as tv_config_load does; `name` is what messages call it. For profiles from memory. */
tv_status tv_config_parse(tv_config *config, const char *name, const char *origin, const uint8_t *data, size_t size,
                          const tv_diag_sink *sink);

#endif
