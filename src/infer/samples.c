/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration inputs in a folder: NAME.npy, or NAME-1.npy, NAME-2.npy, … with the name of an input; or a folder for
 * each sample, with NAME.npy. In NAME, characters other than letters, digits, '.', '_' and '-' are '_'. The only
 * NAME.npy may have several samples, in succession along its first axis. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/sv.h"
#include "graph/codes.h"
#include "graph/npy.h"
#include "infer/state.h"

enum { NAME_LENGTH = 512, SAMPLES_MAX = 100000 };

static const char *input_name(const tv_infer_samples *s, size_t i)
{
    return tv_graph_value_at(s->network->graph, s->network->graph->inputs.data[i])->name;
}

static void file_name(const char *name, char text[NAME_LENGTH / 2])
{
    size_t n = 0;
    for (; name[n] && n + 1 < NAME_LENGTH / 2; n++)
        text[n] = isalnum((unsigned char)name[n]) || strchr("._-", name[n]) ? name[n] : '_';
    text[n] = '\0';
}

static char *path_of(const tv_infer_samples *s, const char *sample, size_t input)
{
    char name[NAME_LENGTH / 2];
    size_t length = strlen(s->folder) + strlen(sample) + NAME_LENGTH;
    char *path = malloc(length);
    file_name(input_name(s, input), name);
    if (path && s->folders)
        snprintf(path, length, "%s/%s/%s.npy", s->folder, sample, name);
    else if (path)
        snprintf(path, length, "%s/%s%s.npy", s->folder, name, sample);
    return path;
}

/* The sample that a file of the folder belongs to, "" or "-N", in `text`. False: it is not of the first input. */
static bool suffix_of(const tv_infer_samples *s, const char *entry, char text[NAME_LENGTH])
{
    char name[NAME_LENGTH / 2];
    file_name(input_name(s, 0), name);
    size_t prefix = strlen(name), length = strlen(entry);
    if (length < prefix + 4 || length >= NAME_LENGTH || strncmp(entry, name, prefix) != 0 ||
        strcmp(entry + length - 4, ".npy") != 0)
        return false;
    snprintf(text, NAME_LENGTH, "%.*s", (int)(length - prefix - 4), entry + prefix);
    return text[0] == '\0' || (text[0] == '-' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1));
}

static bool is_folder(const char *parent, const char *name)
{
    struct stat info;
    size_t length = strlen(parent) + strlen(name) + 2;
    char *path = malloc(length);
    if (path)
        snprintf(path, length, "%s/%s", parent, name);
    bool folder = path && name[0] != '.' && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    free(path);
    return folder;
}

static int compare_names(const void *a, const void *b)
{
    return tv_compare_numbered(*(char *const *)a, *(char *const *)b);
}

static tv_status add_sample(tv_infer_samples *s, const char *name, const tv_diag_sink *sink)
{
    char **more = realloc(s->names, (s->count + 1) * sizeof *more);
    if (more)
        s->names = more;
    char *copy = more ? strdup(name) : NULL;
    if (!copy)
        return tv_fail_memory(sink);
    s->names[s->count++] = copy;
    return TV_OK;
}

static tv_status list_samples(tv_infer_samples *s, DIR *dir, const tv_diag_sink *sink)
{
    const struct dirent *entry;
    char suffix[NAME_LENGTH];
    tv_status status = TV_OK;
    for (unsigned pass = 0; pass < 2 && !s->count && status == TV_OK; pass++) {
        s->folders = pass == 1;
        rewinddir(dir);
        while (status == TV_OK && s->count < SAMPLES_MAX && (entry = readdir(dir)))
            if (s->folders ? is_folder(s->folder, entry->d_name) : suffix_of(s, entry->d_name, suffix))
                status = add_sample(s, s->folders ? entry->d_name : suffix, sink);
    }
    if (s->count)
        qsort(s->names, s->count, sizeof *s->names, compare_names);
    return status;
}

/* ---- Several samples in a file ---- */

/* Number of samples in a tensor: 1, or the multiple of the first extent if the others are equal. */
static uint32_t count_stacked(const tv_tensor *file, const tv_tensor *expected)
{
    if (file->rank != expected->rank || !file->rank || expected->dims[0] < 1 ||
        memcmp(file->dims + 1, expected->dims + 1, (file->rank - 1) * sizeof *file->dims) != 0)
        return 1;
    int64_t count = file->dims[0] / expected->dims[0];
    return file->dims[0] % expected->dims[0] == 0 && count > 1 && count <= SAMPLES_MAX ? (uint32_t)count : 1;
}

static tv_status load_stack(tv_infer_samples *s, size_t input, const tv_diag_sink *sink)
{
    const tv_graph *g = s->network->graph;
    tv_tensor one = tv_graph_tensor_of(g, g->inputs.data[input]), all = one;
    char what[200];
    snprintf(what, sizeof what, "the input '%.100s', with %u samples,", input_name(s, input), s->count);
    if (!one.rank || one.dims[0] > INT64_MAX / SAMPLES_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), "a file for each sample: NAME-1.npy",
                       "the file of the input '%.100s' cannot have %u samples", input_name(s, input), s->count);
    all.dims[0] *= s->count;
    char *path = path_of(s, "", input);
    tv_status status = path ? tv_infer_load(path, NULL, &all, what, sink, &s->stacks[input]) : tv_fail_memory(sink);
    free(path);
    return status == TV_OK ? tv_tensor_init(&s->inputs[input], one.element, one.rank, one.dims, sink) : status;
}

/* Loads NAME.npy of each input if that of the first one has several samples. */
static tv_status load_stacks(tv_infer_samples *s, const tv_diag_sink *sink)
{
    const tv_graph *g = s->network->graph;
    tv_tensor expected = tv_graph_tensor_of(g, g->inputs.data[0]), file;
    char *path = path_of(s, "", 0);
    tv_status status = path ? tv_npy_read(path, sink, &file) : tv_fail_memory(sink);
    free(path);
    if (status != TV_OK)
        return status;
    uint32_t count = count_stacked(&file, &expected);
    tv_tensor_fini(&file);
    if (count == 1)
        return TV_OK;
    s->stacks = calloc(g->inputs.count, sizeof *s->stacks);
    status = s->stacks ? TV_OK : tv_fail_memory(sink);
    s->count = s->stacks ? count : s->count;
    for (size_t i = 0; i < g->inputs.count && status == TV_OK; i++)
        status = load_stack(s, i, sink);
    return status;
}

tv_status tv_infer_samples_init(tv_infer_samples *s, tv_network *network, const char *folder, const tv_diag_sink *sink)
{
    size_t inputs = network->graph->inputs.count;
    *s = (tv_infer_samples){.network = network, .folder = folder, .count = folder ? 0 : 1};
    s->list = calloc(inputs + 1, sizeof *s->list);
    s->inputs = folder ? calloc(inputs + 1, sizeof *s->inputs) : NULL;
    if (!s->list || (folder && !s->inputs))
        return tv_fail_memory(sink);
    if (!folder || !inputs)
        return TV_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_OPEN), NULL, "the folder '%.200s' cannot be read: %s", folder,
                       strerror(errno));
    tv_status status = list_samples(s, dir, sink);
    closedir(dir);
    if (status == TV_OK && !s->count) {
        char name[NAME_LENGTH / 2];
        file_name(input_name(s, 0), name);
        status =
            tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CALIBRATION), "samples are files, or files in folders",
                    "'%.200s' has no inputs for calibration: neither %.60s.npy nor %.60s-1.npy", folder, name, name);
    }
    if (status == TV_OK && !s->folders && s->count == 1 && !s->names[0][0])
        status = load_stacks(s, sink);
    return status;
}

void tv_infer_samples_fini(tv_infer_samples *s)
{
    for (uint32_t i = 0; s->names && i < (s->stacks ? 1 : s->count); i++)
        free(s->names[i]);
    for (size_t i = 0; s->inputs && i < s->network->graph->inputs.count; i++)
        tv_tensor_fini(&s->inputs[i]);
    for (size_t i = 0; s->stacks && i < s->network->graph->inputs.count; i++)
        tv_tensor_fini(&s->stacks[i]);
    free(s->stacks);
    free(s->names);
    free(s->inputs);
    free(s->list);
}

tv_status tv_infer_load_sample(void *user, uint32_t sample, const tv_diag_sink *sink, const tv_tensor *const **inputs)
{
    tv_infer_samples *s = user;
    const tv_graph *g = s->network->graph;
    tv_status status = TV_OK;
    for (size_t i = 0; i < g->inputs.count && status == TV_OK; i++) {
        char what[160];
        s->list[i] = s->inputs ? &s->inputs[i] : &s->network->inputs[i];
        if (!s->inputs)
            continue;
        if (s->stacks) {
            size_t bytes = tv_tensor_bytes(&s->inputs[i]);
            if (bytes)
                memcpy(s->inputs[i].data, (const char *)s->stacks[i].data + sample * bytes, bytes);
            continue;
        }
        tv_tensor expected = tv_graph_tensor_of(g, g->inputs.data[i]), loaded;
        char *path = path_of(s, s->names[sample], i);
        snprintf(what, sizeof what, "the input '%.100s'", input_name(s, i));
        status = path ? tv_infer_load(path, NULL, &expected, what, sink, &loaded) : tv_fail_memory(sink);
        free(path);
        if (status == TV_OK) {
            tv_tensor_fini(&s->inputs[i]);
            s->inputs[i] = loaded;
        }
    }
    *inputs = s->list;
    return status;
}
