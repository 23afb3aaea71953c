/* SPDX-License-Identifier: Apache-2.0 */
/* The results of networks as JSON. */
#include "cli/infer_job.h"

static void write_tensor(tv_json_writer *w, const tv_network_tensor *t)
{
    tv_json_string_member(w, "name", t->name);
    tv_json_string_member(w, "type", t->type);
    tv_json_key(w, "shape");
    tv_json_begin_array(w);
    for (unsigned d = 0; d < t->rank; d++)
        tv_json_write_integer(w, t->dims[d]);
    tv_json_end_array(w);
}

static void write_inputs(tv_json_writer *w, const infer_job *j)
{
    tv_network_tensor t;
    tv_json_key(w, "inputs");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_network_input_at(j->network, i, &t); i++) {
        tv_json_begin_object(w);
        write_tensor(w, &t);
        tv_json_boolean_member(w, "random", t.is_random != 0);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
    tv_json_key(w, "outputs");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_network_output_at(j->network, i, &t); i++) {
        tv_json_begin_object(w);
        write_tensor(w, &t);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_layer(tv_json_writer *w, const infer_job *j, const tv_network_layer *l)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", l->name);
    tv_json_string_member(w, "operator", l->op);
    tv_json_string_member(w, "activation", l->activation);
    tv_json_boolean_member(w, "residual", l->residual != 0);
    tv_json_unsigned_member(w, "tiles", l->tiles);
    tv_json_unsigned_member(w, "cycles", l->cycles);
    tv_json_unsigned_member(w, "macs", l->macs);
    tv_json_unsigned_member(w, "bytes", l->bytes);
    tv_json_string_member(w, "bound_by", l->bound);
    if (l->bound && tv_joules_value(l->energy.high) > 0) {
        tv_json_key(w, "energy");
        tv_energy_write_json(w, l->energy);
    }
    if (j->options.binary16)
        tv_json_boolean_member(w, "binary16", l->binary16 != 0);
    if (j->options.explain_plan)
        tv_json_string_member(w, "plan", l->plan);
    if (j->options.verify) {
        cli_write_real(w, "cosine", l->cosine);
        cli_write_real(w, "max_error", l->max_error);
        cli_write_real(w, "own_noise_db", l->own_noise);
    }
    tv_json_end_object(w);
}

static void write_host_ops(tv_json_writer *w, const tv_network_session *session)
{
    tv_llm_host_op op;
    tv_json_key(w, "host_ops");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_network_session_host_op_at(session, i, &op); i++) {
        if (!op.count)
            continue;
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", op.name);
        tv_json_unsigned_member(w, "count", op.count);
        tv_json_unsigned_member(w, "values", op.elements);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_outcome(tv_json_writer *w, const infer_job *j, const infer_outcome *o)
{
    const tv_network_summary *s = &o->summary;
    tv_network_layer l;
    tv_json_begin_object(w);
    tv_json_string_member(w, "target", o->target);
    tv_json_string_member(w, "reason", o->reason);
    if (o->session) {
        tv_json_unsigned_member(w, "cycles", s->cycles);
        cli_write_real(w, "clock_hz", s->clock_hz);
        cli_write_real(w, "seconds", s->clock_hz > 0 ? (double)s->cycles / s->clock_hz : 0);
        cli_write_real(w, "host_seconds", s->host_seconds);
        tv_json_unsigned_member(w, "macs", s->macs);
        tv_json_unsigned_member(w, "bytes", s->bytes);
        tv_json_string_member(w, "bound_by", o->bound_by);
        if (s->clock_hz > 0) {
            tv_json_key(w, "energy");
            tv_energy_write_json(w, s->energy);
        }
        tv_json_unsigned_member(w, "calibration_samples", s->calibration_samples);
        if (j->options.verify)
            tv_json_string_member(w, "loses_most", infer_worst_layer(o->session, &l) ? l.name : NULL);
        tv_json_key(w, "layers");
        tv_json_begin_array(w);
        for (unsigned i = 0; tv_network_session_layer_at(o->session, i, &l); i++)
            write_layer(w, j, &l);
        tv_json_end_array(w);
        write_host_ops(w, o->session);
    }
    tv_json_end_object(w);
}

void infer_report_write_json(const infer_job *j)
{
    tv_json_writer *w = cli_begin_result(j->c);
    tv_json_begin_object(w);
    write_inputs(w, j);
    tv_json_key(w, "targets");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < j->count; i++)
        write_outcome(w, j, &j->list[i]);
    tv_json_end_array(w);
    tv_json_end_object(w);
}
