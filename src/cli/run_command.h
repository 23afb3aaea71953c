/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the shell, which test a program from outside. */
#ifndef TV_CLI_RUN_COMMAND_H
#define TV_CLI_RUN_COMMAND_H

#include <stdbool.h>

/* A placeholder of a command, "{}", and the path that replaces it. */
typedef struct command_path {
    const char *name, *path;
} command_path;

enum { COMMAND_TIMEOUT = 124 };

/* Replaces the `count` placeholders in `command`; paths are quoted. Returns a heap string; NULL: out of memory. */
char *command_expand(const char *command, const command_path *paths, unsigned count);

/* Runs `command` with the shell and returns its exit status; 128 plus the number of the signal that ended it;
 * COMMAND_TIMEOUT after `seconds`, when its process group has been killed; -1 with errno: it could not be started.
 * Its output goes to standard error with `verbose`, otherwise nowhere. */
int command_run(const char *command, double seconds, bool verbose);

#endif
