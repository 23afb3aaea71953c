/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace file, compressed or not. One that is read is summed up, compared with itself, and written in
 * every form; JSON that was written must be read, and be written the same the second time. */
#include <stdlib.h>

#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct text {
    char *data;
    size_t size;
} text;

/* Of its size: one byte past it is an error. */
static tv_stream *stream_of(const uint8_t *copy, size_t size)
{
    tv_stream *stream;
    if (tv_stream_of("fuzz.json", copy, size, NULL, &stream) != TV_OK)
        abort();
    return stream;
}

static tv_status convert(const uint8_t *data, size_t size, tv_trace_format format, text *out)
{
    tv_stream *stream = stream_of(data, size);
    FILE *file = open_memstream(&out->data, &out->size);
    tv_status status = tv_trace_convert_stream("fuzz.json", stream, file, format, NULL, NULL);
    fclose(file);
    tv_stream_close(stream);
    return status;
}

static void sum_up(const uint8_t *data, size_t size, bool readable)
{
    tv_stream *stream = stream_of(data, size);
    tv_trace_summary *summary;
    tv_trace_diff *diff;
    tv_status status = tv_trace_summarize_stream("fuzz.json", stream, NULL, NULL, NULL, &summary);
    tv_stream_close(stream);
    if ((status == TV_OK) != readable)
        abort();
    if (status != TV_OK)
        return;
    if (tv_trace_compare(summary, summary, NULL, &diff) != TV_OK || !diff->equal)
        abort();
    tv_trace_diff_free(diff);
    tv_trace_summary_free(summary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tv_trace_format others[] = {TV_TRACE_PERFETTO, TV_TRACE_CSV};
    uint8_t *copy = malloc(size ? size : 1);
    text first = {0}, again = {0}, other = {0};
    memcpy(copy, data, size);
    bool readable = convert(copy, size, TV_TRACE_JSON, &first) == TV_OK;
    sum_up(copy, size, readable);
    if (readable && (convert((const uint8_t *)first.data, first.size, TV_TRACE_JSON, &again) != TV_OK ||
                     first.size != again.size || memcmp(first.data, again.data, first.size) != 0))
        abort();
    for (size_t i = 0; readable && i < TV_COUNTOF(others); i++) {
        if (convert(copy, size, others[i], &other) != TV_OK)
            abort();
        free(other.data);
    }
    free(first.data);
    free(again.data);
    free(copy);
    return 0;
}
