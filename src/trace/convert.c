/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a trace file to another format, event by event. CSV has one row per event, quoted as in RFC 4180. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/text.h"
#include "trace/reader.h"
#include "trace/vcd.h"
#include "trivet/trace_file.h"

typedef struct converter {
    tv_trace_encoder encoder;
    FILE *out;
    tv_trace_format format;
    bool events_ended;
} converter;

/* ---- To JSON ---- */

static bool begin_json(void *user, const tv_trace_head *head)
{
    converter *c = user;
    tv_trace_encoder_init(&c->encoder, c->out, c->format, head->clock_hz);
    tv_trace_encode_begin(&c->encoder);
    tv_trace_encode_member(&c->encoder, "run_metadata");
    tv_json_write_value(&c->encoder.json, head->run_metadata, 0);
    tv_trace_encode_member(&c->encoder, "config_snapshot");
    tv_json_begin_object(&c->encoder.json);
    tv_json_write_members(&c->encoder.json, head->config, 0);
    tv_json_end_object(&c->encoder.json);
    tv_trace_encode_begin_events(&c->encoder, head->target, head->engines, head->engine_count);
    return true;
}

static bool convert_json_event(void *user, const tv_event *e, const tv_trace_extras *extras)
{
    converter *c = user;
    tv_trace_encode_event(&c->encoder, e, extras);
    return true;
}

static void end_events(converter *c)
{
    if (!c->events_ended)
        tv_trace_encode_end_events(&c->encoder);
    c->events_ended = true;
}

static bool convert_sample(void *user, const tv_trace_sample *s)
{
    converter *c = user;
    end_events(c);
    tv_trace_encode_sample(&c->encoder, s);
    return true;
}

static bool end_json(void *user, const tv_trace_tail *tail)
{
    converter *c = user;
    end_events(c);
    tv_trace_encode_begin_summary(&c->encoder);
    tv_json_write_value(&c->encoder.json, tail->summary, 0);
    for (unsigned i = 0; i < tail->count; i++) {
        tv_trace_encode_member(&c->encoder, tail->names[i]);
        tv_json_write_value(&c->encoder.json, tail->values[i], 0);
    }
    return tv_trace_encode_end(&c->encoder);
}

/* ---- To CSV ---- */

static void write_csv_text(FILE *out, const char *text)
{
    bool quoted = text && strpbrk(text, ",\"\r\n");
    fputs(quoted ? "\"" : "", out);
    for (size_t n; text && *text; text += n + (text[n] == '"')) {
        n = strcspn(text, "\"");
        tv_text_print(out, text, n, TV_TEXT_KEEP_NONE);
        fputs(text[n] == '"' ? "\"\"" : "", out);
    }
    fputs(quoted ? "\"" : "", out);
    putc(',', out);
}

static void write_csv_integer(FILE *out, bool given, uint64_t value)
{
    if (given)
        fprintf(out, "%" PRIu64, value);
    putc(',', out);
}

static bool begin_csv(void *user, const tv_trace_head *head)
{
    converter *c = user;
    (void)head;
    fputs("type,engine,engine_id,index,layer,op,start_cycle,end_cycle,cycles,bytes,macs,route_in,route_out,tokens,"
          "reason,waits_for,file,line\r\n",
          c->out);
    return true;
}

static bool convert_csv_event(void *user, const tv_event *e, const tv_trace_extras *extras)
{
    converter *c = user;
    FILE *out = c->out;
    (void)extras;
    write_csv_text(out, tv_trace_kind_names[e->kind]);
    write_csv_text(out, e->engine);
    write_csv_integer(out, e->engine != NULL, e->engine_id);
    write_csv_integer(out, e->index >= 0, (uint64_t)e->index);
    write_csv_text(out, e->layer);
    write_csv_text(out, e->op);
    write_csv_integer(out, true, e->start);
    write_csv_integer(out, true, e->end);
    write_csv_integer(out, true, e->end - e->start);
    write_csv_integer(out, e->bytes != 0, e->bytes);
    write_csv_integer(out, e->macs != 0, e->macs);
    for (unsigned i = 0; i < 2; i++) {
        if (e->routes[i])
            fprintf(out, "0x%02" PRIx32, e->routes[i]);
        putc(',', out);
    }
    write_csv_integer(out, e->tokens != 0, e->tokens);
    write_csv_text(out, e->reason);
    write_csv_integer(out, e->waits_for >= 0, (uint64_t)e->waits_for);
    write_csv_text(out, e->file);
    if (e->file)
        fprintf(out, "%u", e->line);
    fputs("\r\n", out);
    return true;
}

/* ---- Conversion ---- */

static tv_status convert_to_vcd(const char *name, tv_stream *stream, FILE *out, const tv_trace_progress *progress,
                                const tv_diag_sink *sink)
{
    tv_vcd *vcd = tv_vcd_new();
    if (!vcd)
        return tv_fail_memory(sink);
    tv_trace_handler handler = {.begin = tv_vcd_begin, .event = tv_vcd_event, .user = vcd, .progress = progress};
    tv_status status = tv_trace_read(name, stream, &handler, sink);
    if (status == TV_OK)
        status = tv_vcd_write(vcd, out, sink);
    tv_vcd_free(vcd);
    return status;
}

tv_status tv_trace_convert_stream(const char *name, tv_stream *stream, FILE *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink)
{
    if (format == TV_TRACE_VCD)
        return convert_to_vcd(name, stream, out, progress, sink);
    converter *c = calloc(1, sizeof *c);
    if (!c)
        return tv_fail_memory(sink);
    c->out = out;
    c->format = format;
    tv_trace_handler handler = {.user = c, .progress = progress};
    if (format == TV_TRACE_CSV) {
        handler.begin = begin_csv;
        handler.event = convert_csv_event;
    } else {
        handler.begin = begin_json;
        handler.event = convert_json_event;
        handler.sample = convert_sample;
        handler.end = end_json;
    }
    tv_status status = tv_trace_read(name, stream, &handler, sink);
    tv_trace_encoder_fini(&c->encoder);
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
