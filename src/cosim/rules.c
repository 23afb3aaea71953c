/* SPDX-License-Identifier: Apache-2.0 */
/* Rules, read from an INI file through inih:
 *
 *     [rule CVO_* l2]                        instruction and space, * and ? as in file names
 *     type = bf16
 *     steps = 1
 *     [waive wrong-data/CVO_SIN/l2]          class of mismatches
 *     reason = the table of the design ends at pi */
#include "cosim/rules.h"

#include <fnmatch.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/sv.h"
#include "base/vec.h"

typedef struct rule {
    char insn[RULE_PATTERN], space[RULE_PATTERN];
    unsigned given; /* bit of each key that it has */
    tolerance tolerance;
} rule;

typedef struct waiver {
    char pattern[RULE_PATTERN], reason[RULE_REASON];
} waiver;

struct tv_rules {
    TV_VEC(rule) rules;
    TV_VEC(waiver) waivers;
};

enum { FILE_LIMIT = 1 << 20 };
enum {
    KEY_TYPE,
    KEY_STEPS,
    KEY_RELATIVE,
    KEY_ABSOLUTE,
    KEY_NAN,
    KEY_ZERO,
    KEY_FLUSH,
    KEY_MASK,
    KEY_IGNORE,
    KEY_REQUIRED,
    KEYS
};
static const char *const keys[KEYS] = {"type", "steps", "relative", "absolute", "nan",
                                       "zero", "flush", "mask",     "ignore",   "required"};

void tv_rules_free(tv_rules *rules)
{
    if (!rules)
        return;
    TV_VEC_FINI(&rules->rules);
    TV_VEC_FINI(&rules->waivers);
    free(rules);
}

/* ---- Reading ---- */

typedef struct parse {
    tv_rules *rules;
    const char *name;
    tv_sv rest;
    unsigned line;
    char section[256]; /* of the newest rule or waiver */
    char header[256];  /* of the newest section, until it has a pair; "": none */
    unsigned header_line;
    const tv_diag_sink *sink;
    tv_status status;
} parse;

static void report_line(parse *p, const char *hint, const char *message, const char *text)
{
    tv_source_loc loc = {.file = p->name, .line = p->line, .index = -1};
    tv_report(p->sink, TV_ERROR, TV_CODE(RULES_FORM), &loc, hint, "%s%.100s", message, text);
    p->status = TV_ERR_INPUT;
}

/* Reports a section that has ended without a pair, for which inih calls nothing. A rule without keys has no effect. */
static void check_header(parse *p)
{
    unsigned line = p->line;
    if (p->header[0] && strncmp(p->header, "rule ", 5) != 0) {
        p->line = p->header_line;
        report_line(p, "[waive wrong-data/CVO_SIN/l2] and reason = TEXT",
                    "a section has no reason for a waiver: ", p->header);
        p->line = line;
    }
    p->header[0] = '\0';
}

static void keep_header(parse *p, const char *line)
{
    check_header(p);
    snprintf(p->header, sizeof p->header, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
    p->header_line = p->line;
}

/* Reads the next line without its indentation, which inih takes for the continuation of a value. */
static char *next_line(char *line, int size, void *user)
{
    parse *p = user;
    if (p->rest.len == 0)
        return NULL;
    const char *end = memchr(p->rest.ptr, '\n', p->rest.len);
    size_t n = end ? (size_t)(end - p->rest.ptr) : p->rest.len, skipped = 0;
    p->line++;
    if (n >= (size_t)size || memchr(p->rest.ptr, '\0', n)) {
        report_line(p, NULL, "the line is too long or has a NUL", "");
        n = 0;
    }
    while (skipped < n && (p->rest.ptr[skipped] == ' ' || p->rest.ptr[skipped] == '\t'))
        skipped++;
    if (n > skipped)
        memcpy(line, p->rest.ptr + skipped, n - skipped);
    line[n - skipped] = '\0';
    if (line[0] == '[')
        keep_header(p, line);
    size_t step = end ? (size_t)(end - p->rest.ptr) + 1 : p->rest.len;
    p->rest = (tv_sv){p->rest.ptr + step, p->rest.len - step};
    return line;
}

static bool parse_flag(const char *text, const char *yes, const char *no, bool *out)
{
    *out = strcmp(text, yes) == 0;
    return *out || strcmp(text, no) == 0;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    bool hexadecimal = text[0] == '0' && text[1] == 'x';
    errno = 0;
    *out = strtoull(text, &end, hexadecimal ? 16 : 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return ((text[0] >= '0' && text[0] <= '9') || text[0] == '.') && *end == '\0' && *out >= 0 && isfinite(*out);
}

static bool set_key(tolerance *t, unsigned key, const char *text)
{
    switch (key) {
    case KEY_TYPE:
        t->has_type = true;
        return tv_dtype_find(text, &t->type) == TV_OK;
    case KEY_STEPS:
        return parse_number(text, &t->steps);
    case KEY_RELATIVE:
        return parse_real(text, &t->relative);
    case KEY_ABSOLUTE:
        return parse_real(text, &t->absolute);
    case KEY_NAN:
        return parse_flag(text, "equal", "exact", &t->nan_equal);
    case KEY_ZERO:
        return parse_flag(text, "equal", "exact", &t->zero_equal);
    case KEY_FLUSH:
        return parse_flag(text, "yes", "no", &t->flush);
    case KEY_MASK:
        return parse_number(text, &t->mask);
    case KEY_IGNORE:
        return parse_flag(text, "yes", "no", &t->ignore);
    case KEY_REQUIRED:
        return parse_flag(text, "yes", "no", &t->required);
    }
    return false;
}

/* Copies the words of a section after its first one. */
static bool split_section(const char *text, char *first, char *second)
{
    char rest[RULE_PATTERN];
    int end = 0;
    if (sscanf(text, "%63s %63s%n", first, second ? second : rest, &end) == (second ? 2 : 1))
        return second ? text[end] == '\0' : true;
    return false;
}

static void set_rule(parse *p, const char *section, bool is_new, const char *name, const char *text)
{
    rule new_rule = {.tolerance.mask = UINT64_MAX};
    if (is_new && !split_section(section + 5, new_rule.insn, new_rule.space)) {
        report_line(p, "[rule CVO_* l2]", "a rule needs an instruction and a space: ", section);
        return;
    }
    if (is_new && !TV_VEC_PUSH(&p->rules->rules, new_rule)) {
        p->status = TV_ERR_MEMORY;
        return;
    }
    rule *r = TV_VEC_LAST(&p->rules->rules);
    for (unsigned k = 0; r && k < KEYS; k++)
        if (strcmp(name, keys[k]) == 0) {
            r->given |= 1u << k;
            if (!set_key(&r->tolerance, k, text))
                report_line(p, NULL, "not a value of this key: ", text);
            return;
        }
    report_line(p, "type, steps, relative, absolute, nan, zero, flush, mask, ignore or required", "a rule has no key ",
                name);
}

static void set_waiver(parse *p, const char *section, const char *name, const char *text)
{
    waiver w = {.reason = ""};
    if (strcmp(name, "reason") != 0 || !text[0] || !split_section(section + 6, w.pattern, NULL)) {
        report_line(p, "[waive wrong-data/CVO_SIN/l2] and reason = TEXT",
                    "a waiver needs a class and a reason: ", section);
        return;
    }
    snprintf(w.reason, sizeof w.reason, "%s", text);
    if (!TV_VEC_PUSH(&p->rules->waivers, w))
        p->status = TV_ERR_MEMORY;
}

static int set_pair(void *user, const char *section, const char *name, const char *text)
{
    parse *p = user;
    bool is_new = strcmp(p->section, section) != 0;
    snprintf(p->section, sizeof p->section, "%s", section);
    p->header[0] = '\0';
    if (strncmp(section, "rule ", 5) == 0)
        set_rule(p, section, is_new, name, text);
    else if (strncmp(section, "waive ", 6) == 0)
        set_waiver(p, section, name, text);
    else
        report_line(p, "[rule INSTRUCTION SPACE] or [waive CLASS]",
                    "a section is neither a rule nor a waiver: ", section);
    return 1;
}

tv_status tv_rules_parse(const char *name, const void *text, size_t size, const tv_diag_sink *sink, tv_rules **out)
{
    if (size > FILE_LIMIT)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "'%s' has more than 1 MiB", name);
    parse p = {.rules = calloc(1, sizeof *p.rules), .name = name, .rest = {text, size}, .sink = sink};
    if (!p.rules)
        return tv_fail_memory(sink);
    int bad_line = ini_parse_stream(next_line, &p, set_pair, &p);
    check_header(&p);
    if (bad_line < 0 || p.status == TV_ERR_MEMORY) {
        p.status = tv_fail_memory(sink);
    } else if (bad_line > 0 && p.status == TV_OK) {
        p.line = (unsigned)bad_line;
        report_line(&p, NULL, "expected a section, a pair or a comment", "");
    }
    if (p.status != TV_OK) {
        tv_rules_free(p.rules);
        return p.status;
    }
    *out = p.rules;
    return TV_OK;
}

tv_status tv_rules_read(const char *path, const tv_diag_sink *sink, tv_rules **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_rules_parse(path, input.data, input.size, sink, out);
    tv_input_close(&input);
    return status;
}

/* ---- Use ---- */

static void apply_rule(tolerance *to, const rule *r)
{
    const tolerance *from = &r->tolerance;
    if (r->given & 1u << KEY_TYPE) {
        to->has_type = true;
        to->type = from->type;
    }
    if (r->given & 1u << KEY_STEPS)
        to->steps = from->steps;
    if (r->given & 1u << KEY_RELATIVE)
        to->relative = from->relative;
    if (r->given & 1u << KEY_ABSOLUTE)
        to->absolute = from->absolute;
    if (r->given & 1u << KEY_NAN)
        to->nan_equal = from->nan_equal;
    if (r->given & 1u << KEY_ZERO)
        to->zero_equal = from->zero_equal;
    if (r->given & 1u << KEY_FLUSH)
        to->flush = from->flush;
    if (r->given & 1u << KEY_MASK)
        to->mask = from->mask;
    if (r->given & 1u << KEY_IGNORE)
        to->ignore = from->ignore;
    if (r->given & 1u << KEY_REQUIRED)
        to->required = from->required;
}

tolerance tv_rules_find(const tv_rules *rules, const char *insn, const char *space)
{
    tolerance found = {.mask = UINT64_MAX};
    for (size_t i = 0; rules && i < rules->rules.count; i++) {
        const rule *r = &rules->rules.data[i];
        if (fnmatch(r->insn, insn ? insn : "", 0) == 0 && fnmatch(r->space, space, 0) == 0)
            apply_rule(&found, r);
    }
    return found;
}

int tv_rules_waiver_at(const tv_rules *rules, unsigned i, tv_waiver *out)
{
    if (!rules || i >= rules->waivers.count)
        return 0;
    *out = (tv_waiver){rules->waivers.data[i].pattern, rules->waivers.data[i].reason};
    return 1;
}

const char *tv_rules_waive(const tv_rules *rules, const char *name)
{
    for (size_t i = 0; rules && i < rules->waivers.count; i++)
        if (fnmatch(rules->waivers.data[i].pattern, name, 0) == 0)
            return rules->waivers.data[i].reason;
    return NULL;
}

/* Exponent and fraction bits of a floating-point type; false for integers. */
static bool is_floating(tv_dtype type, unsigned *fraction)
{
    *fraction = type == TV_F32 ? 23 : type == TV_F16 ? 10 : type == TV_BF16 ? 7 : 0;
    return *fraction != 0;
}

/* The position of a value in the order of all values of its type: neighbours differ by 1, both zeros are 0. */
static int64_t step_of(tv_dtype type, uint64_t bits)
{
    unsigned width = tv_dtype_bits(type), fraction;
    uint64_t sign = bits >> (width - 1) & 1, rest = bits & tv_mask(width - 1);
    if (is_floating(type, &fraction))
        return sign ? -(int64_t)rest : (int64_t)rest;
    bool is_signed = type == TV_I4 || type == TV_S8 || type == TV_S16 || type == TV_S32 || type == TV_I2;
    return is_signed && sign ? (int64_t)(bits | ~tv_mask(width)) : (int64_t)bits;
}

static uint64_t flush_subnormal(tv_dtype type, uint64_t bits)
{
    unsigned width = tv_dtype_bits(type), fraction;
    if (!is_floating(type, &fraction))
        return bits;
    uint64_t exponent = bits >> fraction & tv_mask(width - 1 - fraction);
    return exponent ? bits : bits & UINT64_C(1) << (width - 1);
}

static bool is_nan(tv_dtype type, uint64_t bits)
{
    unsigned width = tv_dtype_bits(type), fraction;
    if (!is_floating(type, &fraction))
        return false;
    uint64_t magnitude = bits & tv_mask(width - 1), infinity = tv_mask(width - 1) & ~tv_mask(fraction);
    return magnitude > infinity;
}

bool tv_tolerance_accepts_real(const tolerance *t, double expected, double actual)
{
    if (expected == actual && (t->zero_equal || expected != 0 || !signbit(expected) == !signbit(actual)))
        return true;
    if (isnan(expected) || isnan(actual))
        return t->nan_equal && isnan(expected) && isnan(actual);
    double difference = fabs(expected - actual);
    return isfinite(difference) && (difference <= t->absolute || difference <= t->relative * fabs(expected)) &&
           (t->absolute > 0 || t->relative > 0);
}

bool tv_tolerance_accepts(const tolerance *t, tv_dtype type, uint64_t expected, uint64_t actual)
{
    expected &= t->mask;
    actual &= t->mask;
    if (t->flush) {
        expected = flush_subnormal(type, expected);
        actual = flush_subnormal(type, actual);
    }
    if (expected == actual || t->ignore)
        return true;
    if (is_nan(type, expected) || is_nan(type, actual))
        return t->nan_equal && is_nan(type, expected) && is_nan(type, actual);
    uint8_t a[8], b[8];
    tv_store_le(a, expected, 8);
    tv_store_le(b, actual, 8);
    int64_t from = step_of(type, expected), to = step_of(type, actual);
    uint64_t distance = from > to ? (uint64_t)from - (uint64_t)to : (uint64_t)to - (uint64_t)from;
    if (distance == 0)
        return t->zero_equal; /* zeros of both signs */
    return distance <= t->steps || tv_tolerance_accepts_real(t, tv_dtype_value(type, a, 0), tv_dtype_value(type, b, 0));
}
