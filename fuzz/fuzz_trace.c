/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a trace file, compressed or not. A valid one is summarized, compared with itself, and converted to every
 * format; a converted JSON trace must be valid, and converting it again must not change it. */
#include <stdlib.h>

#include "mutator.h"
#include "trace/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct text {
    char *data;
    size_t size;
} text;

/* A stream of exactly `size` bytes: the sanitizer finds a read past them. */
static tv_stream *open_stream(const uint8_t *copy, size_t size)
{
    tv_stream *stream;
    if (tv_stream_of("fuzz.json", copy, size, NULL, &stream) != TV_OK)
        abort();
    return stream;
}

static tv_status convert(const uint8_t *data, size_t size, tv_trace_format format, text *out)
{
    tv_stream *stream = open_stream(data, size);
    FILE *file = open_memstream(&out->data, &out->size);
    tv_status status = tv_trace_convert_stream("fuzz.json", stream, file, format, NULL, NULL);
    fclose(file);
    tv_stream_close(stream);
    return status;
}

static void check_summary(const uint8_t *data, size_t size, bool valid)
{
    tv_stream *stream = open_stream(data, size);
    tv_trace_summary *summary;
    tv_trace_diff *diff;
    tv_status status = tv_trace_summarize_stream("fuzz.json", stream, NULL, NULL, NULL, &summary);
    tv_stream_close(stream);
    if ((status == TV_OK) != valid)
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
    static const tv_trace_format others[] = {TV_TRACE_PERFETTO, TV_TRACE_PFTRACE, TV_TRACE_CSV, TV_TRACE_VCD};
    uint8_t *copy = malloc(size ? size : 1);
    text first = {0}, again = {0}, other = {0};
    memcpy(copy, data, size);
    bool valid = convert(copy, size, TV_TRACE_JSON, &first) == TV_OK;
    check_summary(copy, size, valid);
    if (valid && (convert((const uint8_t *)first.data, first.size, TV_TRACE_JSON, &again) != TV_OK ||
                  first.size != again.size || memcmp(first.data, again.data, first.size) != 0))
        abort();
    for (size_t i = 0; valid && i < TV_COUNTOF(others); i++) {
        if (convert(copy, size, others[i], &other) != TV_OK)
            abort();
        free(other.data);
    }
    free(first.data);
    free(again.data);
    free(copy);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const fuzz_keywords members = {{
#define FIELD(level, name, type, slot) name,
#include "trace/fields.def"
#undef FIELD
    }};
    static fuzz_keywords words;
    if (words.count == 0)
        for (size_t i = 0; members.list[i]; i++)
            fuzz_add_keyword(&words, members.list[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_json(data, size, max_size, &random, &words);
}
