/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that appear complete or not at all, one by one or in groups.
 *
 * An output is written to a temporary file in the folder of its target. Where the file system can, that file has no
 * name until it is complete: a new target is then one linkat, and nothing can be left of it. A target that exists is
 * replaced by a rename, for which the file gets a temporary name within the commit.
 *
 * A group is committed in two phases. First every file that needs a temporary name gets one, which changes no target.
 * Then the files are put in place one after another; an old file is kept under the temporary name until all are there,
 * so that a failure can put the old files back. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/stream.h"
#include "base/vec.h"
#include "trivet/file.h"

enum { NAME_ATTEMPTS = 1000, BUFFER = 1 << 16 };

struct tv_output {
    FILE *stream;       /* NULL: completed */
    FILE *file;         /* the file that `stream` compresses to; NULL: no compression */
    char *path;         /* for messages; NULL: standard output */
    char *target;       /* name in `folder`; NULL: written in place */
    int folder;         /* descriptor; -1: none */
    int fd;             /* of the temporary file, after `stream` is closed, too; -1: none */
    bool replaces;      /* the target existed when the output was opened */
    char temporary[64]; /* name in `folder`; "": the file has no name */
    char old[64];       /* name in `folder` of the old target while a group is committed; "": none */
    char *buffer;       /* of the temporary file's stream, until it is closed; NULL: stdio's own */
};

struct tv_output_group {
    TV_VEC(tv_output *) outputs;
    TV_VEC(char *) folders; /* that it has created, parents first */
};

static tv_status report_write_failure(const tv_diag_sink *sink, const char *path, int error)
{
    if (error == ENOMEM)
        return tv_fail_memory(sink);
    return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), "check that the folder exists, is writable and has room",
                   "cannot write '%s': %s", path ? path : "standard output", strerror(error));
}

/* Closes and removes everything but the target. */
static void free_output(tv_output *o)
{
    if (o->stream && o->stream != stdout)
        fclose(o->stream);
    free(o->buffer);
    if (o->temporary[0])
        unlinkat(o->folder, o->temporary, 0);
    if (o->fd >= 0)
        close(o->fd);
    if (o->folder >= 0)
        close(o->folder);
    free(o->path);
    free(o->target);
    free(o);
}

/* ---- Opening ---- */

/* True for devices and pipes, which cannot be replaced by a rename. */
static bool needs_direct_write(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* The path that a symbolic link leads to, existing or not, so that the file is replaced and not the link. Returns heap
 * memory, or NULL with errno. */
static char *resolve_links(const char *path)
{
    enum { LINKS_MAX = 40 };
    char *real = realpath(path, NULL), *at = real ? NULL : strdup(path);
    for (int i = 0; at && i < LINKS_MAX; i++) {
        char link[PATH_MAX];
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (n < 0)
            return at;
        link[n] = '\0';
        const char *slash = link[0] == '/' ? NULL : strrchr(at, '/');
        tv_buf next = {0};
        tv_buf_append(&next, at, slash ? (size_t)(slash + 1 - at) : 0);
        tv_buf_str(&next, link);
        free(at);
        at = tv_buf_take(&next);
    }
    if (at) {
        free(at);
        errno = ELOOP;
        return NULL;
    }
    return real;
}

static void proc_path(int fd, char out[32]) { snprintf(out, 32, "/proc/self/fd/%d", fd); }

/* Creates a file without a name. Returns -1 if the file system has no such files, or if it could not get a name later,
 * because /proc is not mounted. */
static int create_unnamed(int folder)
{
    char name[32];
    int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    proc_path(fd, name);
    if (access(name, F_OK) == 0)
        return fd;
    close(fd);
    errno = EOPNOTSUPP;
    return -1;
}

static void make_temporary_name(char out[64], unsigned attempt)
{
    snprintf(out, 64, ".trivet-%ld-%u.tmp", (long)getpid(), attempt);
}

/* Creates the temporary file: without a name if possible. */
static int create_temporary(tv_output *o)
{
    int fd = create_unnamed(o->folder);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT))
        return fd;
    for (unsigned i = 0; i < NAME_ATTEMPTS; i++) {
        make_temporary_name(o->temporary, i);
        fd = openat(o->folder, o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    o->temporary[0] = '\0';
    return -1;
}

/* Opens the folder of `resolved` and looks for the target there. Returns 0 or an error number. */
static int open_folder(tv_output *o, char *resolved)
{
    struct stat old;
    char *slash = strrchr(resolved, '/');
    o->target = strdup(slash ? slash + 1 : resolved);
    if (!o->target)
        return ENOMEM;
    if (slash)
        slash[slash == resolved] = '\0'; /* keep the root's own slash */
    o->folder = open(slash ? resolved : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (o->folder < 0)
        return errno;
    if (!o->target[0])
        return EISDIR;
    if (fstatat(o->folder, o->target, &old, 0) != 0)
        return errno == ENOENT ? 0 : errno;
    o->replaces = true;
    return 0;
}

/* Opens the temporary file of `o`. Returns 0 or an error number. */
static int open_temporary(tv_output *o)
{
    struct stat old;
    char *resolved = resolve_links(o->path);
    int error = resolved ? open_folder(o, resolved) : errno;
    free(resolved);
    if (error)
        return error;
    o->fd = create_temporary(o);
    if (o->fd < 0)
        return errno;
    if (o->replaces && fstatat(o->folder, o->target, &old, 0) == 0)
        fchmod(o->fd, old.st_mode & 07777); /* keep the permissions */
    int fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return errno;
    o->stream = fdopen(fd, "w");
    error = errno;
    if (!o->stream) {
        close(fd);
        return error;
    }
    o->buffer = malloc(BUFFER);
    if (o->buffer)
        setvbuf(o->stream, o->buffer, _IOFBF, BUFFER);
    return 0;
}

/* Opens a device or a pipe. Returns 0 or an error number. */
static int open_direct(tv_output *o)
{
    o->stream = fopen(o->path, "we");
    return o->stream ? 0 : errno;
}

tv_status tv_output_open(const char *path, const tv_diag_sink *sink, tv_output **out)
{
    tv_output *o = calloc(1, sizeof *o);
    if (!o)
        return tv_fail_memory(sink);
    *o = (tv_output){.folder = -1, .fd = -1};
    if (strcmp(path, "-") == 0) {
        o->stream = stdout;
        *out = o;
        return TV_OK;
    }
    o->path = strdup(path);
    int error = !o->path ? ENOMEM : needs_direct_write(path) ? open_direct(o) : open_temporary(o);
    if (error) {
        free_output(o);
        return report_write_failure(sink, path, error);
    }
    *out = o;
    return TV_OK;
}

static bool names_zstd(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".zst") == 0;
}

tv_status tv_output_open_compressed(const char *path, const tv_diag_sink *sink, tv_output **out)
{
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    if (names_zstd(path)) {
        FILE *compressor = tv_zstd_writer(output->stream);
        if (!compressor) {
            tv_output_abandon(output);
            return tv_fail_memory(sink);
        }
        output->file = output->stream;
        output->stream = compressor;
    }
    *out = output;
    return TV_OK;
}

FILE *tv_output_stream(tv_output *output) { return output->stream; }

/* ---- Completing ---- */

/* Finishes the compressed data. The stream is the file itself afterwards. */
static bool finish_compression(tv_output *o)
{
    bool ok = true;
    if (o->file) {
        ok = !ferror(o->stream) && fflush(o->stream) == 0;
        ok = fclose(o->stream) == 0 && ok;
        o->stream = o->file;
        o->file = NULL;
    }
    return ok;
}

/* The reason for which an earlier write to a file failed that is discarded: another write fails for it, too. */
static int find_write_error(const tv_output *o) { return o->target && write(o->fd, "", 1) < 0 ? errno : EIO; }

/* Flushes, syncs and closes the stream. Returns 0 or an error number. */
static int complete(tv_output *o)
{
    errno = 0;
    bool ok = finish_compression(o) && fflush(o->stream) == 0 && !ferror(o->stream);
    if (ok && o->target)
        ok = fsync(fileno(o->stream)) == 0;
    int error = ok ? 0 : errno ? errno : find_write_error(o);
    if (o->stream != stdout && fclose(o->stream) != 0 && !error)
        error = errno;
    o->stream = NULL;
    free(o->buffer);
    o->buffer = NULL;
    return error;
}

void tv_output_abandon(tv_output *output)
{
    if (!output)
        return;
    finish_compression(output);
    free_output(output);
}

/* ---- Putting files in place ---- */

/* Gives a file without a name a temporary one. Returns 0 or an error number. */
static int name_temporary(tv_output *o)
{
    char file[32];
    proc_path(o->fd, file);
    for (unsigned i = 0; i < NAME_ATTEMPTS && !o->temporary[0]; i++) {
        make_temporary_name(o->temporary, i);
        if (linkat(AT_FDCWD, file, o->folder, o->temporary, AT_SYMLINK_FOLLOW) != 0) {
            o->temporary[0] = '\0';
            if (errno != EEXIST)
                return errno;
        }
    }
    return o->temporary[0] ? 0 : EEXIST;
}

/* Renames the temporary file over an existing target, whose old file keeps a temporary name. Returns 0 or an error
 * number. */
static int exchange(tv_output *o)
{
    if (renameat2(o->folder, o->temporary, o->folder, o->target, RENAME_EXCHANGE) == 0) {
        memcpy(o->old, o->temporary, sizeof o->old);
        o->temporary[0] = '\0';
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
        return errno;
    snprintf(o->old, sizeof o->old, ".trivet-%ld-%d.old", (long)getpid(), o->fd);
    if (renameat(o->folder, o->target, o->folder, o->old) != 0) {
        o->old[0] = '\0';
        return errno;
    }
    if (renameat(o->folder, o->temporary, o->folder, o->target) == 0) {
        o->temporary[0] = '\0';
        return 0;
    }
    int error = errno;
    if (renameat(o->folder, o->old, o->folder, o->target) == 0)
        o->old[0] = '\0';
    return error;
}

/* Puts a completed file in place. `keep_old`: so that `withdraw` can undo it. Returns 0 or an error number. */
static int publish(tv_output *o, bool keep_old)
{
    char file[32];
    struct stat st;
    if (!o->temporary[0]) {
        proc_path(o->fd, file);
        if (linkat(AT_FDCWD, file, o->folder, o->target, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        int error = errno == EEXIST ? name_temporary(o) : errno;
        if (error)
            return error;
    }
    if (keep_old && fstatat(o->folder, o->target, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return exchange(o);
    if (renameat(o->folder, o->temporary, o->folder, o->target) != 0)
        return errno;
    o->temporary[0] = '\0';
    return 0;
}

/* Undoes `publish`. */
static void withdraw(tv_output *o)
{
    if (!o->old[0])
        unlinkat(o->folder, o->target, 0);
    else if (renameat(o->folder, o->old, o->folder, o->target) == 0)
        o->old[0] = '\0';
}

/* Puts `count` completed outputs in place, or none. They stay the caller's. */
static tv_status publish_all(tv_output *const *outputs, size_t count, const tv_diag_sink *sink)
{
    sigset_t all, before;
    int error = 0;
    size_t done = 0, i = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (i = 0; i < count && !error; i++)
        if (outputs[i]->target && outputs[i]->replaces)
            error = name_temporary(outputs[i]);
    for (i = error ? i - 1 : 0; i < count && !error; i += !error) {
        if (outputs[i]->target)
            error = publish(outputs[i], count > 1);
        done = i + !error;
    }
    const char *path = error ? outputs[i]->path : NULL;
    while (error && done-- > 0)
        if (outputs[done]->target)
            withdraw(outputs[done]);
    for (size_t k = 0; k < count && !error; k++)
        if (outputs[k]->old[0])
            unlinkat(outputs[k]->folder, outputs[k]->old, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? report_write_failure(sink, path, error) : TV_OK;
}

tv_status tv_output_commit(tv_output *output, const tv_diag_sink *sink)
{
    int error = complete(output);
    tv_status status = error ? report_write_failure(sink, output->path, error) : publish_all(&output, 1, sink);
    free_output(output);
    return status;
}

/* ---- Groups ---- */

tv_status tv_output_group_new(const tv_diag_sink *sink, tv_output_group **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? TV_OK : tv_fail_memory(sink);
}

tv_status tv_output_group_folder(tv_output_group *group, const char *path, const tv_diag_sink *sink)
{
    char *copy = group ? strdup(path) : NULL;
    if (group && (!copy || !TV_VEC_RESERVE(&group->folders, 1))) {
        free(copy);
        return tv_fail_memory(sink);
    }
    if (mkdir(path, 0777) == 0) {
        if (group)
            (void)TV_VEC_PUSH(&group->folders, copy);
        return TV_OK;
    }
    int error = errno;
    struct stat st;
    free(copy);
    if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return TV_OK;
    return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), "its parent directory must exist",
                   "cannot create the directory '%.200s': %s", path, strerror(error));
}

tv_status tv_output_commit_to(tv_output *output, tv_output_group *group, const tv_diag_sink *sink)
{
    if (!group)
        return tv_output_commit(output, sink);
    int error = complete(output);
    tv_status status = error ? report_write_failure(sink, output->path, error) : TV_OK;
    if (status == TV_OK && !TV_VEC_PUSH(&group->outputs, output))
        status = tv_fail_memory(sink);
    if (status != TV_OK)
        free_output(output);
    return status;
}

/* Frees a group. `done`: its files are in place; otherwise its folders are removed. */
static void free_group(tv_output_group *group, bool done)
{
    for (size_t i = 0; i < group->outputs.count; i++)
        free_output(group->outputs.data[i]);
    for (size_t i = group->folders.count; i-- > 0;) {
        if (!done)
            rmdir(group->folders.data[i]);
        free(group->folders.data[i]);
    }
    TV_VEC_FINI(&group->outputs);
    TV_VEC_FINI(&group->folders);
    free(group);
}

void tv_output_group_abandon(tv_output_group *group)
{
    if (group)
        free_group(group, false);
}

tv_status tv_output_group_commit(tv_output_group *group, const tv_diag_sink *sink)
{
    tv_status status = publish_all(group->outputs.data, group->outputs.count, sink);
    free_group(group, status == TV_OK);
    return status;
}
