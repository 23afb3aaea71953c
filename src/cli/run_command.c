/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Appends `path` in single quotes. */
static char *quote_path(char *to, const char *path)
{
    *to++ = '\'';
    for (; *path; path++) {
        if (*path == '\'') {
            memcpy(to, "'\\'", 3);
            to += 3;
        }
        *to++ = *path;
    }
    *to++ = '\'';
    return to;
}

static const command_path *find_placeholder(const char *at, const command_path *paths, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strncmp(at, paths[i].name, strlen(paths[i].name)) == 0)
            return &paths[i];
    return NULL;
}

char *command_expand(const char *command, const command_path *paths, unsigned count)
{
    size_t longest = 0, length = strlen(command);
    for (unsigned i = 0; i < count; i++)
        longest = strlen(paths[i].path) > longest ? strlen(paths[i].path) : longest;
    char *text = malloc(length * (4 * longest + 3) + 1), *to = text;
    while (text && *command) {
        const command_path *p = find_placeholder(command, paths, count);
        if (p) {
            to = quote_path(to, p->path);
            command += strlen(p->name);
        } else {
            *to++ = *command++;
        }
    }
    if (text)
        *to = '\0';
    return text;
}

/* The child: a process group of its own, so that all of it can be killed. */
static void execute_shell(const char *command, bool verbose)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(verbose ? STDERR_FILENO : null, STDOUT_FILENO);
        if (!verbose)
            dup2(null, STDERR_FILENO);
    }
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int command_run(const char *command, double seconds, bool verbose)
{
    int status = 0;
    double end = now() + seconds;
    pid_t child = fork(), done = 0;
    if (child < 0)
        return -1;
    if (child == 0)
        execute_shell(command, verbose);
    setpgid(child, child);
    for (long wait = 100000; (done = waitpid(child, &status, WNOHANG)) == 0 && now() < end;) {
        nanosleep(&(struct timespec){.tv_nsec = wait}, NULL);
        wait = wait < 5000000 ? wait * 2 : wait;
    }
    if (done == 0) {
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        return COMMAND_TIMEOUT;
    }
    if (done < 0)
        return -1;
    kill(-child, SIGKILL); /* what it left in the background */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
