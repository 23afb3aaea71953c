/* SPDX-License-Identifier: Apache-2.0 */
/* Loads extensions: opens the shared object, checks it, and adds its rows to the instruction sets. */
#include <dlfcn.h>
#include <errno.h>
#include <sha2.h>
#include <stdlib.h>

#include "isa/extend.h"
#include "lib/targets.h"

enum { NAME_MAX_BYTES = 60, INSNS_MAX = 64 };

static bool is_text(const char *text) { return text && *text; }

/* Adds a row, and asks the machine whether it accepts it. */
static tv_status add_row(const tv_extension *e, const tv_extension_insn *row, const tv_diag_sink *sink)
{
    if (row->size != sizeof *row)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_VERSION), "build it against the installed headers",
                       "a row of the extension has %zu bytes, not %zu: its `size` is not set, or it was built against "
                       "other headers",
                       row->size, sizeof *row);
    if (!is_text(row->id) || !row->target)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), NULL, "a row of the extension has no id or target");
    tv_isa *isa = tv_isa_to_extend(row->target);
    const tv_target *target = tv_target_find(row->target);
    if (!isa || !target)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), "`trivet targets` lists the machines",
                       "instruction %.40s: there is no machine '%.40s'", row->id, row->target);
    TV_TRY(tv_isa_extend(isa, row, e->name, sink));
    const char *reason = target->accepts(&isa->insns[isa->insn_count - 1]);
    if (!reason)
        return TV_OK;
    tv_isa_truncate(isa, isa->insn_count - 1);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), "docs/extensions.md has the rules of each machine",
                   "instruction %.40s: %s", row->id, reason);
}

static tv_status add_rows(const tv_extension *e, const tv_diag_sink *sink)
{
    unsigned counts[TV_TARGETS_MAX];
    const tv_target *target;
    for (unsigned t = 0; (target = tv_target_get(t)); t++)
        counts[t] = target->isa->insn_count;
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < e->insn_count && status == TV_OK; i++)
        status = add_row(e, &e->insns[i], sink);
    for (unsigned t = 0; status != TV_OK && (target = tv_target_get(t)); t++)
        tv_isa_truncate(tv_isa_to_extend(target->name), counts[t]);
    return status;
}

/* Results of a set with these rows are not those of another one: the sets keep a digest of the files. */
static void note_file(const tv_extension *e, const uint8_t *data, size_t size)
{
    for (uint32_t i = 0; i < e->insn_count; i++) {
        tv_isa *isa = tv_isa_to_extend(e->insns[i].target);
        SHA2_CTX hash;
        SHA256Init(&hash);
        SHA256Update(&hash, (const uint8_t *)isa->extensions, strlen(isa->extensions));
        SHA256Update(&hash, data, size);
        SHA256End(&hash, isa->extensions);
    }
}

static tv_status check_extension(const char *path, const tv_extension *e, const tv_diag_sink *sink)
{
    if (e->version != TV_EXTENSION_VERSION)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_VERSION), "build it against the installed headers",
                       "'%s' is of version %u of trivet/extension.h, this is version %d", path, e->version,
                       TV_EXTENSION_VERSION);
    if (!is_text(e->name) || strlen(e->name) > NAME_MAX_BYTES || !e->insns || e->insn_count == 0 ||
        e->insn_count > INSNS_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_FILE), NULL,
                       "'%s' has no name of 1 to %d bytes, or not 1 to %d instructions", path, NAME_MAX_BYTES,
                       INSNS_MAX);
    return TV_OK;
}

tv_status tv_extension_load(const char *path, const tv_diag_sink *sink)
{
    char *file = realpath(path, NULL); /* dlopen searches other folders for a name without a slash */
    if (!file && errno == ENOMEM)
        return tv_fail_memory(sink);
    if (!file)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_OPEN),
                       "check the name; paths are relative to the current folder", "cannot read '%s': %s", path,
                       strerror(errno));
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *reason = dlerror();
        if (strncmp(reason, file, strlen(file)) == 0 && reason[strlen(file)] == ':')
            reason += strlen(file) + 1 + strspn(reason + strlen(file) + 1, " ");
        tv_status status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_FILE),
                                   "cc -shared -fPIC -o FILE.so FILE.c $(pkg-config --cflags trivet)",
                                   "cannot load '%s': %s", path, reason);
        free(file);
        return status;
    }
    free(file);
    const tv_extension *e = dlsym(library, "trivet_extension");
    tv_status status =
        e ? check_extension(path, e, sink)
          : tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_FILE), "TV_EXTENSION(\"name\", rows) defines it",
                    "'%s' has no symbol 'trivet_extension'", path);
    tv_input input = {0};
    if (status == TV_OK)
        status = tv_input_open(path, sink, &input);
    if (status == TV_OK)
        status = add_rows(e, sink);
    if (status == TV_OK)
        note_file(e, input.data, input.size);
    tv_input_close(&input);
    if (status != TV_OK)
        dlclose(library);
    return status; /* a loaded extension stays: its rows are in the tables */
}
