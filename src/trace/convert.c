/* SPDX-License-Identifier: Apache-2.0 */
/* From a trace file to another form of it, event by event. CSV has one row an event, quoted as RFC 4180 says. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "trace/reader.h"
#include "trivet/trace_file.h"

typedef struct converter {
    tv_trace_put put;
    bool samples; /* the events have ended */
} converter;

/* ---- To JSON ---- */

static bool begin(void *user, const tv_trace_head *head, const json_t *run, const json_t *config)
{
    converter *c = user;
    (void)run;
    (void)config;
    tv_trace_put_begin(&c->put, head);
    return true;
}

static bool event(void *user, const tv_event *e, const char *more, const char *more_details)
{
    converter *c = user;
    tv_trace_put_event(&c->put, e, more, more_details);
    return true;
}

static void end_events(converter *c)
{
    if (!c->samples)
        tv_trace_put_events_end(&c->put);
    c->samples = true;
}

static bool sample(void *user, const tv_trace_sample *s)
{
    converter *c = user;
    end_events(c);
    tv_trace_put_sample(&c->put, s);
    return true;
}

static bool end(void *user, const tv_trace_tail *tail)
{
    converter *c = user;
    end_events(c);
    tv_trace_put_summary(&c->put, tail->summary_text);
    for (unsigned i = 0; i < tail->member_count; i += 2)
        tv_trace_put_member(&c->put, tail->members[i], tail->members[i + 1]);
    tv_trace_put_end(&c->put);
    return true;
}

/* ---- To CSV ---- */

static void csv_text(FILE *out, const char *text)
{
    if (text && strpbrk(text, ",\"\r\n")) {
        putc('"', out);
        for (; *text; text++)
            fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, out);
        putc('"', out);
    } else if (text) {
        fputs(text, out);
    }
    putc(',', out);
}

static void csv_whole(FILE *out, bool given, uint64_t value)
{
    if (given)
        fprintf(out, "%" PRIu64, value);
    putc(',', out);
}

static bool csv_begin(void *user, const tv_trace_head *head, const json_t *run, const json_t *config)
{
    converter *c = user;
    (void)head;
    (void)run;
    (void)config;
    fputs("type,engine,engine_id,index,layer,op,start_cycle,end_cycle,cycles,bytes,macs,route_in,route_out,tokens,"
          "cause,waits_for,file,line\r\n",
          c->put.out);
    return true;
}

static bool csv_event(void *user, const tv_event *e, const char *more, const char *more_details)
{
    converter *c = user;
    FILE *out = c->put.out;
    (void)more;
    (void)more_details;
    csv_text(out, tv_trace_kind_names[e->kind]);
    csv_text(out, e->engine);
    csv_whole(out, e->engine != NULL, e->engine_id);
    csv_whole(out, e->index >= 0, (uint64_t)e->index);
    csv_text(out, e->layer);
    csv_text(out, e->op);
    csv_whole(out, true, e->start);
    csv_whole(out, true, e->end);
    csv_whole(out, true, e->end - e->start);
    csv_whole(out, e->bytes != 0, e->bytes);
    csv_whole(out, e->macs != 0, e->macs);
    for (unsigned i = 0; i < 2; i++) {
        if (e->routes[i])
            fprintf(out, "0x%02" PRIx32, e->routes[i]);
        putc(',', out);
    }
    csv_whole(out, e->tokens != 0, e->tokens);
    csv_text(out, e->reason);
    csv_whole(out, e->waits_for >= 0, (uint64_t)e->waits_for);
    csv_text(out, e->file);
    if (e->file)
        fprintf(out, "%u", e->line);
    fputs("\r\n", out);
    return true;
}

/* ---- The conversion ---- */

tv_status tv_trace_convert_stream(const char *name, tv_stream *stream, FILE *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink)
{
    converter *c = calloc(1, sizeof *c);
    if (!c)
        return tv_fail_memory(sink);
    tv_trace_calls calls = format == TV_TRACE_CSV ? (tv_trace_calls){.begin = csv_begin, .event = csv_event, .user = c}
                                                  : (tv_trace_calls){begin, event, sample, end, c, NULL};
    calls.progress = progress;
    tv_status status =
        tv_trace_put_init(&c->put, out, format) ? tv_trace_read(name, stream, &calls, sink) : tv_fail_memory(sink);
    if (status == TV_OK && c->put.failed)
        status = tv_fail_memory(sink);
    tv_trace_put_fini(&c->put);
    free(c);
    return status;
}

tv_status tv_trace_convert(const char *in, const char *out, tv_trace_format format, const tv_trace_progress *progress,
                           const tv_diag_sink *sink)
{
    tv_stream *stream;
    tv_output *output;
    TV_TRY(tv_stream_open(in, sink, &stream));
    tv_status status = tv_output_open_compressed(out, sink, &output);
    if (status == TV_OK) {
        status = tv_trace_convert_stream(in, stream, tv_output_stream(output), format, progress, sink);
        if (status == TV_OK)
            status = tv_output_commit(output, sink);
        else
            tv_output_abandon(output);
    }
    tv_stream_close(stream);
    return status;
}
