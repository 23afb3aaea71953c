/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of traces knows texts of a machine's events by their addresses. A sink that forwards the events with texts
 * in a buffer of its own must write the same file, also when programs are freed and others have their addresses. */
#include "unit.h"

#include <unistd.h>

#include "trace/encode.h"
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

/* ---- Texts of any length ---- */

enum { TEXTS = 12, TEXT_BITS = 12, EVENTS = 40 };

static void make_texts(unit_rng *rng, char texts[TEXTS][1 << TEXT_BITS])
{
    for (unsigned i = 0; i < TEXTS; i++) {
        size_t length = (size_t)unit_sized(rng, TEXT_BITS);
        memset(texts[i], 'a' + (int)i, length);
        texts[i][length] = '\0';
        for (unsigned k = 0; length && k < i % 4; k++)
            texts[i][unit_below(rng, length)] = "\"\n\\\x01"[unit_below(rng, 4)];
    }
}

/* Events that have the same texts again and again, as a machine's or as others'. The caller frees the bytes. */
static char *encode_events(tv_trace_format format, uint64_t seed, bool is_live, size_t *size)
{
    static const tv_event_kind kinds[] = {TV_EVENT_ENGINE, TV_EVENT_STALL, TV_EVENT_COMMAND, TV_EVENT_STATUS};
    static char texts[TEXTS][1 << TEXT_BITS];
    static tv_trace_encoder encoder;
    const char *engine = "engine";
    char *bytes = NULL;
    unit_rng rng = {seed};
    make_texts(&rng, texts);
    FILE *file = open_memstream(&bytes, size);
    assert_non_null(file);
    tv_trace_encoder_init(&encoder, file, format, 1e9);
    tv_trace_encode_begin(&encoder);
    tv_trace_encode_begin_events(&encoder, "pccx", &engine, 1);
    for (unsigned i = 0; i < EVENTS; i++) {
        const char *some[6];
        for (unsigned k = 0; k < 6; k++) {
            uint64_t which = unit_below(&rng, TEXTS + 2);
            some[k] = which < TEXTS ? texts[which] : NULL;
        }
        tv_event e = {.kind = kinds[unit_below(&rng, 4)],
                      .engine = engine,
                      .index = (int64_t)i,
                      .waits_for = -1,
                      .op = some[0],
                      .reason = some[1],
                      .layer = some[2],
                      .file = some[3],
                      .role = some[4],
                      .mode = some[5],
                      .start = unit_sized(&rng, 60),
                      .bytes = unit_sized(&rng, 64),
                      .macs = unit_sized(&rng, 64),
                      .line = 7,
                      .routes = {(uint32_t)unit_sized(&rng, 32), 0x41}};
        e.end = e.start + unit_sized(&rng, 40);
        encoder.is_live = is_live;
        tv_trace_encode_event(&encoder, &e, NULL);
    }
    tv_trace_encode_end_events(&encoder);
    tv_trace_encode_begin_summary(&encoder);
    tv_json_begin_object(&encoder.json);
    tv_json_end_object(&encoder.json);
    assert_true(tv_trace_encode_end(&encoder));
    tv_trace_encoder_fini(&encoder);
    fclose(file);
    return bytes;
}

static void texts_of_any_length_are_written_as_others(void **state)
{
    static const tv_trace_format formats[] = {TV_TRACE_JSON, TV_TRACE_PERFETTO, TV_TRACE_PFTRACE};
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++)
        for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
            size_t size, expected_size;
            char *bytes = encode_events(formats[i], seed, true, &size),
                 *expected = encode_events(formats[i], seed, false, &expected_size);
            assert_int_equal(size, expected_size);
            assert_memory_equal(bytes, expected, size);
            free(bytes);
            free(expected);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_known_by_their_addresses_are_written_as_others),
                                       cmocka_unit_test(each_program_has_its_file_and_its_label),
                                       cmocka_unit_test(texts_of_any_length_are_written_as_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
