/* SPDX-License-Identifier: Apache-2.0 */
/* Reads manifests. */
#include "infer/manifest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json_value.h"
#include "base/sv.h"
#include "graph/codes.h"
#include "trivet/file.h"

enum { SIZE_MAX_BYTES = 64 << 20, LIST_MAX = 1 << 20 };
static const uint64_t tensor_bytes_max = UINT64_C(1) << 32, address_max = UINT64_C(1) << 48;

typedef struct reader {
    tv_manifest *m;
    tv_sv text;
    const char *path;
    const tv_diag_sink *sink;
    tv_graph_builder b;
} reader;

tv_status tv_manifest_find(const char *path, const tv_diag_sink *sink, bool *folder)
{
    struct stat info;
    int failed = stat(path, &info);
    bool invalid_path =
        errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG;
    if (failed && !invalid_path)
        return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_OPEN), NULL, "cannot read '%.200s': %s", path, strerror(errno));
    *folder = !failed && S_ISDIR(info.st_mode);
    return TV_OK;
}

void tv_manifest_free(tv_manifest *manifest)
{
    if (!manifest)
        return;
    tv_arena_fini(&manifest->arena);
    free(manifest->folder);
    free(manifest);
}

/* ---- Members ---- */

static tv_status fail(const reader *r, const tv_json_value *at, const char *format, ...) TV_PRINTF(3, 4);

static tv_status fail(const reader *r, const tv_json_value *at, const char *format, ...)
{
    va_list args;
    tv_source_loc loc = {.file = r->path, .line = at ? tv_json_line(r->text, at->end) : 0, .index = -1};
    va_start(args, format);
    tv_vreport(r->sink, TV_ERROR, TV_LLM_CODE(MANIFEST), &loc, "compile the network again", format, args);
    va_end(args);
    return TV_ERR_INPUT;
}

static tv_status read_text(const reader *r, const tv_json_value *object, const char *key, const char **out)
{
    const tv_json_value *v = tv_json_get(object, key);
    *out = NULL;
    if (!tv_json_string(v))
        return fail(r, v ? v : object, "'%s' is missing, or not a string", key);
    *out = tv_json_string(v);
    return TV_OK;
}

static tv_status read_count(const reader *r, const tv_json_value *object, const char *key, uint64_t max, uint64_t *out)
{
    const tv_json_value *v = tv_json_get(object, key);
    *out = 0;
    if (!tv_json_is(v, TV_JSON_INTEGER) || v->integer < 0 || (uint64_t)v->integer > max)
        return fail(r, v ? v : object, "'%s' is not an integer from 0 to %" PRIu64, key, max);
    *out = (uint64_t)v->integer;
    return TV_OK;
}

/* An array of objects. */
static tv_status read_list(const reader *r, const tv_json_value *object, const char *key, const tv_json_value **out)
{
    const tv_json_value *list = tv_json_get(object, key);
    *out = NULL;
    if (!tv_json_is(list, TV_JSON_ARRAY) || list->count > LIST_MAX)
        return fail(r, list ? list : object, "'%s' is missing, or not a list", key);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next)
        if (!tv_json_is(v, TV_JSON_OBJECT))
            return fail(r, v, "an element of '%s' is not an object", key);
    *out = list;
    return TV_OK;
}

static void *allocate(const reader *r, uint32_t count, size_t size)
{
    return tv_arena_alloc(&r->m->arena, ((size_t)count + 1) * size);
}

/* ---- Inputs and outputs ---- */

static tv_status read_shape(const reader *r, const tv_json_value *port, tv_tensor *out)
{
    const char *type;
    const tv_json_value *shape = tv_json_get(port, "shape");
    TV_TRY(read_text(r, port, "type", &type));
    for (out->element = 0; strcmp(tv_element_infos[out->element].name, type) != 0;)
        if (++out->element == TV_ELEMENTS)
            return fail(r, port, "'%.40s' is not an element type", type);
    if (!tv_json_is(shape, TV_JSON_ARRAY) || shape->count > TV_TENSOR_RANK_MAX)
        return fail(r, port, "'shape' is not a list of at most %d extents", TV_TENSOR_RANK_MAX);
    for (const tv_json_value *v = tv_json_first(shape); v; v = v->next) {
        if (!tv_json_is(v, TV_JSON_INTEGER) || v->integer < 0)
            return fail(r, v, "an extent is not an integer of at least 0");
        out->dims[out->rank++] = v->integer;
    }
    if (!tv_tensor_fits(out->element, out->rank, out->dims) || tv_tensor_bytes(out) > tensor_bytes_max)
        return fail(r, shape, "the tensor is larger than %" PRIu64 " bytes", tensor_bytes_max);
    return TV_OK;
}

static tv_status read_term(const reader *r, const tv_json_value *v, uint32_t rank, tv_network_term *out)
{
    uint64_t axis;
    TV_TRY(read_count(r, v, "axis", rank ? rank - 1 : 0, &axis));
    TV_TRY(read_count(r, v, "divisor", INT32_MAX, &out->divisor));
    TV_TRY(read_count(r, v, "extent", INT32_MAX, &out->extent));
    TV_TRY(read_count(r, v, "stride", INT32_MAX, &out->stride));
    out->axis = (uint32_t)axis;
    if (out->divisor == 0 || out->extent == 0 || rank == 0)
        return fail(r, v, "'divisor' and 'extent' are at least 1, and the tensor has axes");
    return TV_OK;
}

static tv_status read_port(const reader *r, const tv_json_value *v, uint32_t rank, tv_network_port *out)
{
    const char *storage;
    const tv_json_value *scale = tv_json_get(v, "scale"), *terms;
    TV_TRY(read_text(r, v, "space", &out->space));
    TV_TRY(read_count(r, v, "address", address_max, &out->address));
    TV_TRY(read_text(r, v, "storage", &storage));
    TV_TRY(read_list(r, v, "terms", &terms));
    if (tv_dtype_find(storage, &out->type) != TV_OK || out->type > TV_BF16 || tv_dtype_bits(out->type) < 8)
        return fail(r, v, "'storage' cannot be '%.40s'", storage);
    if (!tv_json_is_number(scale) || !(scale->real > 0) || scale->real > 1e30)
        return fail(r, scale ? scale : v, "'scale' is not a positive number");
    out->scale = scale->real;
    if (terms->count > TV_NETWORK_TERMS_MAX)
        return fail(r, terms, "'terms' has more than %d elements", TV_NETWORK_TERMS_MAX);
    for (const tv_json_value *t = tv_json_first(terms); t; t = t->next)
        TV_TRY(read_term(r, t, rank, &out->terms[out->term_count++]));
    return TV_OK;
}

/* Values of outputs have no producer: they are declared as inputs, and taken out of the list of inputs. */
static tv_status read_ports(reader *r, const tv_json_value *root, const char *key, bool outputs)
{
    const tv_json_value *list;
    TV_TRY(read_list(r, root, key, &list));
    tv_network_port *ports = allocate(r, list->count, sizeof *ports);
    uint32_t n = 0;
    if (!ports)
        return tv_fail_memory(r->sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next, n++) {
        tv_tensor type = {0};
        const char *name;
        TV_TRY(read_text(r, v, "name", &name));
        TV_TRY(read_shape(r, v, &type));
        ports[n] = (tv_network_port){0};
        TV_TRY(read_port(r, v, type.rank, &ports[n]));
        tv_graph_shape shape = {.rank = type.rank};
        memcpy(shape.dims, type.dims, sizeof shape.dims);
        uint32_t value = tv_graph_input(&r->b, name, type.element, &shape);
        if (outputs && value != TV_NO_VALUE) {
            r->b.graph->inputs.count--;
            tv_graph_add_output(&r->b, name, value);
        }
        TV_TRY(r->b.status);
    }
    *(outputs ? &r->m->outputs : &r->m->inputs) = ports;
    *(outputs ? &r->m->output_count : &r->m->input_count) = n;
    return n || !outputs ? TV_OK : fail(r, list, "there are no outputs");
}

/* ---- Programs, layers, parameters ---- */

/* A file of the folder itself. */
static bool is_file_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 200;
}

static tv_status read_programs(const reader *r, const tv_json_value *root)
{
    const tv_json_value *list;
    TV_TRY(read_list(r, root, "programs", &list));
    if (!(r->m->programs = allocate(r, list->count, sizeof *r->m->programs)))
        return tv_fail_memory(r->sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        tv_network_program *p = &r->m->programs[r->m->program_count++];
        uint64_t first, count;
        TV_TRY(read_text(r, v, "file", &p->file));
        TV_TRY(read_count(r, v, "first_layer", r->m->layer_count, &first));
        TV_TRY(read_count(r, v, "layer_count", r->m->layer_count - first, &count));
        p->first = (uint32_t)first;
        p->count = (uint32_t)count;
        if (!is_file_name(p->file))
            return fail(r, v, "'%.60s' is not the name of a file in the folder", p->file);
    }
    return list->count ? TV_OK : fail(r, list, "there are no programs");
}

/* Optional. */
static tv_status read_steps(const reader *r, const tv_json_value *root)
{
    const tv_json_value *list;
    if (!tv_json_get(root, "steps"))
        return TV_OK;
    TV_TRY(read_list(r, root, "steps", &list));
    if (!(r->m->steps = allocate(r, list->count, sizeof *r->m->steps)))
        return tv_fail_memory(r->sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        tv_network_step *s = &r->m->steps[r->m->step_count++];
        const tv_json_value *numbers = tv_json_get(v, "numbers");
        uint64_t program;
        tv_tensor type = {0};
        *s = (tv_network_step){0};
        TV_TRY(read_count(r, v, "program", r->m->program_count - 1, &program));
        TV_TRY(read_text(r, v, "kind", &s->kind));
        TV_TRY(read_shape(r, v, &type));
        TV_TRY(read_port(r, v, type.rank, &s->source));
        TV_TRY(read_count(r, v, "result", address_max, &s->address));
        s->program = (uint32_t)program;
        s->rank = type.rank;
        memcpy(s->dims, type.dims, sizeof s->dims);
        if (!tv_json_is(numbers, TV_JSON_ARRAY) || numbers->count != TV_NETWORK_STEP_NUMBERS)
            return fail(r, numbers ? numbers : v, "'numbers' is not a list of %d numbers", TV_NETWORK_STEP_NUMBERS);
        unsigned i = 0;
        for (const tv_json_value *n = tv_json_first(numbers); n; n = n->next, i++) {
            if (!tv_json_is(n, TV_JSON_INTEGER) || n->integer < 0 || (uint64_t)n->integer > address_max)
                return fail(r, n, "a number of a step is not an integer from 0 to %" PRIu64, address_max);
            s->numbers[i] = (uint64_t)n->integer;
        }
    }
    return TV_OK;
}

static tv_status read_layers(const reader *r, const tv_json_value *root)
{
    const tv_json_value *list;
    TV_TRY(read_list(r, root, "layers", &list));
    if (!(r->m->layers = allocate(r, list->count, sizeof *r->m->layers)))
        return tv_fail_memory(r->sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        tv_network_layer *l = &r->m->layers[r->m->layer_count++];
        *l = (tv_network_layer){.activation = tv_json_string(tv_json_get(v, "activation")),
                                .residual = tv_json_is_true(tv_json_get(v, "residual")),
                                .bound = tv_json_string(tv_json_get(v, "bound"))};
        TV_TRY(read_text(r, v, "name", &l->name));
        TV_TRY(read_text(r, v, "operator", &l->op));
        TV_TRY(read_count(r, v, "tiles", INT64_MAX, &l->tiles));
        TV_TRY(read_count(r, v, "cycles", INT64_MAX, &l->cycles));
        TV_TRY(read_count(r, v, "macs", INT64_MAX, &l->macs));
        TV_TRY(read_count(r, v, "bytes", INT64_MAX, &l->bytes));
    }
    return TV_OK;
}

static tv_status read_parameters(const reader *r, const tv_json_value *root)
{
    const tv_json_value *list = tv_json_get(root, "configuration");
    TV_TRY(read_text(r, root, "target", &r->m->target));
    TV_TRY(read_text(r, root, "configuration_hash", &r->m->hash));
    if (!tv_json_is(list, TV_JSON_OBJECT))
        return fail(r, list ? list : root, "'configuration' is missing, or not an object");
    if (!(r->m->parameters = allocate(r, list->count, sizeof *r->m->parameters)))
        return tv_fail_memory(r->sink);
    for (const tv_json_value *v = tv_json_first(list); v; v = v->next) {
        if (!tv_json_string(v))
            return fail(r, v, "the parameter '%.60s' is not a string", v->key);
        r->m->parameters[r->m->parameter_count++] = (tv_manifest_parameter){v->key, tv_json_string(v)};
    }
    return TV_OK;
}

static tv_status read_manifest(reader *r)
{
    tv_json_error error;
    uint64_t version;
    const tv_json_value *root = tv_json_parse(&r->m->arena, r->text, (size_t)SIZE_MAX_BYTES * 8, &error);
    if (!root && error.kind == TV_JSON_MEMORY)
        return tv_fail_memory(r->sink);
    if (!root)
        return fail(r, NULL, "not JSON: %s", error.message);
    TV_TRY(read_count(r, root, "manifest_version", INT32_MAX, &version));
    if (version != TV_MANIFEST_VERSION)
        return fail(r, root, "version %" PRIu64 " of the format; this version of Trivet reads %d", version,
                    TV_MANIFEST_VERSION);
    TV_TRY(read_parameters(r, root));
    TV_TRY(read_layers(r, root));
    TV_TRY(read_programs(r, root));
    TV_TRY(read_steps(r, root));
    TV_TRY(read_ports(r, root, "inputs", false));
    return read_ports(r, root, "outputs", true);
}

tv_status tv_manifest_open(const char *folder, const tv_diag_sink *sink, tv_manifest **out, tv_graph **graph)
{
    size_t length = strlen(folder) + sizeof "/" TV_MANIFEST_FILE;
    char *path = malloc(length);
    reader r = {.m = calloc(1, sizeof *r.m), .path = path, .sink = sink};
    tv_input file = {0};
    tv_status status = path && r.m && (r.m->folder = strdup(folder)) ? TV_OK : tv_fail_memory(sink);
    tv_graph_begin(&r.b, 0, 1, sink);
    if (status == TV_OK)
        status = r.b.status;
    if (status == TV_OK) {
        snprintf(path, length, "%s/%s", folder, TV_MANIFEST_FILE);
        r.b.block = TV_BLOCK_NONE;
        status = tv_input_open(path, sink, &file);
    }
    if (status == TV_OK && file.size > SIZE_MAX_BYTES)
        status = fail(&r, NULL, "the file is larger than %d bytes", SIZE_MAX_BYTES);
    r.text = (tv_sv){(const char *)file.data, file.size};
    if (status == TV_OK)
        status = read_manifest(&r);
    if (file.data)
        tv_input_close(&file);
    free(path);
    if (status == TV_OK)
        status = tv_graph_finish(&r.b, TV_NO_VALUE, graph);
    else
        tv_graph_abandon(&r.b);
    if (status != TV_OK) {
        tv_manifest_free(r.m);
        return status;
    }
    *out = r.m;
    return TV_OK;
}

/* ---- Configurations ---- */

/* FNV-1a of a text with its NUL. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

void tv_config_hash(const tv_config *config, char text[TV_CONFIG_HASH])
{
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), tv_config_target(config));
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(config, i, &e); i++)
        hash = hash_text(hash_text(hash, e.key), e.value);
    snprintf(text, TV_CONFIG_HASH, "%016" PRIx64, hash);
}

tv_status tv_manifest_config(const tv_manifest *m, const tv_infer_services *services, const tv_diag_sink *sink,
                             tv_config **out)
{
    tv_config *config;
    char hash[TV_CONFIG_HASH];
    TV_TRY(services->new_config(m->target, sink, &config));
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < m->parameter_count && status == TV_OK; i++)
        status = tv_config_set(config, m->parameters[i].key, m->parameters[i].value, sink);
    if (status == TV_OK)
        status = tv_config_check(config, sink);
    tv_config_hash(config, hash);
    if (status == TV_OK && strcmp(hash, m->hash) != 0)
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(MANIFEST), "compile the network again",
                         "'%.200s': the configuration has the hash %s, not %.40s", m->folder, hash, m->hash);
    if (status != TV_OK) {
        tv_config_free(config);
        return status;
    }
    *out = config;
    return TV_OK;
}
