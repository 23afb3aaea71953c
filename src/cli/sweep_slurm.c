/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch starts the same command with --slice for each task of an array. A task that Slurm requeues, preempts or ends
 * at its time limit finds what it wrote before and continues there. No text of the user is read by a shell: paths are
 * variables of the job's environment. */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/sweep_slurm.h"

enum { EXTRA_MAX = 64, ARGUMENTS_MAX = EXTRA_MAX + 16, SCRIPT_MAX = 4096 };

extern char **environ;

static tv_status fail_slurm(cli *c, const char *what, int error)
{
    cli_error(c, CLI_E_SLURM, "`sbatch --version` shows whether Slurm is installed; it must be 22.05 or newer",
              "%s: %s", what, strerror(error));
    return TV_ERR_INPUT;
}

static tv_status run_sbatch(cli *c, char **arguments)
{
    pid_t pid;
    int status = 0;
    fflush(stdout);
    int error = posix_spawnp(&pid, "sbatch", NULL, NULL, arguments, environ);
    if (error)
        return fail_slurm(c, "sbatch cannot be started", error);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return fail_slurm(c, "sbatch", errno);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return TV_OK;
    cli_error(c, CLI_E_SLURM, "the message above is sbatch's; `--sbatch OPTION` passes options to it",
              "sbatch did not accept the job");
    return TV_ERR_INPUT;
}

/* Sets what the job's script reads. */
static tv_status set_environment(cli *c, const char *spec, const char *folder, unsigned tasks)
{
    char program[PATH_MAX + 1], number[24];
    ssize_t n = readlink("/proc/self/exe", program, PATH_MAX);
    char *full_spec = realpath(spec, NULL), *full_folder = realpath(folder, NULL);
    tv_status status = TV_OK;
    snprintf(number, sizeof number, "%u", tasks);
    if (n <= 0 || !full_spec || !full_folder) {
        status = fail_slurm(c, "the paths cannot be resolved", errno);
    } else {
        program[n] = '\0';
        if (setenv("TRIVET_SWEEP_PROGRAM", program, 1) || setenv("TRIVET_SWEEP_SPEC", full_spec, 1) ||
            setenv("TRIVET_SWEEP_FOLDER", full_folder, 1) || setenv("TRIVET_SWEEP_TASKS", number, 1))
            status = TV_ERR_MEMORY;
    }
    free(full_spec);
    free(full_folder);
    return status;
}

/* The job's script: it names files by variables alone, and those of --extension are set here. */
static tv_status write_script(cli *c, char script[SCRIPT_MAX])
{
    int n = snprintf(script, SCRIPT_MAX,
                     "exec \"$TRIVET_SWEEP_PROGRAM\" sweep \"$TRIVET_SWEEP_SPEC\" --slice "
                     "\"$SLURM_ARRAY_TASK_ID/$TRIVET_SWEEP_TASKS\" --folder \"$TRIVET_SWEEP_FOLDER\" -q "
                     "--threads \"${SLURM_CPUS_PER_TASK:-1}\"");
    const char *path;
    for (unsigned i = 0; (path = cli_value_at(c, "extension", i)); i++) {
        char name[40], *full = realpath(path, NULL);
        snprintf(name, sizeof name, "TRIVET_SWEEP_EXTENSION_%u", i);
        int failed = !full || setenv(name, full, 1);
        free(full);
        if (failed || n + 48 > SCRIPT_MAX)
            return fail_slurm(c, path, failed ? errno : E2BIG);
        n += snprintf(script + n, (size_t)(SCRIPT_MAX - n), " --extension \"$%s\"", name);
    }
    return TV_OK;
}

tv_status sweep_submit(cli *c, const char *spec, const char *folder, unsigned tasks)
{
    char array[48], output[PATH_MAX + 48];
    char *arguments[ARGUMENTS_MAX] = {
        "sbatch", "--job-name=trivet-sweep", array, "--requeue", "--open-mode=append", "--export=ALL", output};
    unsigned count = 7;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail_slurm(c, folder, errno);
    tv_status status = set_environment(c, spec, folder, tasks);
    snprintf(array, sizeof array, "--array=0-%u", tasks - 1);
    snprintf(output, sizeof output, "--output=%s/slurm-%%A_%%a.log", getenv("TRIVET_SWEEP_FOLDER"));
    const char *extra;
    for (unsigned i = 0; i < EXTRA_MAX && (extra = cli_value_at(c, "sbatch", i)); i++)
        arguments[count++] = (char *)(uintptr_t)extra;
    char script[SCRIPT_MAX];
    arguments[count++] = "--wrap";
    arguments[count++] = script;
    if (status == TV_OK)
        status = write_script(c, script);
    return status == TV_OK ? run_sbatch(c, arguments) : status;
}
