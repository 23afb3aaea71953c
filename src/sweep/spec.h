/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a sweep, as its files (spec_ini.c, spec_json.c) state it and its run reads it. Everything is
 * allocated in the arena of the specification. */
#ifndef TV_SWEEP_SPEC_H
#define TV_SWEEP_SPEC_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"
#include "sweep/expression.h"
#include "sweep/search.h"
#include "trivet/network.h"

enum { SPEC_TARGETS_MAX = 8, SPEC_WORKLOADS_MAX = 64, SPEC_VALUES_MAX = 1 << 16, SPEC_NUMBERS_MAX = 320 };

typedef enum workload_kind { WORKLOAD_PROGRAM, WORKLOAD_NETWORK, WORKLOAD_MODEL } workload_kind;

/* What runs on each point. Numbers that the file does not state are 0. */
typedef struct spec_workload {
    const char *name, *path;
    const char *target; /* the only one that it runs on, or NULL */
    workload_kind kind;
    uint64_t prompt, position, tokens, context, weight_bits, activation_bits, allow_host_ops;
    TV_VEC(tv_network_dim) dims;
    unsigned line;
    unsigned given; /* bit of each key that the file has */
    char digest[65];
} spec_workload;

/* A parameter of a machine with the values that it takes. */
typedef struct spec_parameter {
    const char *key;
    unsigned index, line; /* in the schema; of the file */
    bool is_enum;
    TV_VEC(const char *) texts;
    TV_VEC(double) numbers;
} spec_parameter;

typedef struct spec_target {
    const char *name, *profile;
    tv_config *base; /* the profile, or the defaults */
    unsigned line;
    TV_VEC(spec_parameter) parameters;
    TV_VEC(expression *) constraints;
    expression *objectives[TV_OBJECTIVES_MAX]; /* those of the user's own, otherwise NULL */
    TV_VEC(double) defaults;                   /* of all parameters of the schema */
    tv_search_space space;
} spec_target;

/* What the model computes for a point. */
typedef enum point_sum {
    SUM_CYCLES,
    SUM_SECONDS,
    SUM_BYTES,
    SUM_MACS,
    SUM_INSTRUCTIONS,
    SUM_ENERGY,            /* joules, nominal */
    SUM_EDP,               /* energy times seconds of all workloads, not a sum */
    SUM_TOKENS_PER_SECOND, /* tokens per second of all workloads, not a sum */
    POINT_SUMS
} point_sum;

/* Their names in the file and in exports, NULL-terminated. */
extern const char *const tv_point_sums[];

/* A named expression of the file. */
typedef struct spec_expression {
    const char *name, *text;
    unsigned line;
} spec_expression;

/* What the search minimizes or maximizes: a sum, or an expression. */
typedef struct spec_objective {
    const char *name;
    point_sum sum; /* POINT_SUMS: an expression */
    bool maximize;
} spec_objective;

typedef struct sweep_spec {
    tv_arena arena;
    const char *path;
    tv_search_options search;
    const char *objective_list; /* as in the file, or NULL */
    unsigned objective_line;
    spec_objective objectives[TV_OBJECTIVES_MAX];
    unsigned objective_count;
    TV_VEC(spec_expression) expressions;
    TV_VEC(spec_workload) workloads;
    TV_VEC(spec_target) targets;
    tv_status (*new_config)(const char *target, const tv_diag_sink *sink, tv_config **out);
    const tv_diag_sink *sink; /* of the parser */
    tv_status status;         /* the first failure of the parser */
    unsigned errors;
} sweep_spec;

/* Reads the specification at `path`, JSON if its first character is `{`, otherwise INI. `spec` is zeroed but for
 * new_config; the caller ends it with tv_spec_fini, also on an error. TV_ERR_INPUT: every error is reported;
 * TV_ERR_IO; TV_ERR_MEMORY. */
tv_status tv_spec_read(sweep_spec *spec, const char *path, const tv_diag_sink *sink);

/* The same from the `size` bytes of `data`. */
tv_status tv_spec_parse(sweep_spec *spec, const char *path, const char *data, size_t size, const tv_diag_sink *sink);

void tv_spec_fini(sweep_spec *spec);

/* ---- For the two syntaxes. Each reports its error at `line` ---- */

TV_PRINTF(4, 5)
void tv_spec_reject(sweep_spec *spec, unsigned line, const char *hint, const char *format, ...);
void tv_spec_set(sweep_spec *spec, unsigned line, const char *key, const char *value);
spec_workload *tv_spec_add_workload(sweep_spec *spec, unsigned line, const char *name);
void tv_spec_set_workload(sweep_spec *spec, spec_workload *workload, unsigned line, const char *key, const char *value);
spec_target *tv_spec_add_target(sweep_spec *spec, unsigned line, const char *name);
void tv_spec_add_expression(sweep_spec *spec, unsigned line, const char *name, const char *text);
void tv_spec_set_profile(sweep_spec *spec, spec_target *target, unsigned line, const char *profile);
void tv_spec_add_constraint(sweep_spec *spec, spec_target *target, unsigned line, const char *text);
/* `list`: values and ranges, separated by commas. */
void tv_spec_add_values(sweep_spec *spec, spec_target *target, unsigned line, const char *key, const char *list);

/* Parses the list of values of a parameter of `config`, a scratch copy (spec_values.c). */
void tv_spec_parse_values(sweep_spec *spec, tv_config *config, spec_parameter *parameter, const char *list);

/* Values of all parameters of the schema at a point, as numbers: all[schema->count]. */
void tv_spec_numbers(const spec_target *target, const uint32_t *values, double *all);

/* Checks the whole, once all keys are known. */
void tv_spec_finish(sweep_spec *spec);

void tv_spec_parse_ini(sweep_spec *spec, tv_sv text);
void tv_spec_parse_json(sweep_spec *spec, tv_sv text);

#endif
