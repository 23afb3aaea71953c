/* SPDX-License-Identifier: Apache-2.0 */
/* Where .include and .incbin may read: a source comes from others, so a file outside the folder of the including file
 * is opened only below an -I folder or when the caller allows all paths. Paths are compared after symbolic links and
 * `..` are resolved, so a link inside a folder does not lead out of it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "asm/job.h"

static void ignore_diag(void *user, const tv_diag *diag)
{
    (void)user;
    (void)diag;
}

/* Pipes and devices are rejected: reading them may block or not end. */
static bool is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The resolved path, to be freed with free(). NULL: there is no such file, or out of memory. */
static char *resolve_path(tv_asm_job *job, const char *path)
{
    char *resolved = realpath(path, NULL);
    if (!resolved && errno == ENOMEM)
        job->out_of_memory = true;
    return resolved;
}

/* True when the resolved `path` is a file in `folder` or below. */
static bool is_below(tv_asm_job *job, const char *path, const char *folder)
{
    char *resolved = resolve_path(job, folder);
    size_t n = resolved ? strlen(resolved) : 0;
    bool root = n == 1; /* "/" */
    bool below = resolved && strncmp(path, resolved, n) == 0 && (root || path[n] == '/');
    free(resolved);
    return below;
}

static bool is_allowed(tv_asm_job *job, const char *name, const char *own_folder)
{
    const tv_program_options *options = job->options;
    if (options && options->allow_paths)
        return true;
    char *path = resolve_path(job, name);
    bool allowed = path && is_below(job, path, own_folder);
    for (unsigned i = 0; path && options && i < options->include_count && !allowed; i++)
        allowed = is_below(job, path, options->include_dirs[i]);
    free(path);
    return allowed;
}

/* Opens `name` when it is a regular file that may be read; *outside: it may not. */
static bool open_allowed(tv_asm_job *job, const tv_buf *name, const char *own_folder, tv_input *input, bool *outside)
{
    tv_diag_sink quiet = {.emit = ignore_diag};
    const char *path = tv_buf_cstr((tv_buf *)(uintptr_t)name);
    if (name->failed) {
        job->out_of_memory = true;
        return false;
    }
    errno = 0;
    if (strlen(path) != name->len || !is_regular(path)) { /* a zero byte in the name ends it early */
        job->host_error = tv_is_host_failure(errno) ? errno : 0;
        return false;
    }
    if (!is_allowed(job, path, own_folder)) {
        *outside = true;
        return false;
    }
    tv_status status = tv_input_open(path, &quiet, input);
    job->out_of_memory |= status == TV_ERR_MEMORY;
    if (status == TV_ERR_IO)
        job->host_error = errno ? errno : EIO;
    return status == TV_OK;
}

/* Counts the .include and .incbin directives: each costs calls of the operating system. */
static bool count_inclusion(tv_asm_job *job, unsigned column)
{
    if (job->inclusion_count++ < TV_ASM_INCLUSIONS_MAX)
        return true;
    if (!job->stop)
        tv_asm_error_at(job, column, 1, TV_CODE(ASM_LIMIT), "join the files, or check the counts of .rept",
                        "more than %d files are included", TV_ASM_INCLUSIONS_MAX);
    job->stop = true;
    return false;
}

/* The path of an opened file, which is stored for tv_program_input_at; NULL: out of memory. */
static const char *note_input(tv_asm_job *job, tv_buf *path)
{
    const char *copy = tv_arena_str(&job->arena, (tv_sv){tv_asm_cstr(job, path), path->len});
    if (!copy || !TV_VEC_PUSH(&job->inputs, copy))
        job->out_of_memory = true;
    return copy;
}

/* Looks for a relative path in the folder of the including file, then in the include folders. */
bool tv_source_open_input(tv_asm_job *job, tv_sv path, unsigned column, tv_input *input, const char **found)
{
    unsigned count = job->options ? job->options->include_count : 0;
    const char *own = job->frame ? job->files.data[job->frame->file].path : "";
    const char *slash = strrchr(own, '/');
    const char *opened;
    bool open = false, outside = false;
    if (!count_inclusion(job, column))
        return false;
    char *own_folder = tv_arena_str(&job->arena, slash ? (tv_sv){own, (size_t)(slash - own) + 1} : tv_sv_of("."));
    if (!own_folder) {
        job->out_of_memory = true;
        return false;
    }
    bool relative = path.len && path.ptr[0] != '/';
    for (int i = -1; i < (relative ? (int)count : 0) && !open && !job->out_of_memory && !job->host_error; i++) {
        tv_buf full = {0};
        if (relative && i < 0 && slash)
            tv_buf_str(&full, own_folder);
        else if (relative && i >= 0)
            tv_buf_printf(&full, "%s/", job->options->include_dirs[i]);
        tv_buf_append(&full, path.ptr, path.len);
        open = open_allowed(job, &full, own_folder, input, &outside);
        if (open)
            opened = note_input(job, &full);
        if (open && found)
            *found = opened;
        tv_buf_fini(&full);
    }
    if (open || job->out_of_memory)
        return open;
    if (job->host_error) {
        tv_source_loc loc = tv_asm_loc(job, column, (unsigned)path.len + 2);
        tv_report(job->sink, TV_ERROR, TV_CODE(FILE_OPEN), &loc, NULL, "cannot read '%.*s': %s", TV_SV_ARG(path),
                  strerror(job->host_error));
        job->stop = true;
        return false;
    }
    tv_asm_error_at(job, column, (unsigned)path.len + 2, TV_CODE(ASM_INCLUDE),
                    outside ? "give a folder above it with -I, or allow all paths with --allow-paths"
                            : "it must be a regular file in the folder of this file or in an -I folder",
                    outside ? "'%.*s' is outside the folder of this file and the -I folders" : "cannot read '%.*s'",
                    TV_SV_ARG(path));
    return false;
}
