/* SPDX-License-Identifier: Apache-2.0 */
/* What the command does with signals. The library has no handlers: they belong to the process.
 *
 * SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU: the temporary files of outputs are removed, the command says how
 * far it came, and the process ends by the same signal, so that its parent sees it. Signals that the parent ignores
 * stay ignored.
 * SIGXFSZ is ignored: the write fails and is reported as any other.
 * SIGBUS: a mapped file that became shorter is an error of that file, with exit status 3. Its name is read from
 * /proc/self/maps, so inputs need not be registered.
 *
 * Outputs are opened and put in place by the main thread alone, and the handlers run there: no output changes while
 * they look. Handlers call only functions that are safe there. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

enum { DESCRIPTORS_MAX = 8192 };

static const struct {
    int number;
    const char *name;
} endings[] = {{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"},
               {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGXCPU, "SIGXCPU"}};

static pthread_t main_thread;

/* ---- Text without stdio ---- */

typedef struct line {
    char text[1024];
    size_t length;
} line;

static void append(line *l, const char *text)
{
    size_t n = strlen(text), room = sizeof l->text - l->length;
    n = n < room ? n : room;
    memcpy(l->text + l->length, text, n);
    l->length += n;
}

static void append_number(line *l, uint64_t value)
{
    char digits[24], *p = digits + sizeof digits;
    *--p = '\0';
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    append(l, p);
}

/* Errors have nowhere to be reported. */
static void write_line(const line *l)
{
    ssize_t n = write(STDERR_FILENO, l->text, l->length);
    (void)n;
}

/* ---- Temporary files ---- */

/* True if `path` is a temporary file of this process; trivet/file.h has the names. */
static bool is_temporary(const char *path)
{
    line prefix = {.length = 0};
    const char *slash = strrchr(path, '/');
    append(&prefix, "/.trivet-");
    append_number(&prefix, (uint64_t)getpid());
    append(&prefix, "-");
    return slash && strncmp(slash, prefix.text, prefix.length) == 0;
}

/* Removes the temporary files that are open. Those without a name disappear by themselves. */
static void remove_temporary_files(void)
{
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++) {
        char path[PATH_MAX];
        line link = {.length = 0};
        append(&link, "/proc/self/fd/");
        append_number(&link, (uint64_t)fd);
        link.text[link.length] = '\0';
        ssize_t n = readlink(link.text, path, sizeof path - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        if (is_temporary(path))
            unlink(path);
    }
}

/* ---- Signals that end the process ---- */

static const char *signal_name(int number)
{
    for (size_t i = 0; i < CLI_COUNTOF(endings); i++)
        if (endings[i].number == number)
            return endings[i].name;
    return "a signal";
}

static void describe_progress(line *l, const cli_progress *progress)
{
    append(l, progress->what);
    append(l, ", ");
    append_number(l, progress->done);
    append(l, " of ");
    append_number(l, progress->total);
    if (progress->total) {
        append(l, " (");
        append_number(l, (uint64_t)(100 * (double)progress->done / (double)progress->total));
        append(l, " %)");
    }
}

/* Says how far the work is, unless it has just begun or -q is given. */
static void print_how_far(int number)
{
    const cli_progress *progress = cli_progress_current();
    line l = {.length = 0};
    if (!progress || progress->quiet || number == SIGPIPE)
        return;
    if (progress->shown)
        append(&l, "\r\033[K");
    append(&l, "trivet: stopped by ");
    append(&l, signal_name(number));
    if (progress->what) {
        append(&l, " while ");
        describe_progress(&l, progress);
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - progress->start;
    append(&l, ", after ");
    append_number(&l, (uint64_t)seconds);
    append(&l, " s\n");
    write_line(&l);
}

void cli_end_by_signal(int number)
{
    sigset_t only;
    remove_temporary_files();
    print_how_far(number);
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    _exit(128 + number);
}

static void on_ending(int number)
{
    if (pthread_equal(pthread_self(), main_thread))
        cli_end_by_signal(number);
    else
        pthread_kill(main_thread, number);
}

/* ---- Inputs that become shorter ---- */

/* Parses "START-END PERMISSIONS OFFSET DEVICE INODE  PATH". Returns the path if the file is mapped at `address`. */
static const char *path_of_mapping(const char *text, uintptr_t address)
{
    uintptr_t bounds[2] = {0, 0};
    for (int i = 0; i < 2; i++, text++)
        for (; *text && *text != '-' && *text != ' '; text++)
            bounds[i] = bounds[i] << 4 | (uintptr_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    return address >= bounds[0] && address < bounds[1] ? strchr(text, '/') : NULL;
}

/* Finds the file that is mapped at `address`. */
static bool find_mapped_file(uintptr_t address, char path[PATH_MAX])
{
    char chunk[4096], text[PATH_MAX + 128];
    size_t length = 0;
    ssize_t n;
    bool found = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (n = read(fd, chunk, sizeof chunk)) > 0)
        for (ssize_t i = 0; i < n && !found; i++) {
            if (chunk[i] != '\n') {
                if (length + 1 < sizeof text)
                    text[length++] = chunk[i];
                continue;
            }
            text[length] = '\0';
            length = 0;
            const char *name = path_of_mapping(text, address);
            found = name != NULL;
            if (found)
                *stpncpy(path, name, PATH_MAX - 1) = '\0';
        }
    if (fd >= 0)
        close(fd);
    return found;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    char path[PATH_MAX], safe[768];
    line l = {.length = 0};
    if (info->si_code != BUS_ADRERR || !find_mapped_file((uintptr_t)info->si_addr, path)) {
        signal(number, SIG_DFL); /* the access is repeated */
        return;
    }
    remove_temporary_files();
    append(&l, "trivet: error: cannot read '");
    append(&l, tv_text_escape(path, safe, sizeof safe));
    append(&l, "': it became shorter while it was read [TV-F001]\n"
               "        = hint: run the command again when the file is complete\n");
    write_line(&l);
    _exit(CLI_FAILED);
}

/* ---- Installation ---- */

static void install(int number, struct sigaction *action)
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

void cli_handle_signals(void)
{
    struct sigaction ending = {.sa_handler = on_ending, .sa_flags = SA_RESTART},
                     bus = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    struct rlimit files;
    main_thread = pthread_self();
    sigfillset(&ending.sa_mask);
    for (size_t i = 0; i < CLI_COUNTOF(endings); i++)
        install(endings[i].number, &ending);
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &bus, NULL);
    /* The files of a run stay open until they appear together. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < DESCRIPTORS_MAX) {
        files.rlim_cur = files.rlim_max < DESCRIPTORS_MAX ? files.rlim_max : DESCRIPTORS_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}
