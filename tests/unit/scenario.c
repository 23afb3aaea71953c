/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "failures.h"

static const char *tree;
static char folder[] = "/tmp/trivet-failures-XXXXXX";

static void add_bytes(scene *s, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++)
        s->digest = (s->digest ^ p[i]) * UINT64_C(0x100000001B3);
}

void add_text(scene *s, const char *text)
{
    if (text)
        add_bytes(s, text, strlen(text) + 1);
}

void add_number(scene *s, uint64_t n) { add_bytes(s, &n, sizeof n); }

static void note_diagnostic(void *user, const tv_diag *diag)
{
    scene *s = user;
    add_text(s, diag->message);
    s->errors += diag->severity == TV_ERROR;
    if (diag->severity == TV_ERROR)
        snprintf(s->last, sizeof s->last, "%s %s", diag->code ? diag->code : "", diag->message);
}

static const char *join(const char *where, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

const char *in_tree(const char *name) { return join(tree, name); }

const char *in_folder(const char *name) { return join(folder, name); }

void add_file(scene *s, const char *path)
{
    static char bytes[1 << 16];
    failures_pause(true);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0;)
        add_bytes(s, bytes, (size_t)n);
    if (fd >= 0)
        close(fd);
    failures_pause(false);
}

/* ---- Running a scenario with failures ---- */

/* Empties the folder for outputs. Returns whether a temporary file was in it. */
static bool empty_folder(void)
{
    bool temporary = false;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        temporary |= entry->d_name[0] == '.';
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    return temporary;
}

static tv_status run_once(const scenario *c, scene *s)
{
    *s = (scene){.sink = {note_diagnostic, s}};
    return c->run(s);
}

/* Whether an error is one of a path rather than of the host, which counts as wrong input. */
static bool is_about_path(int error)
{
    return error == ENOENT || error == EACCES || error == EEXIST || error == EISDIR || error == ENOTDIR ||
           error == EINVAL || error == ENOSYS || error == ENAMETOOLONG;
}

static const char *find_problem(const scenario *c, failure_kind kind, int error, const scene *sound, tv_status status,
                                const scene *s)
{
    if (status == c->expected && s->digest == sound->digest)
        return NULL;
    if (kind == FAILURE_FILE && status == TV_ERR_INPUT && is_about_path(error))
        return s->errors ? NULL : "no error is reported";
    if (status == c->expected && !(kind == FAILURE_FILE && c->reads_sources))
        return "the results differ";
    if (status == c->expected)
        return NULL;
    if (s->errors == 0)
        return "no error is reported";
    if (kind == FAILURE_MEMORY)
        return status == TV_ERR_MEMORY ? NULL : "the status is not TV_ERR_MEMORY";
    return status == TV_ERR_IO || status == TV_ERR_MEMORY ? NULL : "the status is not TV_ERR_IO";
}

static void check_failures(const scenario *c, failure_kind kind, int error, bool all)
{
    static unsigned points[1 << 14];
    scene sound, s;
    unsigned count;
    empty_folder();
    if (run_once(c, &sound) != c->expected)
        fail_msg("%s: without a failure: %s", c->name, sound.last);
    empty_folder();
    failures_count(kind);
    run_once(c, &s);
    failures_end();
    if (s.digest != sound.digest)
        fail_msg("%s: two runs differ", c->name);
    const unsigned *paths = failures_paths(&count);
    memcpy(points, paths, count * sizeof *points);
    unsigned step = unit_sample(), first = ((unsigned)error + all) % step; /* each error has points of its own */
    for (unsigned i = count > step ? first : 0; i < count; i += step) {
        empty_folder();
        failures_begin(kind, points[i], error, all);
        tv_status status = run_once(c, &s);
        failures_end();
        const char *problem = find_problem(c, kind, error, &sound, status, &s);
        if (!problem && empty_folder())
            problem = "a temporary file is left";
        if (problem)
            fail_msg("%s: call %u fails with %s%s: %s; status %d, %s", c->name, points[i], strerror(error),
                     all ? ", and all after it" : "", problem, (int)status, s.last);
    }
}

tv_status open_program(scene *s, const char *path, tv_program **out)
{
    return tv_program_open(path, &(tv_program_options){.size = sizeof(tv_program_options)}, &s->sink, out);
}

tv_status report_quiet(scene *s, tv_status status)
{
    s->errors += status == TV_ERR_MEMORY;
    return status;
}

void fini_setup(setup *u)
{
    tv_machine_free(u->machine);
    tv_config_free(u->config);
    tv_program_free(u->program);
}

/* The parameter to lower; NULL: the profile is small, and its programs require it. */
static const char *memory_size_key(const tv_config *config)
{
    const char *target = tv_config_target(config);
    return strcmp(target, "pccx") == 0 ? "host.bytes" : strcmp(target, "cmdq") == 0 ? "dram.bytes" : NULL;
}

tv_status init_setup(scene *s, setup *u)
{
    tv_status status = open_program(s, in_tree(u->source), &u->program);
    if (status == TV_OK)
        status = tv_config_new(tv_program_target(u->program), &s->sink, &u->config);
    if (status == TV_OK)
        status = tv_config_load(u->config, in_tree(u->profile), &s->sink);
    if (status == TV_OK && memory_size_key(u->config)) /* a snapshot looks at every page */
        status = tv_config_set(u->config, memory_size_key(u->config), "4Mi", &s->sink);
    if (status == TV_OK)
        status = tv_machine_new(u->config, TV_MODE_FULL, &s->sink, &u->machine);
    return status;
}

static void an_allocation_that_fails_ends_in_its_status(void **state)
{
    const scenario *c = *state;
    check_failures(c, FAILURE_MEMORY, ENOMEM, false);
    check_failures(c, FAILURE_MEMORY, ENOMEM, true);
}

static void a_file_that_fails_ends_in_its_status(void **state)
{
    const scenario *c = *state;
    static const int errors[] = {EIO, EOPNOTSUPP, ENOSPC, ENOMEM, EMFILE, ENFILE, ENOBUFS};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        check_failures(c, FAILURE_FILE, errors[i], false);
}

static void an_error_of_a_path_is_reported(void **state)
{
    static const int errors[] = {ENOENT, EACCES, EEXIST, EISDIR, ENOTDIR, EINVAL, ENOSYS, ENAMETOOLONG};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        check_failures(*state, FAILURE_FILE, errors[i], false);
}

static void an_interrupted_read_is_repeated(void **state) { check_failures(*state, FAILURE_READ, EINTR, false); }

int run_scenarios(int argc, char **argv, const scenario *scenarios, unsigned count)
{
    static struct CMUnitTest tests[128];
    if (argc < 2 || !mkdtemp(folder))
        return 2;
    /* Freed memory stays in the process: each of thousands of runs would touch new pages otherwise. That it is not used
     * is what the address sanitizer checks. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    tree = argv[1];
    unsigned tests_count = 0;
    assert_true(4 * count <= sizeof tests / sizeof tests[0]);
    for (unsigned i = 0; i < count; i++) {
        if (argc > 2 && !strstr(scenarios[i].name, argv[2]))
            continue;
        void *c = (void *)(uintptr_t)&scenarios[i];
        tests[tests_count++] =
            (struct CMUnitTest){scenarios[i].name, an_allocation_that_fails_ends_in_its_status, NULL, NULL, c};
        tests[tests_count++] =
            (struct CMUnitTest){scenarios[i].name, a_file_that_fails_ends_in_its_status, NULL, NULL, c};
        tests[tests_count++] = (struct CMUnitTest){scenarios[i].name, an_error_of_a_path_is_reported, NULL, NULL, c};
        tests[tests_count++] = (struct CMUnitTest){scenarios[i].name, an_interrupted_read_is_repeated, NULL, NULL, c};
    }
    int failed = _cmocka_run_group_tests("host failures", tests, tests_count, NULL, NULL);
    empty_folder();
    rmdir(folder);
    return failed;
}
