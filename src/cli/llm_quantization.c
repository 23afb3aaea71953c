/* SPDX-License-Identifier: Apache-2.0 */
/* `trivet llm --info --quantization`: the formats that a machine has for the weights, and the errors of conversion. */
#include <math.h>

#include "cli/llm_job.h"

/* All weights: the mean of the squares of the tensors' relative errors, weighted by their numbers of weights. */
typedef struct total {
    uint64_t count;
    double squares, max_error;
} total;

static void add_weight(total *t, const tv_llm_weight *w)
{
    t->count += w->count;
    t->squares += (double)w->count * w->rms_error * w->rms_error;
    t->max_error = fmax(t->max_error, w->max_error);
}

static double total_rms(const total *t) { return t->count ? sqrt(t->squares / (double)t->count) : 0; }

static void print_weights(const char *target, const tv_llm_session *session)
{
    total sum = {0};
    tv_llm_weight w;
    printf("%s\n  %-28s %-7s %-26s %15s %11s %11s\n", target, "tensor", "file", "machine", "weights", "RMS error",
           "max error");
    for (unsigned i = 0; tv_llm_weight_at(session, i, &w); i++) {
        add_weight(&sum, &w);
        printf("  %-28s %-7s %-26s %15s %9.3f %% %9.3f %%\n", CLI_SAFE(w.tensor), w.type, w.format,
               cli_format_count(w.count, (char[32]){0}), 100 * w.rms_error, 100 * w.max_error);
    }
    printf("  %-28s %-7s %-26s %15s %9.3f %% %9.3f %%\n", "total", "", "", cli_format_count(sum.count, (char[32]){0}),
           100 * total_rms(&sum), 100 * sum.max_error);
}

static void write_errors(uint64_t count, double rms_error, double max_error, tv_json_writer *w)
{
    tv_json_unsigned_member(w, "weights", count);
    cli_write_real(w, "rms_error", rms_error);
    cli_write_real(w, "max_error", max_error);
}

static void write_weights(const char *target, const tv_llm_session *session, tv_json_writer *w)
{
    total sum = {0};
    tv_llm_weight weight;
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", target);
    tv_json_key(w, "tensors");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_llm_weight_at(session, i, &weight); i++) {
        add_weight(&sum, &weight);
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", weight.tensor);
        tv_json_string_member(w, "type", weight.type);
        tv_json_string_member(w, "format", weight.format);
        write_errors(weight.count, weight.rms_error, weight.max_error, w);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_key(w, "total");
    tv_json_begin_object(w);
    write_errors(sum.count, total_rms(&sum), sum.max_error, w);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

tv_status llm_describe_weights(llm_job *j, const char *target, tv_json_writer *writer)
{
    tv_config *config;
    tv_llm_session *session;
    tv_status status = llm_open_session(j, target, NULL, &config, &session);
    if (status == TV_OK && writer)
        write_weights(target, session, writer);
    else if (status == TV_OK)
        print_weights(target, session);
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}
