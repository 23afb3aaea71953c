/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/llm_report.h"

#include <math.h>

#include "cli/energy_report.h"

/* ---- Tables ---- */

static double divide(double amount, double count) { return count > 0 ? amount / count : 0; }

static const char *format_mean(double value, char text[32]) { return cli_format_count((uint64_t)(value + 0.5), text); }

#define MEAN(value) format_mean(value, (char[32]){0})

static void print_generated(const llm_outcome *list, unsigned count)
{
    printf("  %-8s %7s %16s %16s %14s %14s  %s\n", "target", "tokens", "cycles/token", "prompt, c/token", "tokens/s",
           "bytes/token", "bound by");
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        double cycles = divide((double)s->cycles, s->tokens);
        bool host = s->clock_hz <= 0;
        printf("  %-8s %7u ", list[i].target, s->prompt_tokens + s->tokens);
        if (host)
            printf("%16s %16s %14.1f %14s  %s\n", "", "", divide(s->tokens, s->host_seconds), "", "this computer");
        else
            printf("%16s %16s %14.1f %14s  %s; simulated at %.1f tokens/s\n", MEAN(cycles),
                   MEAN(divide((double)s->prompt_cycles, s->prompt_tokens)), divide(s->clock_hz, cycles),
                   MEAN(divide((double)(s->read_bytes + s->written_bytes), s->tokens)), list[i].bound_by,
                   divide(s->tokens, s->host_seconds));
    }
}

static void print_host_ops(const llm_outcome *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        double tokens = s->prompt_tokens + s->tokens;
        if (list[i].host_op_count == 0) {
            printf("\n  %s runs no operations on the host\n", list[i].target);
            continue;
        }
        printf("\n  %-8s %-44s %12s %16s\n", list[i].target, "host operations", "times/token", "values/token");
        for (unsigned k = 0; k < list[i].host_op_count; k++)
            printf("  %-8s %-44s %12.1f %16.1f\n", "", list[i].host_ops[k].name,
                   divide((double)list[i].host_ops[k].count, tokens),
                   divide((double)list[i].host_ops[k].elements, tokens));
    }
}

/* Prints "VALUE ± ERROR" in `width` columns; the error of a single token is unknown. */
static void print_estimate(double value, double error, int width)
{
    char text[64];
    if (isnan(error))
        snprintf(text, sizeof text, "%.4f", value);
    else
        snprintf(text, sizeof text, "%.4f %s %.4f", value, cli_symbol("±", "+-"), error);
    int columns = 0;
    for (const char *p = text; *p; p++)
        columns += (*p & 0xC0) != 0x80;
    printf(" %*s%s", columns < width ? width - columns : 0, "", text);
}

static void print_evaluated(const llm_outcome *list, unsigned count)
{
    printf("  %-8s %7s %17s %20s %13s\n", "target", "tokens", "nats/token", "perplexity", "against host");
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_likelihood *l = &list[i].likelihood, *host = &list[0].likelihood;
        double perplexity = exp(l->nll);
        printf("  %-8s %7u", list[i].target, l->tokens);
        if (l->tokens == 0) { /* interrupted before the first window */
            printf(" %17s %20s %13s\n", "-", "-", "-");
            continue;
        }
        print_estimate(l->nll, l->nll_error, 17);
        print_estimate(perplexity, perplexity * l->nll_error, 20);
        if (l->tokens == host->tokens)
            printf(" %11.2f %%\n", 100 * (l->nll / host->nll - 1));
        else
            printf(" %13s\n", "-");
    }
}

static void print_similarity(const llm_outcome *o)
{
    printf("%s against the host:\n  %-8s %12s %16s\n", o->target, "layer", "cosine", "max error");
    for (uint32_t i = 0; i < o->layer_count; i++) {
        char name[16];
        snprintf(name, sizeof name, i + 1 == o->layer_count ? "logits" : "%u", i);
        printf("  %-8s %12.6f %16.6g\n", name, o->layers[i].cosine, o->layers[i].error);
    }
}

static void print_energy(const llm_outcome *list, unsigned count)
{
    printf("\n  %-8s %-34s %s\n", "target", "energy/token", "prompt, energy/token");
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        if (s->clock_hz > 0)
            printf("  %-8s %-34s %s\n", list[i].target, MEAN_ENERGY(s->energy, s->tokens),
                   MEAN_ENERGY(s->prompt_energy, s->prompt_tokens));
    }
}

/* Says what the host did where no table of it was asked for, so that nothing runs there silently. */
static void print_host_note(const llm_outcome *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (list[i].host_op_count == 0)
            continue;
        printf("  %s leaves to the host: ", list[i].target);
        for (unsigned k = 0; k < list[i].host_op_count; k++)
            printf("%s%s", k ? ", " : "", list[i].host_ops[k].name);
        printf("; --host-ops counts them\n");
    }
}

void llm_report_print(const cli *c, const llm_outcome *list, unsigned count)
{
    if (cli_has(c, "verify")) {
        for (unsigned i = 0; i < count; i++)
            print_similarity(&list[i]);
        print_host_note(list, count);
    } else if (cli_has(c, "eval")) {
        print_evaluated(list, count);
        print_host_note(list, count);
    } else if (!c->quiet && count) {
        if (!cli_has(c, "timing-only")) /* a text ends without a line break */
            printf(list[0].conversation ? "\n" : "\n\n");
        print_generated(list, count);
        if (cli_has(c, "energy"))
            print_energy(list, count);
        if (cli_has(c, "host-ops"))
            print_host_ops(list, count);
        else
            print_host_note(list, count);
    }
}

/* ---- JSON ---- */

static void write_host_ops_json(const llm_outcome *o, tv_json_writer *w)
{
    tv_json_key(w, "host_ops");
    tv_json_begin_array(w);
    for (unsigned k = 0; k < o->host_op_count; k++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", o->host_ops[k].name);
        tv_json_unsigned_member(w, "count", o->host_ops[k].count);
        tv_json_unsigned_member(w, "values", o->host_ops[k].elements);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_likelihood_json(const tv_llm_likelihood *l, tv_json_writer *w)
{
    double perplexity = exp(l->nll);
    cli_write_real(w, "nats", l->nll);
    cli_write_real(w, "nats_error", l->nll_error);
    cli_write_real(w, "perplexity", perplexity);
    cli_write_real(w, "perplexity_error", perplexity * l->nll_error);
    tv_json_unsigned_member(w, "evaluated", l->tokens);
}

static void write_exchanges_json(const llm_outcome *o, tv_json_writer *w)
{
    tv_json_key(w, "exchanges");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < o->exchange_count; i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "message", o->exchanges[i].message);
        tv_json_string_member(w, "answer", o->exchanges[i].answer);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_outcome_json(const cli *c, const llm_outcome *o, tv_json_writer *w)
{
    const tv_llm_summary *s = &o->summary;
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", o->target);
    tv_json_unsigned_member(w, "prompt_tokens", s->prompt_tokens);
    tv_json_unsigned_member(w, "tokens", s->tokens);
    tv_json_unsigned_member(w, "prompt_cycles", s->prompt_cycles);
    tv_json_unsigned_member(w, "cycles", s->cycles);
    cli_write_real(w, "prompt_host_seconds", s->prompt_host_seconds);
    cli_write_real(w, "host_seconds", s->host_seconds);
    tv_json_unsigned_member(w, "read_bytes", s->read_bytes);
    tv_json_unsigned_member(w, "written_bytes", s->written_bytes);
    tv_json_string_member(w, "bound_by", o->bound_by);
    if (s->clock_hz > 0) {
        tv_json_key(w, "prompt_energy");
        tv_energy_write_json(w, s->prompt_energy);
        tv_json_key(w, "energy");
        tv_energy_write_json(w, s->energy);
    }
    if (o->likelihood.tokens)
        write_likelihood_json(&o->likelihood, w);
    if (o->text && (s->prompt_tokens || s->tokens) && !cli_has(c, "timing-only"))
        tv_json_string_member(w, "text", o->text);
    if (cli_has(c, "chat"))
        write_exchanges_json(o, w);
    write_host_ops_json(o, w);
    tv_json_end_object(w);
}

/* Writes the members of a similarity into an open object and closes it. */
static void end_similarity_json(const tv_llm_similarity *s, tv_json_writer *w)
{
    cli_write_real(w, "cosine", s->cosine);
    cli_write_real(w, "max_error", s->error);
    tv_json_end_object(w);
}

static void write_similarity_json(const llm_outcome *o, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", o->target);
    tv_json_key(w, "layers");
    tv_json_begin_array(w);
    for (uint32_t i = 0; i + 1 < o->layer_count; i++) {
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "layer", i);
        end_similarity_json(&o->layers[i], w);
    }
    tv_json_end_array(w);
    if (o->layer_count) {
        tv_json_key(w, "logits");
        tv_json_begin_object(w);
        end_similarity_json(&o->layers[o->layer_count - 1], w);
    }
    write_host_ops_json(o, w);
    tv_json_end_object(w);
}

void llm_report_write_json(cli *c, const llm_outcome *list, unsigned count, bool interrupted)
{
    tv_json_writer *w = cli_begin_result(c);
    tv_json_begin_object(w);
    tv_json_boolean_member(w, "interrupted", interrupted);
    tv_json_key(w, "targets");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < count; i++)
        if (cli_has(c, "verify"))
            write_similarity_json(&list[i], w);
        else
            write_outcome_json(c, &list[i], w);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

void llm_outcome_fini(llm_outcome *outcome)
{
    for (unsigned i = 0; i < outcome->exchange_count; i++) {
        free(outcome->exchanges[i].message);
        free(outcome->exchanges[i].answer);
    }
    free(outcome->exchanges);
    free(outcome->host_ops);
    free(outcome->layers);
    free(outcome->text);
}
