/* SPDX-License-Identifier: Apache-2.0 */
/* The source lines of a report, from the files that instructions name, read after the run. Files that cannot be read,
 * are not regular files or are very large are omitted silently: the report still shows file name and line number. A
 * failure of the host is an error. */
#include <stdlib.h>
#include <sys/stat.h>

#include "report/report_data.h"

enum { FILES_MAX = 256, FILE_BYTES_MAX = 64 << 20, LINE_BYTES = 240 };

typedef struct source {
    tv_input input;
    size_t *starts; /* of lines, and the end */
    size_t lines;
} source;

/* A name from a program file may refer to anything: only regular files of limited size are opened. */
static bool is_readable(const char *path)
{
    struct stat s;
    errno = 0;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size <= FILE_BYTES_MAX;
}

static bool find_lines(source *s)
{
    size_t count = 1;
    for (size_t i = 0; i < s->input.size; i++)
        count += s->input.data[i] == '\n';
    s->starts = malloc((count + 1) * sizeof *s->starts);
    if (!s->starts)
        return false;
    s->starts[s->lines++] = 0;
    for (size_t i = 0; i < s->input.size; i++)
        if (s->input.data[i] == '\n')
            s->starts[s->lines++] = i + 1;
    s->starts[s->lines] = s->input.size + 1;
    return true;
}

/* Adds line `line` without leading and trailing blanks. 0: there is no such line, or it is not text. */
static uint32_t add_line(tv_texts *texts, const source *s, uint32_t line)
{
    char text[LINE_BYTES];
    if (line == 0 || line > s->lines)
        return 0;
    const uint8_t *p = s->input.data + s->starts[line - 1], *end = s->input.data + s->starts[line] - 1;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    size_t n = tv_min_u64((uint64_t)(end - p), LINE_BYTES - 1);
    if (memchr(p, '\0', n))
        return 0;
    memcpy(text, p, n);
    text[n] = '\0';
    return tv_texts_add(texts, text);
}

static void read_file(tv_report_writer *r, uint32_t file)
{
    source s = {0};
    char *path = strdup(tv_texts_at(&r->texts, file)); /* adding strings moves them */
    tv_status status = path ? TV_OK : TV_ERR_MEMORY;
    errno = 0;
    if (status == TV_OK && is_readable(path)) {
        status = tv_input_open(path, NULL, &s.input);
        if (status == TV_OK && !find_lines(&s))
            status = TV_ERR_MEMORY;
        for (size_t i = 0; i < r->insns.count && status == TV_OK; i++)
            if (r->insns.data[i].file == file)
                r->insns.data[i].source = add_line(&r->texts, &s, r->insns.data[i].line);
        tv_input_close(&s.input);
    }
    r->failed = r->failed || status == TV_ERR_MEMORY;
    if (status == TV_ERR_IO || (status == TV_OK && tv_is_host_failure(errno)))
        r->source_error = errno;
    free(s.starts);
    free(path);
}

void tv_report_read_sources(tv_report_writer *r)
{
    uint32_t files[FILES_MAX], last = 0;
    unsigned count = 0;
    for (size_t i = 0; i < r->insns.count; i++) {
        uint32_t file = r->insns.data[i].file;
        bool known = file == last || file == 0;
        for (unsigned k = 0; k < count && !known; k++)
            known = files[k] == file;
        last = file;
        if (!known && count < FILES_MAX)
            files[count++] = file;
    }
    for (unsigned k = 0; k < count; k++)
        read_file(r, files[k]);
}
