/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a commit log, in either format, compressed or not. Its records are written again in both formats, which
 * must give the same records. */
#include <stdlib.h>
#include <unistd.h>

#include "cosim/log.h"
#include "mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS_MAX = 64 };

static char path[64];

/* Writes the records of a log that is valid up to its end. Returns false for any other. */
static bool rewrite(const uint8_t *data, size_t size, tv_commit_log_format format)
{
    static tv_config *config;
    tv_commit_log_reader *reader;
    tv_commit_log_writer *writer;
    const tv_commit *commit = NULL;
    uint64_t line;
    if (!config && tv_config_new("opennpu", NULL, &config) != TV_OK)
        abort();
    if (tv_commit_log_read_bytes("fuzz.log", data, size, NULL, &reader) != TV_OK)
        return false;
    snprintf(path, sizeof path, "/tmp/trivet-fuzz-commit-log-%d", (int)getpid());
    if (tv_commit_log_open(path, format, config, NULL, &writer) != TV_OK)
        abort();
    tv_status status = TV_OK;
    for (unsigned i = 0; i < RECORDS_MAX; i++) {
        status = tv_commit_log_next(reader, NULL, &commit, &line);
        if (status != TV_OK || !commit)
            break;
        tv_commit_log_write(writer, commit);
    }
    bool valid = status == TV_OK && !commit;
    if (valid)
        status = tv_commit_log_finish(writer, NULL, NULL);
    else
        tv_commit_log_abandon(writer);
    tv_commit_log_close(reader);
    if (valid && status != TV_OK)
        abort();
    return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    tv_input first, second;
    memcpy(copy, data, size);
    if (rewrite(copy, size, TV_COMMIT_LOG_JSON)) {
        if (tv_input_open(path, NULL, &first) != TV_OK || !rewrite(first.data, first.size, TV_COMMIT_LOG_BINARY) ||
            tv_input_open(path, NULL, &second) != TV_OK || !rewrite(second.data, second.size, TV_COMMIT_LOG_JSON))
            abort();
        tv_input_close(&second);
        if (tv_input_open(path, NULL, &second) != TV_OK || first.size != second.size ||
            memcmp(first.data, second.data, first.size) != 0)
            abort();
        tv_input_close(&first);
        tv_input_close(&second);
        unlink(path);
    }
    free(copy);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const names[] = {
        "kind",  "order",   "origin", "index",        "word", "insn",    "fault",   "fault_name", "issue", "start",
        "end",   "effects", "values", "file",         "line", "space",   "addr",    "unit_bytes", "bytes", "write",
        "queue", "before",  "after",  "asynchronous", "name", "element", "integer", "real"};
    static fuzz_keywords words;
    if (words.count == 0)
        for (size_t i = 0; i < TV_COUNTOF(names); i++)
            fuzz_add_keyword(&words, names[i]);
    fuzz_random random = fuzz_random_of(seed);
    return fuzz_mutate_json(data, size, max_size, &random, &words);
}
