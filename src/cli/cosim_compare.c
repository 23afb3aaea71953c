/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cosim_compare.h"

#include <fnmatch.h>
#include <inttypes.h>

enum { CLASSES_MAX = 1024 };

/* Mismatches of one class. */
typedef struct class_count {
    char name[TV_MISMATCH_CLASS];
    char reason[128]; /* if it is waived */
    uint64_t count;
} class_count;

typedef struct comparison {
    cli *c;
    tv_codec *codec; /* NULL: instructions are no words */
    uint64_t rows, printed;
    class_count *classes; /* CLASSES_MAX; later ones are counted together in the last */
    unsigned class_count;
    tv_json_writer *json; /* inside the list of mismatches */
    tv_rules *rules;      /* or NULL */
} comparison;

bool cosim_has_compare_options(const cli *c)
{
    return cli_has(c, "rules") || cli_has(c, "cycle-slack") || cli_has(c, "self-test") || cli_has(c, "rows");
}

tv_status cosim_make_machine(cli *c, const tv_commit_log_reader *reader, tv_machine **out)
{
    tv_config *config = NULL;
    tv_status status = tv_commit_log_config(reader, &c->sink, &config);
    if (status == TV_OK)
        status = tv_machine_new(config, TV_MODE_FUNCTIONAL, &c->sink, out);
    tv_config_free(config);
    return status;
}

/* ---- Mismatches ---- */

static void count_class(comparison *j, const tv_mismatch *m)
{
    unsigned i = 0;
    while (i < j->class_count && strcmp(j->classes[i].name, m->name) != 0)
        i++;
    if (i == CLASSES_MAX)
        i--;
    if (i == j->class_count) {
        snprintf(j->classes[i].name, sizeof j->classes[i].name, "%s", m->name);
        snprintf(j->classes[i].reason, sizeof j->classes[i].reason, "%s", m->waived ? m->waived : "");
        j->class_count++;
    }
    j->classes[i].count++;
}

static void write_mismatch_json(tv_json_writer *w, const tv_mismatch *m)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "class", m->name);
    tv_json_unsigned_member(w, "order", m->tag);
    tv_json_string_member(w, "insn", m->insn);
    tv_json_string_member(w, "file", m->file);
    tv_json_unsigned_member(w, "line", m->line);
    tv_json_string_member(w, "space", m->space);
    tv_json_unsigned_member(w, "addr", m->addr);
    tv_json_unsigned_member(w, "byte", m->byte);
    tv_json_unsigned_member(w, "element", m->element);
    tv_json_unsigned_member(w, "lane", m->lane);
    tv_json_unsigned_member(w, "bits", m->bits);
    tv_json_unsigned_member(w, "expected", m->expected);
    tv_json_unsigned_member(w, "actual", m->actual);
    tv_json_unsigned_member(w, "count", m->count);
    tv_json_string_member(w, "waived", m->waived);
    tv_json_string_member(w, "message", m->message);
    tv_json_end_object(w);
}

static void print_mismatch(const comparison *j, const tv_mismatch *m)
{
    char text[TV_CODEC_TEXT] = "";
    if (j->codec && m->word)
        tv_codec_disassemble(j->codec, m->word, text);
    else if (m->insn)
        snprintf(text, sizeof text, "%s", m->insn);
    printf("MISMATCH: %s", CLI_SAFE(m->name));
    if (m->kind != TV_MISMATCH_ISSUE)
        printf(", instruction %" PRIu64, m->number);
    if (m->file)
        printf(" (%s:%u)", CLI_SAFE(m->file), m->line);
    printf(": %s%s", CLI_SAFE(text), text[0] ? ": " : "");
    cli_print_line(stdout, m->message);
}

static void show_mismatch(void *user, const tv_mismatch *m)
{
    comparison *j = user;
    count_class(j, m);
    if (m->waived && !j->c->verbose)
        return;
    if (j->printed++ >= j->rows)
        return;
    if (j->json)
        write_mismatch_json(j->json, m);
    else
        print_mismatch(j, m);
}

/* ---- Results ---- */

/* The next waiver from *i on that no mismatch has needed: what it waived may be correct now. None if there were more
 * classes than are kept. */
static bool next_unused_waiver(const comparison *j, unsigned *i, tv_waiver *waiver)
{
    if (j->class_count == CLASSES_MAX)
        return false;
    for (; tv_rules_waiver_at(j->rules, *i, waiver); ++*i) {
        bool used = false;
        for (unsigned k = 0; k < j->class_count && !used; k++)
            used = fnmatch(waiver->pattern, j->classes[k].name, 0) == 0;
        if (!used)
            return true;
    }
    return false;
}

static void print_counts(const comparison *j, const tv_scoreboard_counts *n)
{
    if (j->printed > j->rows)
        printf("%s more mismatches\n", CLI_COUNT(j->printed - j->rows));
    for (unsigned i = 0; i < j->class_count; i++) {
        const class_count *k = &j->classes[i];
        printf("%12s  %s", CLI_COUNT(k->count), CLI_SAFE(k->name));
        if (k->reason[0])
            printf("  waived: %s", CLI_SAFE(k->reason));
        printf("\n");
    }
    tv_waiver waiver;
    for (unsigned i = 0; next_unused_waiver(j, &i, &waiver); i++)
        printf("no mismatch needs the waiver %s: %s\n", CLI_SAFE(waiver.pattern), CLI_SAFE(waiver.reason));
    printf("%s: %s instructions, %s faults, %s bytes, %s mismatches, %s waived\n", n->mismatches ? "FAIL" : "PASS",
           CLI_COUNT(n->instructions), CLI_COUNT(n->faults), CLI_COUNT(n->bytes), CLI_COUNT(n->mismatches),
           CLI_COUNT(n->waived));
}

static void write_counts_json(const comparison *j, const tv_scoreboard_counts *n)
{
    tv_json_writer *w = j->json;
    tv_json_end_array(w);
    tv_json_key(w, "classes");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < j->class_count; i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "class", j->classes[i].name);
        tv_json_unsigned_member(w, "count", j->classes[i].count);
        tv_json_string_member(w, "waived", j->classes[i].reason[0] ? j->classes[i].reason : NULL);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_key(w, "unused_waivers");
    tv_json_begin_array(w);
    tv_waiver waiver;
    for (unsigned i = 0; next_unused_waiver(j, &i, &waiver); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "class", waiver.pattern);
        tv_json_string_member(w, "reason", waiver.reason);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_unsigned_member(w, "instructions", n->instructions);
    tv_json_unsigned_member(w, "faults", n->faults);
    tv_json_unsigned_member(w, "bytes", n->bytes);
    tv_json_unsigned_member(w, "mismatch_count", n->mismatches);
    tv_json_unsigned_member(w, "waived_count", n->waived);
    tv_json_end_object(w);
}

static int finish(const comparison *j, const tv_scoreboard_counts *n)
{
    if (!n->instructions && !n->bytes && !n->mismatches) {
        cli_error(j->c, CLI_E_VALUE, "log what the design does from the begin of its program",
                  "neither log has an instruction or a write: nothing is compared");
        return CLI_INVALID;
    }
    if (j->json)
        write_counts_json(j, n);
    else
        print_counts(j, n);
    if (!cli_has(j->c, "self-test"))
        return n->mismatches ? CLI_FAULT : CLI_OK;
    if (n->planted_found)
        return CLI_OK;
    cli_error(j->c, CLI_E_SELF_TEST, "compare a log that writes, without rules that accept everything",
              "the comparison does not report the inverted byte");
    return CLI_FAULT;
}

/* ---- The comparison ---- */

static tv_status parse_options(comparison *j, tv_scoreboard_options *options)
{
    cli *c = j->c;
    const char *slack = cli_value(c, "cycle-slack"), *path = cli_value(c, "rules"), *rows = cli_value(c, "rows");
    *options = (tv_scoreboard_options){.size = sizeof *options,
                                       .mismatch = show_mismatch,
                                       .user = j,
                                       .cycle_slack = TV_CYCLE_UNKNOWN,
                                       .plant = cli_has(c, "self-test")};
    j->rows = 10;
    if ((slack && !cli_parse_number(slack, &options->cycle_slack)) || (rows && !cli_parse_number(rows, &j->rows))) {
        cli_error(c, CLI_E_VALUE, "a number", "--cycle-slack and --rows take a number");
        return TV_ERR_INPUT;
    }
    tv_status status = path ? tv_rules_read(path, &c->sink, &j->rules) : TV_OK;
    options->rules = j->rules;
    return status;
}

/* A codec for the text of instructions, if they are words. */
static tv_status open_codec(comparison *j, const char *target)
{
    tv_target_info t;
    for (unsigned i = 0; tv_target_at(i, &t); i++)
        if (strcmp(t.name, target) == 0 && t.word_bits)
            return tv_codec_new(target, &j->c->sink, &j->codec);
    return TV_OK;
}

static void begin_result(comparison *j)
{
    if (!j->c->json)
        return;
    j->json = cli_begin_result(j->c);
    tv_json_begin_object(j->json);
    tv_json_key(j->json, "mismatches");
    tv_json_begin_array(j->json);
}

int cosim_compare(cli *c)
{
    comparison j = {.c = c, .classes = calloc(CLASSES_MAX, sizeof *j.classes)};
    tv_commit_log_reader *logs[2] = {NULL, NULL};
    tv_machine *machine = NULL;
    tv_scoreboard_options options;
    tv_scoreboard_counts counts = {0};
    int result = CLI_FAILED;
    if (c->file_count != 3) {
        free(j.classes);
        return cli_error(c, CLI_E_COUNT, "usage: trivet cosim compare MODEL.log DESIGN.log", "compare takes two logs");
    }
    tv_status status = j.classes ? parse_options(&j, &options) : TV_ERR_MEMORY;
    for (unsigned i = 0; i < 2 && status == TV_OK; i++)
        status = tv_commit_log_read(c->files[1 + i], &c->sink, &logs[i]);
    if (status == TV_OK)
        status = cosim_make_machine(c, logs[0], &machine);
    if (status == TV_OK)
        status = open_codec(&j, tv_machine_target(machine));
    if (status == TV_OK) {
        begin_result(&j);
        status = tv_commit_log_compare(machine, logs[0], logs[1], &options, &c->sink, &counts);
        result = status == TV_OK ? finish(&j, &counts) : CLI_OK;
        if (status != TV_OK && j.json)
            write_counts_json(&j, &counts);
    }
    for (unsigned i = 0; i < 2; i++)
        tv_commit_log_close(logs[i]);
    tv_machine_free(machine);
    tv_codec_free(j.codec);
    tv_rules_free(j.rules);
    free(j.classes);
    return status == TV_OK ? result : cli_exit_status(status);
}
