/* SPDX-License-Identifier: Apache-2.0 */
/* The results of networks as tables. */
#include <inttypes.h>
#include <math.h>

#include "cli/energy_report.h"
#include "cli/infer_job.h"

enum { NAME_WIDTH = 30 };

static double share_of(uint64_t cycles, uint64_t all) { return 100 * (double)cycles / (all ? (double)all : 1); }

/* The end of a name that does not fit the column, because names of exporters begin alike. */
static const char *short_name(const char *name)
{
    size_t n = strlen(name);
    const char *end = n > NAME_WIDTH ? name + n - NAME_WIDTH : name;
    while (((unsigned char)*end & 0xC0) == 0x80) /* inside of a character */
        end++;
    return end;
}

static const char *operator_text(const tv_network_layer *l, char text[64])
{
    snprintf(text, 64, "%s%s%s%s", l->op, l->residual ? "+Add" : "", l->activation ? "+" : "",
             l->activation ? l->activation : "");
    return text;
}

#define OPERATOR(layer) operator_text(layer, (char[64]){0})

static void print_shape(const tv_network_tensor *t)
{
    printf("%s[", t->type);
    for (unsigned d = 0; d < t->rank; d++)
        printf("%s%" PRId64, d ? " x " : "", t->dims[d]);
    printf("]");
}

int infer_worst_layer(const tv_network_session *session, tv_network_layer *out)
{
    tv_network_layer l;
    int found = 0;
    for (unsigned i = 0; tv_network_session_layer_at(session, i, &l); i++)
        if (!isnan(l.own_noise) && (!found || l.own_noise < out->own_noise)) {
            *out = l;
            found = 1;
        }
    return found;
}

/* ---- One target ---- */

static void print_comparison(const tv_network_layer *l)
{
    if (isnan(l->cosine))
        printf(" %9s %10s %9s", "-", "-", "-");
    else
        printf(" %9.6f %10.4g", l->cosine, l->max_error);
    if (!isnan(l->cosine) && (isnan(l->own_noise) || isinf(l->own_noise)))
        printf(" %9s", isnan(l->own_noise) ? "-" : "exact");
    else if (!isnan(l->cosine))
        printf(" %6.1f dB", l->own_noise);
}

static void print_layer(const infer_job *j, const infer_outcome *o, const tv_network_layer *l)
{
    bool machine = o->summary.clock_hz > 0;
    printf("  %-*s %-20s", NAME_WIDTH, CLI_SAFE(short_name(l->name)), OPERATOR(l));
    if (machine)
        printf(" %6" PRIu64 " %14s %5.1f %% %13s  %-14s", l->tiles, CLI_COUNT(l->cycles),
               share_of(l->cycles, o->summary.cycles), CLI_COUNT(l->bytes), l->bound ? l->bound : "");
    if (j->options.verify)
        print_comparison(l);
    printf("\n");
    if (l->plan && j->options.explain_plan)
        printf("      %s\n", l->plan);
}

static void print_layers(const infer_job *j, const infer_outcome *o)
{
    tv_network_layer l;
    bool machine = o->summary.clock_hz > 0;
    if (!machine && !j->options.verify && !j->c->verbose)
        return;
    printf("  %-*s %-20s", NAME_WIDTH, "layer", "operator");
    if (machine)
        printf(" %6s %14s %7s %13s  %-14s", "tiles", "cycles", "share", "bytes", "bound by");
    if (j->options.verify)
        printf(" %9s %10s %9s", "cosine", "max error", "own noise");
    printf("\n");
    for (unsigned i = 0; tv_network_session_layer_at(o->session, i, &l); i++)
        print_layer(j, o, &l);
}

/* Names the layers whose inputs are binary16. */
static void print_wide(const infer_outcome *o)
{
    tv_network_layer l;
    unsigned count = 0, i = 0;
    for (; tv_network_session_layer_at(o->session, i, &l); i++)
        if (l.binary16)
            printf("%s%s", count++ ? ", " : "  inputs in binary16: ", CLI_SAFE(short_name(l.name)));
    if (count)
        printf(" (%u of %u layers)\n", count, i);
}

static void print_totals(const infer_outcome *o)
{
    const tv_network_summary *s = &o->summary;
    if (s->clock_hz > 0) {
        printf("%s: %s cycles, ", o->target, CLI_COUNT(s->cycles));
        cli_print_time((double)s->cycles / s->clock_hz, stdout);
        printf(" at %.4g MHz; %s multiply-adds; %s bytes of DRAM; bound by %s; simulated in ", s->clock_hz / 1e6,
               CLI_COUNT(s->macs), CLI_COUNT(s->bytes), o->bound_by);
    } else {
        printf("%s: %s multiply-adds; computed in ", o->target, CLI_COUNT(s->macs));
    }
    cli_print_time(s->host_seconds, stdout);
    printf("\n");
}

static void print_energy(const infer_outcome *o)
{
    tv_network_layer l;
    printf("  energy %s\n", ENERGY(o->summary.energy));
    for (unsigned i = 0; tv_network_session_layer_at(o->session, i, &l); i++)
        if (tv_joules_value(l.energy.high) > 0)
            printf("  %-*s %-20s %s\n", NAME_WIDTH, CLI_SAFE(short_name(l.name)), OPERATOR(&l), ENERGY(l.energy));
}

static void print_host_ops(const infer_job *j, const infer_outcome *o)
{
    tv_llm_host_op op;
    unsigned printed = 0;
    for (unsigned i = 0; tv_network_session_host_op_at(o->session, i, &op); i++) {
        if (!op.count)
            continue;
        if (cli_has(j->c, "host-ops"))
            printf("%s  %-44s %12s times %16s values\n", printed++ ? "" : "  operations of the host:\n", op.name,
                   CLI_COUNT(op.count), CLI_COUNT(op.elements));
        else
            printf("%s%s", printed++ ? ", " : "  left to the host: ", op.name);
    }
    if (printed && !cli_has(j->c, "host-ops"))
        printf("; --host-ops counts them\n");
    if (!printed && cli_has(j->c, "host-ops"))
        printf("  %s runs no operations on the host\n", o->target);
}

static void print_worst(const infer_job *j, const infer_outcome *o)
{
    tv_network_layer l;
    if (j->options.verify && infer_worst_layer(o->session, &l) && isfinite(l.own_noise))
        printf("  loses most: %s (%s): signal to own noise of %.1f dB\n", CLI_SAFE(l.name), OPERATOR(&l), l.own_noise);
}

/* ---- Inputs and outputs ---- */

static double number_at(const tv_network_tensor *t, uint64_t i, bool *known)
{
    *known = true;
    if (strcmp(t->type, "float32") == 0)
        return (double)((const float *)t->data)[i];
    if (strcmp(t->type, "int64") == 0)
        return (double)((const int64_t *)t->data)[i];
    if (strcmp(t->type, "int32") == 0)
        return ((const int32_t *)t->data)[i];
    if (strcmp(t->type, "uint8") == 0 || strcmp(t->type, "bool") == 0)
        return ((const uint8_t *)t->data)[i];
    *known = false;
    return 0;
}

static void print_output(const tv_network_tensor *t)
{
    uint64_t count = 1, at = 0;
    double min = INFINITY, max = -INFINITY;
    bool known = t->data != NULL;
    for (unsigned d = 0; d < t->rank; d++)
        count *= (uint64_t)t->dims[d];
    printf("  output %s ", CLI_SAFE(t->name));
    print_shape(t);
    for (uint64_t i = 0; i < count && known; i++) {
        double x = number_at(t, i, &known);
        min = fmin(min, x);
        if (x > max) {
            max = x;
            at = i;
        }
    }
    if (known && count)
        printf(": %.6g to %.6g, the largest is element %" PRIu64, min, max, at);
    printf("\n");
}

static void print_outputs(const infer_outcome *o)
{
    tv_network_tensor t;
    for (unsigned i = 0; tv_network_session_output_at(o->session, i, &t); i++)
        print_output(&t);
}

static void print_inputs(const infer_job *j)
{
    tv_network_tensor t;
    for (unsigned i = 0; tv_network_input_at(j->network, i, &t); i++) {
        printf("  input %s ", CLI_SAFE(t.name));
        print_shape(&t);
        printf("%s\n", t.is_random ? ": random, the same in each run; --input sets it" : "");
    }
}

/* ---- Several targets ---- */

/* The layer of a session with this name. */
static int layer_called(const tv_network_session *session, const char *name, tv_network_layer *out)
{
    for (unsigned i = 0; session && tv_network_session_layer_at(session, i, out); i++)
        if (strcmp(out->name, name) == 0)
            return 1;
    return 0;
}

static bool is_machine(const infer_outcome *o) { return o->session && o->summary.clock_hz > 0; }

static void print_side(const infer_job *j, const infer_outcome *o, const char *name)
{
    tv_network_layer l;
    bool has = layer_called(o->session, name, &l);
    if (!has)
        printf("  %14s %7s", "-", "");
    else if (j->options.verify && !isnan(l.cosine))
        printf("  %14s %7.4f", CLI_COUNT(l.cycles), l.cosine);
    else
        printf("  %14s %5.1f %%", CLI_COUNT(l.cycles), share_of(l.cycles, o->summary.cycles));
}

/* Rows in the order of the graph, which the host lists whole. */
static void print_side_by_side(const infer_job *j)
{
    tv_network_layer l, own;
    const infer_outcome *rows = NULL;
    unsigned machines = 0;
    for (unsigned i = j->count; i-- > 0;) {
        machines += is_machine(&j->list[i]);
        if (j->list[i].session && (!rows || !is_machine(&j->list[i]) || is_machine(rows)))
            rows = &j->list[i];
    }
    if (!machines)
        return;
    printf("  %-*s %-20s", NAME_WIDTH, "layer", "operator");
    for (unsigned i = 0; i < j->count; i++)
        if (is_machine(&j->list[i]))
            printf("  %14s %7s", j->list[i].target, j->options.verify ? "cosine" : "share");
    printf("\n");
    for (unsigned k = 0; tv_network_session_layer_at(rows->session, k, &l); k++) {
        bool any = false;
        for (unsigned i = 0; i < j->count; i++)
            any = any || (is_machine(&j->list[i]) && layer_called(j->list[i].session, l.name, &own));
        if (!any)
            continue;
        printf("  %-*s %-20s", NAME_WIDTH, CLI_SAFE(short_name(l.name)), OPERATOR(&l));
        for (unsigned i = 0; i < j->count; i++)
            if (is_machine(&j->list[i]))
                print_side(j, &j->list[i], l.name);
        printf("\n");
    }
}

void infer_report_print(const infer_job *j, bool several)
{
    if (j->c->quiet)
        return;
    print_inputs(j);
    if (several)
        print_side_by_side(j);
    for (unsigned i = 0; i < j->count; i++) {
        const infer_outcome *o = &j->list[i];
        if (!o->session) {
            printf("%s cannot execute the network: %s\n", o->target, CLI_SAFE(o->reason));
            continue;
        }
        if (!several)
            print_layers(j, o);
        print_wide(o);
        print_totals(o);
        if (cli_has(j->c, "energy") && o->summary.clock_hz > 0)
            print_energy(o);
        print_worst(j, o);
        print_host_ops(j, o);
        if (!j->options.timing_only)
            print_outputs(o);
    }
}
