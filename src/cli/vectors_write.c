/* SPDX-License-Identifier: Apache-2.0 */
/* The files of fixtures. */
#include <inttypes.h>

#include "cli/vectors.h"

static const char queue_suffix[] = "queue.json";
static const char *const roles[] = {"input", "step", "output"};

/* ---- Building ---- */

/* FNV-1a of the name, so that fixtures do not depend on each other. */
static uint64_t seed_of(const char *text)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return h;
}

void vectors_begin(vectors_writer *w, const char *name, const char *meaning, const char *lane_order)
{
    snprintf(w->name, sizeof w->name, "%s", name);
    w->meaning = meaning;
    w->lane_order = lane_order;
    w->random = seed_of(name);
    w->array_count = 0;
    w->parameters = NULL;
    w->queue_digest[0] = '\0';
}

uint64_t vectors_random(vectors_writer *w, uint64_t below) /* splitmix64 */
{
    uint64_t z = w->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}

static uint64_t count_of(const vectors_array *a) { return a->rows ? a->rows * a->columns : a->columns; }

uint64_t *vectors_add(vectors_writer *w, vectors_role role, const char *name, const char *type, unsigned bits,
                      uint64_t rows, uint64_t columns, const char *meaning)
{
    if (w->status != TV_OK || w->array_count == VECTORS_ARRAYS_MAX)
        return NULL;
    vectors_array a = {name, type, meaning, role, bits, rows, columns, NULL};
    a.words = calloc(count_of(&a) + 1, sizeof *a.words);
    if (!a.words) {
        cli_fail_memory(w->c);
        w->status = TV_ERR_MEMORY;
        return NULL;
    }
    w->arrays[w->array_count++] = a;
    return a.words;
}

/* ---- Files ---- */

static uint64_t mask_of(unsigned bits) { return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1; }

/* Opens FOLDER/FAMILY/NAME.SUFFIX. */
static tv_output *open_file(vectors_writer *w, const char *suffix)
{
    size_t length = strlen(w->folder) + strlen(w->family) + strlen(w->name) + strlen(suffix) + 4;
    char *path = malloc(length);
    tv_output *out = NULL;
    if (!path) {
        cli_fail_memory(w->c);
        w->status = TV_ERR_MEMORY;
        return NULL;
    }
    snprintf(path, length, "%s/%s/%s.%s", w->folder, w->family, w->name, suffix);
    w->status = tv_output_open(path, &w->c->sink, &out);
    free(path);
    return w->status == TV_OK ? out : NULL;
}

void vectors_queue(vectors_writer *w, const char *text, size_t size)
{
    tv_output *out = w->status == TV_OK ? open_file(w, queue_suffix) : NULL;
    if (!out)
        return;
    fwrite(text, 1, size, tv_output_stream(out));
    SHA256Data((const uint8_t *)text, size, w->queue_digest);
    w->status = tv_output_commit_to(out, w->group, &w->c->sink);
}

static void write_words(vectors_writer *w, const vectors_array *a, char digest[SHA256_DIGEST_STRING_LENGTH])
{
    char suffix[64], line[40];
    SHA2_CTX hash;
    snprintf(suffix, sizeof suffix, "%s.memh", a->name);
    tv_output *out = open_file(w, suffix);
    if (!out)
        return;
    FILE *file = tv_output_stream(out);
    SHA256Init(&hash);
    int width = (int)((a->bits + 3) / 4);
    for (uint64_t i = 0, count = count_of(a); i < count; i++) {
        int n = snprintf(line, sizeof line, "%0*" PRIx64 "\n", width, a->words[i] & mask_of(a->bits));
        SHA256Update(&hash, (const uint8_t *)line, (size_t)n);
        fputs(line, file);
    }
    SHA256End(&hash, digest);
    w->status = tv_output_commit_to(out, w->group, &w->c->sink);
}

/* The words one after the other, each in whole bytes but those of 4 bits, two of which are a byte; low bits first. */
static void write_bytes(tv_json_writer *json, const vectors_array *a)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t count = count_of(a), bytes = a->bits == 4 ? (count + 1) / 2 : count * ((a->bits + 7) / 8);
    unsigned size = (a->bits + 7) / 8;
    char *text = malloc(bytes * 2 + 1);
    for (uint64_t i = 0; text && i < bytes; i++) {
        uint64_t word = a->bits == 4
                            ? (a->words[2 * i] & 15) | (2 * i + 1 < count ? (a->words[2 * i + 1] & 15) << 4 : 0)
                            : (a->words[i / size] & mask_of(a->bits)) >> (i % size * 8);
        text[2 * i] = digits[word >> 4 & 15];
        text[2 * i + 1] = digits[word & 15];
    }
    if (text)
        text[bytes * 2] = '\0';
    tv_json_write_string(json, text ? text : "");
    free(text);
}

static void write_array(vectors_writer *w, tv_json_writer *json, const vectors_array *a, const char *digest)
{
    char file[160];
    snprintf(file, sizeof file, "%s.%s.memh", w->name, a->name);
    tv_json_begin_object(json);
    tv_json_key(json, "name");
    tv_json_write_string(json, a->name);
    tv_json_key(json, "role");
    tv_json_write_string(json, roles[a->role]);
    tv_json_key(json, "meaning");
    tv_json_write_string(json, a->meaning);
    tv_json_key(json, "type");
    tv_json_write_string(json, a->type);
    tv_json_key(json, "bits");
    tv_json_write_integer(json, a->bits);
    tv_json_key(json, "shape");
    tv_json_begin_array(json);
    if (a->rows)
        tv_json_write_integer(json, (int64_t)a->rows);
    tv_json_write_integer(json, (int64_t)a->columns);
    tv_json_end_array(json);
    tv_json_key(json, "file");
    tv_json_write_string(json, file);
    tv_json_key(json, "sha256");
    tv_json_write_string(json, digest);
    tv_json_key(json, "bytes");
    write_bytes(json, a);
    tv_json_end_object(json);
}

static void write_queue_members(vectors_writer *w, tv_json_writer *json)
{
    char text[160];
    tv_json_key(json, "queue");
    tv_json_begin_object(json);
    tv_json_key(json, "file");
    snprintf(text, sizeof text, "%s.%s", w->name, queue_suffix);
    tv_json_write_string(json, text);
    tv_json_key(json, "sha256");
    tv_json_write_string(json, w->queue_digest);
    tv_json_end_object(json);
    tv_json_key(json, "parameters");
    tv_json_begin_array(json);
    for (const char *next = w->parameters; next && *next; next += strspn(next, " ")) {
        size_t length = strcspn(next, " ");
        snprintf(text, sizeof text, "%.*s", (int)length, next);
        tv_json_write_string(json, text);
        next += length;
    }
    tv_json_end_array(json);
}

static void write_description(vectors_writer *w, char (*digests)[SHA256_DIGEST_STRING_LENGTH])
{
    tv_output *out = open_file(w, "json");
    tv_json_writer *json = out ? tv_json_writer_new(tv_output_stream(out), TV_JSON_INDENTED) : NULL;
    if (!out)
        return;
    if (!json) {
        cli_fail_memory(w->c);
        w->status = TV_ERR_MEMORY;
        tv_output_abandon(out);
        return;
    }
    tv_json_begin_object(json);
    tv_json_key(json, "fixture");
    tv_json_write_string(json, w->name);
    tv_json_key(json, "family");
    tv_json_write_string(json, w->family);
    tv_json_key(json, "meaning");
    tv_json_write_string(json, w->meaning);
    tv_json_key(json, "generator");
    tv_json_begin_object(json);
    tv_json_key(json, "tool");
    tv_json_write_string(json, "trivet");
    tv_json_key(json, "version");
    tv_json_write_string(json, tv_version());
    tv_json_end_object(json);
    tv_json_key(json, "lane_order");
    tv_json_write_string(json, w->lane_order);
    if (w->queue_digest[0])
        write_queue_members(w, json);
    tv_json_key(json, "arrays");
    tv_json_begin_array(json);
    for (unsigned i = 0; i < w->array_count; i++)
        write_array(w, json, &w->arrays[i], digests[i]);
    tv_json_end_array(json);
    tv_json_end_object(json);
    if (!tv_json_writer_finish(json))
        w->status = TV_ERR_IO;
    tv_json_writer_free(json);
    tv_status committed = tv_output_commit_to(out, w->group, &w->c->sink);
    w->status = w->status == TV_OK ? committed : w->status;
}

void vectors_end(vectors_writer *w)
{
    char digests[VECTORS_ARRAYS_MAX][SHA256_DIGEST_STRING_LENGTH];
    for (unsigned i = 0; i < w->array_count && w->status == TV_OK; i++)
        write_words(w, &w->arrays[i], digests[i]);
    if (w->status == TV_OK)
        write_description(w, digests);
    for (unsigned i = 0; i < w->array_count; i++)
        free(w->arrays[i].words);
    w->array_count = 0;
    w->fixtures++;
}
