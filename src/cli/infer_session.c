/* SPDX-License-Identifier: Apache-2.0 */
/* A session of a network on one target. */
#include <sys/resource.h>

#include "cli/infer_job.h"
#include "cli/run_outputs.h"

static int show_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    infer_job *j = user;
    cli_progress_show(&j->progress, what, done, total);
    return 0;
}

/* With several targets, the first error is kept as the reason why a target cannot execute the network. */
typedef struct reason_sink {
    cli *c;
    char **reason, code[16];
} reason_sink;

static void keep_reason(void *user, const tv_diag *diag)
{
    reason_sink *s = user;
    if (diag->severity != TV_ERROR) {
        s->c->sink.emit(s->c->sink.user, diag);
    } else if (!*s->reason) {
        *s->reason = strdup(diag->message);
        snprintf(s->code, sizeof s->code, "%s", diag->code);
    }
}

/* Reports what is no property of the target after all. */
static void report_reason(const reason_sink *s, tv_status status)
{
    if (status == TV_ERR_MEMORY || !*s->reason)
        cli_fail_memory(s->c);
    else
        cli_error(s->c, s->code, NULL, "%s", *s->reason);
}

/* The files that are emitted stay open until they are put in place. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static tv_status run_session(infer_job *j, infer_outcome *o, bool several, const tv_diag_sink *sink)
{
    run_outputs traces = {0};
    tv_output_group *group = NULL;
    tv_machine *machine = tv_network_session_machine(o->session);
    tv_status status = TV_OK;
    if (machine && has_run_outputs(j->c))
        status = run_outputs_open(&traces, j->c, base_name(j->c->files[0]), several ? o->target : NULL, machine);
    if (status == TV_OK)
        status = tv_network_session_run(o->session, sink);
    if (status == TV_OK && j->options.verify)
        status = tv_network_session_verify(o->session, sink);
    if (status == TV_OK)
        status = tv_network_session_summary(o->session, &o->summary);
    if (status == TV_OK && machine && o->config) /* a folder of programs has its own */
        cli_check_validation(j->c, o->config, o->summary.cycles);
    if (status == TV_OK && has_run_outputs(j->c))
        status = cli_outputs(j->c, &group);
    if (status == TV_OK)
        return run_outputs_finish(&traces, group);
    run_outputs_abandon(&traces);
    return status;
}

static void find_bound(infer_outcome *o)
{
    tv_stats stats = {.size = sizeof stats};
    tv_machine *machine = tv_network_session_machine(o->session);
    if (machine)
        tv_machine_stats(machine, &stats);
    snprintf(o->bound_by, sizeof o->bound_by, "%s", machine ? stats.bound_by : "this computer");
}

tv_status infer_run_target(infer_job *j, const char *target, bool several)
{
    infer_outcome *o = &j->list[j->count++];
    bool is_compiled = tv_network_compiled_target(j->network) != NULL;
    *o = (infer_outcome){.target = target, .summary.size = sizeof o->summary};
    reason_sink keeper = {.c = j->c, .reason = &o->reason};
    tv_diag_sink sink = several ? (tv_diag_sink){keep_reason, &keeper} : j->c->sink;
    tv_network_session_options own = j->options;
    tv_status status = TV_OK;
    allow_many_files();
    if (strcmp(target, "host") != 0 && !is_compiled)
        status = cli_make_config(j->c, target, several, &o->config);
    if (status != TV_OK)
        return status;
    own.target = target;
    own.config = o->config;
    own.progress = (tv_llm_progress){show_progress, j};
    cli_progress_begin(j->c, &j->progress);
    status = tv_network_session_new(j->network, &own, &sink, &o->session);
    if (status == TV_OK)
        status = run_session(j, o, several, &sink);
    cli_progress_end(&j->progress);
    if (status == TV_OK)
        find_bound(o);
    if (status == TV_OK || !several)
        return status;
    if (!o->reason || (status != TV_ERR_INPUT && status != TV_FAULT)) {
        report_reason(&keeper, status);
        return status;
    }
    tv_network_session_free(o->session);
    o->session = NULL;
    return TV_OK;
}

void infer_free_job(infer_job *j)
{
    for (unsigned i = 0; i < j->count; i++) {
        tv_network_session_free(j->list[i].session);
        tv_config_free(j->list[i].config);
        free(j->list[i].reason);
    }
    tv_network_free(j->network);
}
