/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of one instruction: word, fault, writes, inner values, cycles.
 *
 * The writes of the design are stored into copies of the ranges that the model writes. When all bytes of a range are
 * written and equal, which is the usual case, that is all. Otherwise elements are compared under the rules, and bytes
 * that are missing or extra are collected: the same bytes at another address are one misplaced write. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cosim/board.h"

const char *tv_mismatch_kind_name(tv_mismatch_kind kind)
{
    static const char *const names[TV_MISMATCH_KINDS] = {
        [TV_MISMATCH_WORD] = "wrong-word",
        [TV_MISMATCH_DATA] = "wrong-data",
        [TV_MISMATCH_MISSING] = "missing-write",
        [TV_MISMATCH_EXTRA] = "extra-write",
        [TV_MISMATCH_MISPLACED] = "misplaced-write",
        [TV_MISMATCH_LATE] = "late-write",
        [TV_MISMATCH_TRAP] = "wrong-trap",
        [TV_MISMATCH_NO_TRAP] = "missing-trap",
        [TV_MISMATCH_NEW_TRAP] = "extra-trap",
        [TV_MISMATCH_CYCLE] = "wrong-cycle",
        [TV_MISMATCH_VALUE] = "wrong-value",
        [TV_MISMATCH_NO_VALUE] = "missing-value",
        [TV_MISMATCH_HANG] = "hang",
        [TV_MISMATCH_ISSUE] = "no-issue",
        [TV_MISMATCH_STATE] = "wrong-state",
    };
    return names[kind];
}

/* ---- Reports ---- */

tv_mismatch tv_board_mismatch(const board_entry *e, tv_mismatch_kind kind)
{
    return (tv_mismatch){.kind = kind,
                         .tag = e->tag,
                         .number = e->number,
                         .word = e->word,
                         .insn = e->insn[0] ? e->insn : NULL,
                         .file = e->file,
                         .line = e->line,
                         .count = 1};
}

void tv_board_report(tv_scoreboard *b, tv_mismatch *m)
{
    snprintf(m->name, sizeof m->name, "%s%s%s%s%s", tv_mismatch_kind_name(m->kind), m->insn ? "/" : "",
             m->insn ? m->insn : "", m->space ? "/" : "", m->space ? m->space : "");
    m->waived = tv_rules_waive(b->options.rules, m->name);
    if (m->waived) {
        b->counts.waived++;
    } else {
        b->counts.mismatches++;
        b->counts.by_kind[m->kind]++;
    }
    if (b->options.mismatch)
        b->options.mismatch(b->options.user, m);
}

/* ---- Elements ---- */

tv_dtype tv_board_type(const tv_scoreboard *b, const char *insn, unsigned space, tolerance *out)
{
    *out = tv_rules_find(b->options.rules, insn, b->spaces.data[space].name);
    return out->has_type ? out->type : b->spaces.data[space].type;
}

/* Element `i` of `bytes` bytes; those of a range that ends within an element have fewer bits. */
static uint64_t load_element(const uint8_t *data, uint64_t bytes, uint64_t i, unsigned bits)
{
    uint64_t value = 0, at = i * bits / 8;
    if (bits < 8)
        return data[at] >> i * bits % 8 & tv_mask(bits);
    for (unsigned k = 0; k < bits / 8 && at + k < bytes; k++)
        value |= (uint64_t)data[at + k] << 8 * k;
    return value;
}

bool tv_board_accepts(const board_bytes *r, uint64_t i, tv_dtype type, const tolerance *t)
{
    unsigned bits = tv_dtype_bits(type);
    return tv_tolerance_accepts(t, type, load_element(r->expected, r->bytes, i, bits),
                                load_element(r->actual, r->bytes, i, bits));
}

/* "0x3f80 (1)"; the bits alone for hexadecimal types. */
static void format_element(tv_dtype type, uint64_t bits, char text[80])
{
    char value[TV_DTYPE_TEXT];
    uint8_t bytes[8];
    tv_store_le(bytes, bits, 8);
    tv_dtype_text(type, bytes, 0, value);
    if (type >= TV_HEX8 && type <= TV_HEX64)
        snprintf(text, 80, "%s", value);
    else
        snprintf(text, 80, "0x%0*" PRIx64 " (%s)", (int)(tv_dtype_bits(type) + 3) / 4, bits, value);
}

void tv_board_describe(const tv_scoreboard *b, const board_bytes *r, uint64_t i, tv_dtype type, tv_mismatch *m)
{
    const board_space *space = &b->spaces.data[r->space];
    char expected[80], actual[80];
    unsigned bits = tv_dtype_bits(type);
    uint64_t at = r->from + i * bits / 8;
    m->space = space->name;
    m->addr = at / space->unit_bytes;
    m->byte = at % space->unit_bytes;
    m->element = i;
    m->lane = (unsigned)(m->byte * 8 / bits + (bits < 8 ? i % (8 / bits) : 0));
    m->bits = bits;
    m->expected = load_element(r->expected, r->bytes, i, bits);
    m->actual = load_element(r->actual, r->bytes, i, bits);
    format_element(type, m->expected, expected);
    format_element(type, m->actual, actual);
    int n = snprintf(m->message, sizeof m->message,
                     "%s[0x%" PRIx64 "] lane %u (element %" PRIu64 ", %s) is %s in the "
                     "design, %s in the model",
                     m->space, m->addr, m->lane, i, tv_dtype_name(type), actual, expected);
    if (m->count > 1 && n > 0 && (size_t)n < sizeof m->message)
        snprintf(m->message + n, sizeof m->message - (size_t)n, "; %" PRIu64 " elements differ", m->count);
}

/* ---- Writes ---- */

/* Bytes of a space that only one side writes. Each space has a class of its own, which may be waived alone. */
typedef struct lone_bytes lone_bytes;
struct lone_bytes {
    unsigned space;
    uint64_t from; /* the first one */
    tv_buf values; /* empty: none, of any space */
    bool failed;   /* out of memory, also for another space */
    bool misplaced;
    lone_bytes *next; /* of another space, or NULL */
};

static void add_lone(lone_bytes *lone, unsigned space, uint64_t at, uint8_t value)
{
    lone_bytes *l = lone;
    while (l->values.len && l->space != space && l->next)
        l = l->next;
    if (l->values.len && l->space != space) {
        l->next = calloc(1, sizeof *l->next);
        lone->failed |= !l->next;
        if (!l->next)
            return;
        l = l->next;
    }
    if (l->values.len == 0) {
        l->space = space;
        l->from = at;
    }
    tv_buf_append(&l->values, &value, 1);
    lone->failed |= l->values.failed;
}

static void free_lone(lone_bytes *lone)
{
    tv_buf_fini(&lone->values);
    for (lone_bytes *l = lone->next, *next; l; l = next) {
        next = l->next;
        tv_buf_fini(&l->values);
        free(l);
    }
}

/* The range that contains byte `at` of `space`, or NULL. */
static const board_range *find_range(const board_entry *e, unsigned space, uint64_t at)
{
    size_t low = 0, high = e->ranges.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const board_range *r = &e->ranges.data[middle];
        if (r->space < space || (r->space == space && r->from + r->bytes <= at))
            low = middle + 1;
        else
            high = middle;
    }
    const board_range *r = low < e->ranges.count ? &e->ranges.data[low] : NULL;
    return r && r->space == space && r->from <= at ? r : NULL;
}

static bool is_ignored(const tv_scoreboard *b, const board_entry *e, unsigned space)
{
    return b->options.rules && tv_rules_find(b->options.rules, e->insn, b->spaces.data[space].name).ignore;
}

/* Stores the writes of the design; those outside of the ranges are extra. */
static void store_writes(const tv_scoreboard *b, board_entry *e, lone_bytes *extra)
{
    for (size_t i = 0; i < e->writes.count; i++) {
        const board_write *w = &e->writes.data[i];
        const uint8_t *data = e->data.data + w->at, *enabled = e->enabled.data + w->at;
        for (uint64_t k = 0; k < w->bytes;) {
            const board_range *r = find_range(e, w->space, w->from + k);
            uint64_t stop = r ? tv_min_u64(w->bytes, r->from + r->bytes - w->from) : k + 1;
            if (r && w->is_whole) { /* mostly */
                size_t at = r->at + (size_t)(w->from + k - r->from);
                memcpy(e->actual.data + at, data + k, stop - k);
                memset(e->written.data + at, 1, stop - k);
                k = stop;
                continue;
            }
            for (; k < stop; k++) {
                if (!enabled[k])
                    continue;
                if (!r) {
                    if (!is_ignored(b, e, w->space))
                        add_lone(extra, w->space, w->from + k, data[k]);
                    continue;
                }
                size_t at = r->at + (size_t)(w->from + k - r->from);
                e->actual.data[at] = data[k];
                e->written.data[at] = 1;
            }
        }
    }
}

static void report_lone(tv_scoreboard *b, const board_entry *e, const lone_bytes *lone, tv_mismatch_kind kind)
{
    const board_space *space = &b->spaces.data[lone->space];
    tv_mismatch m = tv_board_mismatch(e, kind);
    m.space = space->name;
    m.addr = lone->from / space->unit_bytes;
    m.byte = lone->from % space->unit_bytes;
    m.count = lone->values.len;
    m.bits = 8;
    *(kind == TV_MISMATCH_EXTRA ? &m.actual : &m.expected) = lone->values.data[0];
    snprintf(m.message, sizeof m.message,
             kind == TV_MISMATCH_EXTRA ? "the design wrote byte %" PRIu64 " of %s[0x%" PRIx64
                                         "], the model did not; %zu bytes"
                                       : "the design did not write byte %" PRIu64 " of %s[0x%" PRIx64 "]; %zu bytes",
             m.byte, m.space, m.addr, lone->values.len);
    tv_board_report(b, &m);
}

static void report_misplaced(tv_scoreboard *b, const board_entry *e, const lone_bytes *missing, const lone_bytes *extra)
{
    const board_space *from = &b->spaces.data[missing->space], *to = &b->spaces.data[extra->space];
    tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_MISPLACED);
    m.space = from->name;
    m.addr = missing->from / from->unit_bytes;
    m.byte = missing->from % from->unit_bytes;
    m.count = missing->values.len;
    m.bits = 8;
    m.expected = m.actual = missing->values.data[0];
    snprintf(m.message, sizeof m.message,
             "the design wrote the %zu bytes of %s[0x%" PRIx64 "] byte %" PRIu64 " to %s[0x%" PRIx64 "] byte %" PRIu64,
             missing->values.len, m.space, m.addr, m.byte, to->name, extra->from / to->unit_bytes,
             extra->from % to->unit_bytes);
    tv_board_report(b, &m);
}

static bool has_same_bytes(const lone_bytes *a, const lone_bytes *b)
{
    return a->values.len == b->values.len && memcmp(a->values.data, b->values.data, b->values.len) == 0;
}

/* Bytes that are missing are misplaced if the same ones are extra: in their space, or in the only one that has any. */
static void report_all_lone(tv_scoreboard *b, const board_entry *e, lone_bytes *missing, lone_bytes *extra)
{
    for (lone_bytes *m = missing; m && m->values.len; m = m->next) {
        lone_bytes *x = extra;
        bool is_single = !missing->next && !extra->next;
        while (x && x->values.len && !is_single && x->space != m->space)
            x = x->next;
        if (x && x->values.len && has_same_bytes(m, x)) {
            report_misplaced(b, e, m, x);
            x->misplaced = true;
        } else {
            report_lone(b, e, m, TV_MISMATCH_MISSING);
        }
    }
    for (const lone_bytes *x = extra; x && x->values.len; x = x->next)
        if (!x->misplaced)
            report_lone(b, e, x, TV_MISMATCH_EXTRA);
}

/* Compares a range of which a byte differs or is missing. */
static void compare_elements(tv_scoreboard *b, const board_entry *e, const board_range *r, lone_bytes *missing)
{
    tolerance t;
    tv_dtype type = tv_board_type(b, e->insn, r->space, &t);
    unsigned bits = tv_dtype_bits(type);
    board_bytes bytes = {r->space, r->from, r->bytes, e->expected.data + r->at, e->actual.data + r->at};
    const uint8_t *written = e->written.data + r->at;
    uint64_t first = 0;
    tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_DATA);
    m.count = 0;
    if (t.ignore)
        return;
    for (uint64_t i = 0; i < r->bytes; i++)
        if (!written[i])
            add_lone(missing, r->space, r->from + i, bytes.expected[i]);
    for (uint64_t i = 0; i * bits < r->bytes * 8; i++) {
        uint64_t at = i * bits / 8, last = tv_min_u64(at + (bits < 8 ? 1 : bits / 8), r->bytes) - 1;
        if (!written[at] || !written[last] || tv_board_accepts(&bytes, i, type, &t))
            continue;
        if (m.count++ == 0)
            first = i;
    }
    if (m.count) {
        tv_board_describe(b, &bytes, first, type, &m);
        tv_board_report(b, &m);
    }
}

/* Inverts the highest byte of an element for the self-test. */
static void plant_bug(tv_scoreboard *b, board_entry *e)
{
    if (!b->options.plant || b->counts.planted || e->number + 1 < b->options.plant || e->ranges.count == 0)
        return;
    const board_range *r = &e->ranges.data[0];
    tolerance t;
    unsigned bits = tv_dtype_bits(tv_board_type(b, e->insn, r->space, &t));
    size_t at = r->at + (size_t)tv_min_u64(bits < 8 ? 0 : bits / 8 - 1, r->bytes - 1);
    e->actual.data[at] ^= 0xFF;
    b->counts.planted = 1;
}

static void compare_writes(tv_scoreboard *b, board_entry *e)
{
    lone_bytes missing = {.space = 0}, extra = {.space = 0};
    e->actual.len = e->written.len = 0;
    tv_buf_fill(&e->actual, 0, e->expected.len);
    tv_buf_fill(&e->written, 0, e->expected.len);
    if (e->actual.failed || e->written.failed) {
        b->failed = true;
        return;
    }
    store_writes(b, e, &extra);
    int planted_before = b->counts.planted;
    uint64_t found_before = b->counts.by_kind[TV_MISMATCH_DATA];
    plant_bug(b, e);
    bool is_whole = e->expected.len == 0 || !memchr(e->written.data, 0, e->expected.len);
    if (!is_whole || (e->expected.len && memcmp(e->actual.data, e->expected.data, e->expected.len) != 0))
        for (size_t i = 0; i < e->ranges.count; i++)
            compare_elements(b, e, &e->ranges.data[i], &missing);
    report_all_lone(b, e, &missing, &extra);
    if (b->counts.planted && !planted_before)
        b->counts.planted_found = b->counts.by_kind[TV_MISMATCH_DATA] > found_before;
    b->failed |= missing.failed || extra.failed;
    b->counts.bytes += e->expected.len;
    free_lone(&missing);
    free_lone(&extra);
}

/* ---- The rest ---- */

static bool compare_word(tv_scoreboard *b, const board_entry *e)
{
    if (!e->has_design_word || e->design_word == e->word)
        return true;
    tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_WORD);
    m.expected = e->word;
    m.actual = e->design_word;
    m.bits = 64;
    snprintf(m.message, sizeof m.message, "the word is 0x%" PRIx64 " in the design, 0x%" PRIx64 " in the model",
             m.actual, m.expected);
    tv_board_report(b, &m);
    return false;
}

static bool compare_faults(tv_scoreboard *b, const board_entry *e)
{
    if (strcmp(e->fault, e->trap) == 0)
        return true;
    tv_mismatch m = tv_board_mismatch(e, e->fault[0] == '\0'  ? TV_MISMATCH_NEW_TRAP
                                         : e->trap[0] == '\0' ? TV_MISMATCH_NO_TRAP
                                                              : TV_MISMATCH_TRAP);
    snprintf(m.message, sizeof m.message, "%s%s in the design, %s%s in the model", e->trap[0] ? "fault " : "no fault",
             e->trap, e->fault[0] ? "fault " : "no fault", e->fault);
    tv_board_report(b, &m);
    return false;
}

static int order_values(const void *a, const void *b)
{
    const board_value *x = a, *y = b;
    if (x->element != y->element)
        return x->element < y->element ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* The model's value for a report that is not the next one. */
static board_value *search_value(board_entry *e, const board_value *report, size_t *next)
{
    enum { LOOK_AHEAD = 8 };
    for (size_t i = *next; i < e->values.count && i < *next + LOOK_AHEAD; i++)
        if (order_values(report, &e->values.data[i]) == 0) {
            *next = i + 1;
            return &e->values.data[i];
        }
    if (e->values.count == 0)
        return NULL;
    if (!e->is_sorted)
        qsort(e->values.data, e->values.count, sizeof *e->values.data, order_values);
    e->is_sorted = true;
    return bsearch(report, e->values.data, e->values.count, sizeof *e->values.data, order_values);
}

/* The model's value for a report. Both are mostly in the same order, of which the design may leave values out: *next is
 * the value after the one that was found last. */
static inline board_value *find_value(board_entry *e, const board_value *report, size_t *next)
{
    board_value *v = *next < e->values.count ? &e->values.data[*next] : NULL;
    if (!v || v->element != report->element || v->name != report->name)
        return search_value(e, report, next);
    ++*next;
    return v;
}

static bool is_required(const tv_scoreboard *b, const board_entry *e, const board_value *v)
{
    return tv_rules_find(b->options.rules, e->insn, b->names.data[v->name].text).required;
}

/* Inner values that the rules require, and the design has not reported: the first one of each name. */
static void compare_required(tv_scoreboard *b, const board_entry *e)
{
    uint64_t names[VALUE_NAMES_MAX / 64] = {0}; /* bit of each that is complete, or has been reported */
    for (size_t i = 0; b->options.rules && i < e->values.count; i++) {
        const board_value *v = &e->values.data[i];
        uint64_t *word = &names[v->name / 64], bit = UINT64_C(1) << v->name % 64;
        if (v->is_reported || *word & bit)
            continue;
        *word |= bit;
        if (!is_required(b, e, v))
            continue;
        tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_NO_VALUE);
        m.space = b->names.data[v->name].text;
        m.element = v->element;
        m.count = 0;
        for (size_t k = i; k < e->values.count; k++)
            m.count += e->values.data[k].name == v->name && !e->values.data[k].is_reported;
        snprintf(m.message, sizeof m.message, "the design did not report %s of element %" PRIu64, m.space, m.element);
        tv_board_report(b, &m);
    }
}

static double number_of(const board_value *v) { return v->is_integer ? (double)v->integer : v->real; }

static inline bool has_same_bits(const board_value *a, const board_value *b)
{
    return a->is_integer == b->is_integer && a->integer == b->integer;
}

static bool is_equal_value(const tv_scoreboard *b, const board_entry *e, const board_value *v,
                           const board_value *report)
{
    if (has_same_bits(v, report))
        return true; /* no rule makes equal values differ */
    double expected = number_of(v), actual = number_of(report);
    if (isnan(expected) && isnan(actual))
        return true; /* whatever their bits */
    tolerance t = tv_rules_find(b->options.rules, e->insn, b->names.data[report->name].text);
    return t.ignore ||
           ((!v->is_integer || t.absolute > 0 || t.relative > 0) && tv_tolerance_accepts_real(&t, expected, actual));
}

/* Reported values from number `first` on, of its name, that differ. */
static uint64_t count_differences(const tv_scoreboard *b, board_entry *e, size_t first)
{
    size_t next = 0;
    uint64_t count = 0;
    for (size_t i = first; i < e->reports.count; i++) {
        const board_value *report = &e->reports.data[i];
        const board_value *v = report->name == e->reports.data[first].name ? find_value(e, report, &next) : NULL;
        count += v && !is_equal_value(b, e, v, report);
    }
    return count;
}

static void format_inner(const board_value *v, char text[40])
{
    if (v->is_integer)
        snprintf(text, 40, "%" PRId64, v->integer);
    else
        snprintf(text, 40, "%.17g", v->real);
}

static void report_value(tv_scoreboard *b, const board_entry *e, const board_value *v, const board_value *report,
                         uint64_t count)
{
    char expected[40], actual[40];
    tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_VALUE);
    m.space = b->names.data[report->name].text;
    m.element = v->element;
    m.bits = 64;
    m.count = count;
    memcpy(&m.expected, &v->integer, sizeof m.expected); /* of a real number its bits */
    memcpy(&m.actual, &report->integer, sizeof m.actual);
    format_inner(v, expected);
    format_inner(report, actual);
    int n = snprintf(m.message, sizeof m.message, "%s of element %" PRIu64 " is %s in the design, %s in the model",
                     m.space, m.element, actual, expected);
    if (count > 1 && n > 0 && (size_t)n < sizeof m.message)
        snprintf(m.message + n, sizeof m.message - (size_t)n, "; %" PRIu64 " elements differ", count);
    tv_board_report(b, &m);
}

/* Reports the first value of each name that differs: a name is a class, which may be waived alone. */
static void compare_values(tv_scoreboard *b, board_entry *e)
{
    uint64_t names[VALUE_NAMES_MAX / 64] = {0}; /* bit of each that has been reported */
    size_t next = 0;
    for (size_t i = 0; i < e->reports.count; i++) {
        const board_value *report = &e->reports.data[i];
        board_value *v = find_value(e, report, &next);
        if (!v)
            continue;
        v->is_reported = true;
        if (has_same_bits(v, report))
            continue; /* mostly */
        uint64_t *word = &names[report->name / 64], bit = UINT64_C(1) << report->name % 64;
        if (*word & bit || is_equal_value(b, e, v, report))
            continue;
        *word |= bit;
        const board_value model = *v; /* counting may sort the values */
        report_value(b, e, &model, report, count_differences(b, e, i));
    }
}

void tv_board_compare_cycles(tv_scoreboard *b, tv_mismatch *m, uint64_t expected, uint64_t actual)
{
    uint64_t distance = expected > actual ? expected - actual : actual - expected;
    if (expected == TV_CYCLE_UNKNOWN || actual == TV_CYCLE_UNKNOWN || b->options.cycle_slack == TV_CYCLE_UNKNOWN ||
        distance <= b->options.cycle_slack)
        return;
    m->expected = expected;
    m->actual = actual;
    m->count = distance;
    snprintf(m->message, sizeof m->message, "it ends in cycle %" PRIu64 " in the design, %" PRIu64 " in the model",
             actual, expected);
    tv_board_report(b, m);
}

void tv_board_compare(tv_scoreboard *b, board_entry *e)
{
    if (!compare_word(b, e) || !compare_faults(b, e))
        return;
    compare_writes(b, e);
    compare_values(b, e);
    compare_required(b, e);
    if (b->options.cycle_slack == TV_CYCLE_UNKNOWN)
        return;
    tv_mismatch m = tv_board_mismatch(e, TV_MISMATCH_CYCLE);
    tv_board_compare_cycles(b, &m, e->end, e->cycle);
}
