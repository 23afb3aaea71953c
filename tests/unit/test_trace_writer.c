/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of traces knows texts of a machine's events by their addresses. A sink that forwards the events with texts
 * in a buffer of its own must write the same file, also when programs are freed and others have their addresses. */
#include "unit.h"

#include <unistd.h>

#include "trivet/trivet.h"

enum { PROGRAMS = 12, NAME = 64 };

/* What forwards events: each text in a place that the next event overwrites. */
typedef struct forwarder {
    tv_trace_sink to;
    char texts[8][NAME];
    unsigned used;
} forwarder;

static const char *move_text(forwarder *f, const char *text)
{
    if (!text)
        return NULL;
    assert_true(strlen(text) < NAME && f->used < 8);
    return strcpy(f->texts[f->used++], text);
}

static void forward(void *user, const tv_event *event)
{
    forwarder *f = user;
    tv_event e = *event;
    f->used = 0;
    const char **texts[] = {&e.engine, &e.op, &e.reason, &e.lane, &e.layer, &e.file, &e.role, &e.mode};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = move_text(f, *texts[i]);
    f->to.event(f->to.user, &e);
    memset(f->texts, 'x', sizeof f->texts);
}

/* Programs differ in the names of their file and label only, so that they are as long, and the last ones have names
 * that JSON escapes and that are too long to be kept. */
static void name_program(unsigned i, const char *suffix, char name[NAME])
{
    const char *middle = i == PROGRAMS - 2 ? "_of_a_file_with_a_rather_long_name" : i == PROGRAMS - 1 ? "\\" : "";
    snprintf(name, NAME, "%c%s%s", 'a' + (int)i, middle, suffix);
}

static tv_program *assemble(unsigned i)
{
    char file[NAME], source[256];
    tv_program *program;
    name_program(i, ".s", file);
    int n = snprintf(source, sizeof source,
                     ".target pccx\nlabel_%c:\nmemset fmap_shape[1], 8, 1, 1\ncvo.exp l2[0x10], l2[0], len=8\n",
                     'a' + (int)i);
    assert_int_equal(tv_program_assemble(file, source, (size_t)n, NULL, NULL, &program), TV_OK);
    return program;
}

static void run_programs(tv_machine *machine)
{
    tv_program *before = NULL;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        char marker[NAME];
        tv_program *program = assemble(i);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        tv_program_free(before);
        before = program;
        for (unsigned k = 0; k < 2; k++) {
            snprintf(marker, sizeof marker, "marker %u of %u", k, i);
            tv_machine_trace_marker(machine, marker);
        }
        assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    }
    tv_machine_trace(machine, NULL);
    tv_program_free(before);
}

/* Returns the whole file, which is removed. */
static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    assert_true(length > 0);
    rewind(file);
    char *bytes = malloc((size_t)length + 1);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (size_t)length, file);
    assert_int_equal(*size, length);
    bytes[length] = '\0';
    fclose(file);
    unlink(path);
    return bytes;
}

static char *trace(tv_trace_format format, bool forwards, size_t *size)
{
    char path[] = "/tmp/trivet-writer-XXXXXX.pftrace";
    forwarder f = {0};
    tv_config *config;
    tv_machine *machine;
    tv_trace_writer *writer;
    close(mkstemps(path, 8));
    if (format != TV_TRACE_PFTRACE) {
        unlink(path);
        path[strlen(path) - 8] = '\0';
    }
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    assert_int_equal(tv_trace_open(path, format, machine, NULL, &writer), TV_OK);
    f.to = tv_trace_writer_sink(writer);
    tv_machine_trace(machine, forwards ? &(tv_trace_sink){.event = forward, .user = &f} : &f.to);
    run_programs(machine);
    assert_int_equal(tv_trace_finish(writer, machine, NULL), TV_OK);
    tv_machine_free(machine);
    return read_file(path, size);
}

static void texts_known_by_their_addresses_are_written_as_others(void **state)
{
    static const tv_trace_format formats[] = {TV_TRACE_JSON, TV_TRACE_PERFETTO, TV_TRACE_PFTRACE};
    (void)state;
    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t size, expected_size;
        char *bytes = trace(formats[i], false, &size), *expected = trace(formats[i], true, &expected_size);
        assert_int_equal(size, expected_size);
        assert_memory_equal(bytes, expected, size);
        free(bytes);
        free(expected);
    }
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

/* Each program issues two instructions, of which one occupies an engine for longer. */
static void each_program_has_its_file_and_its_label(void **state)
{
    size_t size;
    char *json = trace(TV_TRACE_JSON, false, &size);
    (void)state;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        char file[NAME], member[2 * NAME], layer[NAME];
        name_program(i, ".s", file);
        snprintf(member, sizeof member, "\"file\":\"%s\"", i == PROGRAMS - 1 ? "l\\\\.s" : file);
        snprintf(layer, sizeof layer, "\"layer_id\":\"label_%c\"", 'a' + (int)i);
        assert_int_equal(count(json, member), count(json, layer));
        assert_in_range(count(json, member), 3, 6);
    }
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_known_by_their_addresses_are_written_as_others),
                                       cmocka_unit_test(each_program_has_its_file_and_its_label)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
