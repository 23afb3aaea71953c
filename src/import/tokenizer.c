/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a tokenizer from a model's metadata; decodes tokens to text.
 *
 * Two kinds: SentencePiece (llama), whose pieces are text with a score and U+2581 for a space, and byte-level BPE
 * (gpt2), whose pieces spell each byte as a printable character and which come with a list of merges. Both end as one
 * representation (vocabulary.h), which encode.c reads. Pieces are copied, because the file may be closed. Lookups are
 * binary searches, which have no adversarial vocabularies. */
#include "import/tokenizer.h"

#include <math.h>
#include <stdlib.h>

#include "import/characters.h"
#include "import/vocabulary.h"

typedef struct builder {
    tv_tokenizer *t;
    const tv_gguf *gguf;
    const tv_diag_sink *sink;
} builder;

#define KEY "tokenizer.ggml."

static tv_status report_damage(const builder *m, const char *what)
{
    return tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(TOKENIZER_DAMAGED), "download the model again",
                   "the model's tokenizer is damaged: %s", what);
}

/* ---- Lookups ---- */

static int compare_bytes(tv_sv a, tv_sv b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len ? memcmp(a.ptr, b.ptr, a.len) : 0;
}

int32_t tv_vocabulary_find(const tv_tokenizer *t, tv_sv bytes)
{
    size_t low = 0, high = t->sorted_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_bytes(t->pieces[t->sorted[middle]].bytes, bytes);
        if (order == 0)
            return t->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const tv_merge *tv_vocabulary_merge(const tv_tokenizer *t, int32_t left, int32_t right)
{
    size_t low = 0, high = t->merge_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const tv_merge *m = &t->merges[middle];
        if (m->left == left && m->right == right)
            return m;
        if (m->left < left || (m->left == left && m->right < right))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Sorted together with the id because qsort passes no context. */
typedef struct piece_key {
    tv_sv bytes;
    int32_t id;
} piece_key;

static int compare_entries(const void *a, const void *b)
{
    const piece_key *x = a, *y = b;
    int order = compare_bytes(x->bytes, y->bytes);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static tv_status sort_pieces(builder *m)
{
    tv_tokenizer *t = m->t;
    piece_key *keys = malloc(((size_t)t->count + 1) * sizeof *keys);
    t->sorted = tv_arena_alloc(&t->arena, ((size_t)t->count + 1) * sizeof *t->sorted);
    if (!keys || !t->sorted) {
        free(keys);
        return tv_fail_memory(m->sink);
    }
    size_t n = 0;
    for (int32_t id = 0; id < t->count; id++)
        if (t->pieces[id].matches && t->pieces[id].bytes.len > 0)
            keys[n++] = (piece_key){t->pieces[id].bytes, id};
    qsort(keys, n, sizeof *keys, compare_entries);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare_bytes(keys[i].bytes, keys[i - 1].bytes) != 0)
            t->sorted[t->sorted_count++] = keys[i].id;
    free(keys);
    return TV_OK;
}

/* ---- GPT-2's mapping of bytes to characters ---- */

/* The printable characters of Latin-1 represent themselves; the other bytes, in order, are U+0100 and following. */
static bool maps_to_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

typedef struct byte_table {
    int16_t of[0x144]; /* byte of a code point; -1: none */
} byte_table;

static void init_byte_table(byte_table *table)
{
    for (size_t i = 0; i < TV_COUNTOF(table->of); i++)
        table->of[i] = -1;
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; b++)
        table->of[maps_to_itself(b) ? b : next++] = (int16_t)b;
}

/* Maps `text` in GPT-2's characters to bytes, never more than it has. False when it contains other characters. */
static bool decode_gpt2_bytes(const byte_table *table, tv_sv text, char *out, size_t *length)
{
    size_t n = 0;
    while (text.len > 0) {
        int32_t code;
        size_t taken = tv_utf8_decode(text, &code);
        if (code < 0 || code >= (int32_t)TV_COUNTOF(table->of) || table->of[code] < 0)
            return false;
        out[n++] = (char)table->of[code];
        text = (tv_sv){text.ptr + taken, text.len - taken};
    }
    *length = n;
    return true;
}

/* ---- Pieces ---- */

/* The byte of "<0x0A>", or -1. */
static int byte_of_piece(tv_sv text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>')
        return -1;
    const char *high = memchr(digits, text.ptr[3], 16), *low = memchr(digits, text.ptr[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Sets text, bytes and type of each piece. Without a list of types, "<0xNN>" is a byte. */
static tv_status read_pieces(builder *m, const tv_gguf_list *tokens, const tv_gguf_list *types)
{
    tv_tokenizer *t = m->t;
    byte_table table;
    init_byte_table(&table);
    for (int32_t id = 0; id < t->count; id++) {
        tv_piece *p = &t->pieces[id];
        tv_sv text = tokens->strings[id];
        char *copy = tv_arena_str(&t->arena, text);
        if (!copy)
            return tv_fail_memory(m->sink);
        p->text = p->bytes = (tv_sv){copy, text.len};
        bool looks_like_byte = !t->gpt2 && byte_of_piece(p->text) >= 0;
        p->type = looks_like_byte ? TV_TOKEN_BYTE : TV_TOKEN_NORMAL;
        if (types) {
            int64_t type = tv_gguf_list_i64(types, (uint64_t)id);
            p->type = type >= TV_TOKEN_NORMAL && type <= TV_TOKEN_BYTE ? (uint8_t)type : TV_TOKEN_NORMAL;
        }
        p->matches = p->type == TV_TOKEN_NORMAL || (p->type == TV_TOKEN_USER_DEFINED && !t->gpt2);
        if (t->gpt2 && p->type == TV_TOKEN_NORMAL) {
            char *bytes = tv_arena_alloc(&t->arena, text.len + 1);
            size_t length;
            if (!bytes)
                return tv_fail_memory(m->sink);
            p->matches = decode_gpt2_bytes(&table, p->text, bytes, &length);
            if (p->matches)
                p->bytes = (tv_sv){bytes, length};
        }
    }
    return TV_OK;
}

static tv_status read_scores(builder *m)
{
    tv_gguf_list scores;
    if (!tv_gguf_array(m->gguf, KEY "scores", &scores))
        return m->t->gpt2 ? TV_OK : report_damage(m, "it has no scores");
    if (scores.kind != TV_GGUF_KIND_F32 || scores.count != (uint64_t)m->t->count)
        return report_damage(m, "its scores are not one number for each token");
    for (int32_t id = 0; id < m->t->count; id++) {
        float score = tv_gguf_list_f32(&scores, (uint64_t)id);
        m->t->pieces[id].score = isnan(score) ? -INFINITY : score;
    }
    return TV_OK;
}

static tv_status read_tokens(builder *m)
{
    tv_tokenizer *t = m->t;
    tv_gguf_list tokens, types;
    if (!tv_gguf_array(m->gguf, KEY "tokens", &tokens) || tokens.kind != TV_GGUF_KIND_STRING || tokens.count == 0)
        return report_damage(m, "it has no list of tokens");
    if (tokens.count > TV_TOKENS_MAX)
        return report_damage(m, "it has more than 16777216 tokens");
    bool typed = tv_gguf_array(m->gguf, KEY "token_type", &types);
    if (typed && ((types.kind != TV_GGUF_KIND_I32 && types.kind != TV_GGUF_KIND_U32) || types.count != tokens.count))
        return report_damage(m, "its types are not one number for each token");
    t->count = (int32_t)tokens.count;
    t->pieces = tv_arena_alloc(&t->arena, (size_t)t->count * sizeof *t->pieces);
    if (!t->pieces)
        return tv_fail_memory(m->sink);
    TV_TRY(read_pieces(m, &tokens, typed ? &types : NULL));
    TV_TRY(read_scores(m));
    return TV_OK;
}

/* Reads a special token: `fallback` when the key is absent; -1 when the fallback is outside the vocabulary. */
static tv_status read_special(const builder *m, const char *key, int32_t fallback, int32_t *out)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(m->gguf, key);
    uint64_t id = tv_gguf_u64(m->gguf, key, UINT64_MAX);
    if (!meta || id == UINT32_MAX) { /* some writers use it for none */
        *out = !meta && fallback < m->t->count ? fallback : -1;
        return TV_OK;
    }
    if (id >= (uint64_t)m->t->count)
        return report_damage(m, "a special token is outside the vocabulary");
    *out = (int32_t)id;
    return TV_OK;
}

static tv_status read_specials(builder *m)
{
    tv_tokenizer *t = m->t;
    TV_TRY(read_special(m, KEY "bos_token_id", t->gpt2 ? -1 : 1, &t->bos));
    TV_TRY(read_special(m, KEY "eos_token_id", t->gpt2 ? -1 : 2, &t->eos));
    TV_TRY(read_special(m, KEY "unknown_token_id", t->gpt2 ? -1 : 0, &t->unk));
    t->adds_bos = tv_gguf_bool(m->gguf, KEY "add_bos_token", !t->gpt2 || t->pre->adds_bos) && t->bos >= 0;
    t->adds_eos = tv_gguf_bool(m->gguf, KEY "add_eos_token", false) && t->eos >= 0;
    t->space_prefix = tv_gguf_bool(m->gguf, KEY "add_space_prefix", !t->gpt2);
    return TV_OK;
}

/* Marks the tokens that the file names as the end of a turn or of a message. */
static tv_status mark_named_ends(const builder *m)
{
    static const char *const keys[] = {KEY "eot_token_id", KEY "eom_token_id"};
    for (size_t i = 0; i < TV_COUNTOF(keys); i++) {
        int32_t id = -1;
        TV_TRY(read_special(m, keys[i], -1, &id));
        if (id >= 0)
            m->t->pieces[id].ends = true;
    }
    return TV_OK;
}

static void find_byte_tokens(builder *m)
{
    tv_tokenizer *t = m->t;
    int missing = 0, first = 0;
    for (int b = 0; b < 256; b++)
        t->byte_ids[b] = t->gpt2 ? tv_vocabulary_find(t, (tv_sv){(const char[]){(char)b}, 1}) : -1;
    for (int32_t id = t->count; !t->gpt2 && id-- > 0;) {
        int b = t->pieces[id].type == TV_TOKEN_BYTE ? byte_of_piece(t->pieces[id].text) : -1;
        if (b >= 0)
            t->byte_ids[b] = id;
    }
    for (int b = 255; b >= 0; b--)
        if (t->byte_ids[b] < 0) {
            missing++;
            first = b;
        }
    if (missing > 0 && t->unk < 0)
        tv_report(
            m->sink, TV_WARNING, TV_LLM_CODE(TOKENIZER_BYTES), &TV_NO_SOURCE_LOC, NULL,
            "the vocabulary has no token for %d bytes, the first is 0x%02X, and no unknown token: text loses them",
            missing, (unsigned)first);
}

/* ---- Merges ---- */

static int compare_merges(const void *a, const void *b)
{
    const tv_merge *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right < y->right ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Adds the merge "LEFT RIGHT"; `scratch` holds at least its bytes. 1: added; 0: a piece is unknown; -1: not two
 * pieces. */
static int add_merge(tv_tokenizer *t, const byte_table *table, tv_sv line, char *scratch, uint32_t rank)
{
    const char *space = line.len > 2 ? memchr(line.ptr + 1, ' ', line.len - 2) : NULL;
    if (!space)
        return -1;
    tv_sv left = {line.ptr, (size_t)(space - line.ptr)}, right = {space + 1, line.len - left.len - 1};
    size_t left_length, right_length;
    if (!decode_gpt2_bytes(table, left, scratch, &left_length) ||
        !decode_gpt2_bytes(table, right, scratch + left_length, &right_length))
        return 0;
    tv_merge merge = {.left = tv_vocabulary_find(t, (tv_sv){scratch, left_length}),
                      .right = tv_vocabulary_find(t, (tv_sv){scratch + left_length, right_length}),
                      .merged = tv_vocabulary_find(t, (tv_sv){scratch, left_length + right_length}),
                      .rank = rank};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0)
        return 0;
    t->merges[t->merge_count++] = merge;
    return 1;
}

static tv_status read_merge_list(builder *m, const tv_gguf_list *list, char *scratch)
{
    tv_tokenizer *t = m->t;
    byte_table table;
    init_byte_table(&table);
    uint64_t unknown = 0;
    for (uint64_t i = 0; i < list->count; i++) {
        int taken = add_merge(t, &table, list->strings[i], scratch, (uint32_t)i);
        if (taken < 0)
            return report_damage(m, "a merge is not two pieces with a space between them");
        unknown += taken == 0;
    }
    if (unknown > 0)
        tv_report(m->sink, TV_WARNING, TV_LLM_CODE(TOKENIZER_MERGES), &TV_NO_SOURCE_LOC, NULL,
                  "%llu of the %llu merges name pieces that are not in the vocabulary; they never apply",
                  (unsigned long long)unknown, (unsigned long long)list->count);
    qsort(t->merges, t->merge_count, sizeof *t->merges, compare_merges);
    size_t n = 0;
    for (size_t i = 0; i < t->merge_count; i++)
        if (n == 0 || t->merges[i].left != t->merges[n - 1].left || t->merges[i].right != t->merges[n - 1].right)
            t->merges[n++] = t->merges[i];
    t->merge_count = n;
    return TV_OK;
}

static tv_status read_merges(builder *m)
{
    tv_tokenizer *t = m->t;
    tv_gguf_list list;
    if (!t->gpt2)
        return TV_OK;
    if (!tv_gguf_array(m->gguf, KEY "merges", &list) || (list.kind != TV_GGUF_KIND_STRING && list.count > 0))
        return report_damage(m, "it has no list of merges");
    if (list.count > TV_TOKENS_MAX)
        return report_damage(m, "it has more than 16777216 merges");
    size_t longest = 0;
    for (uint64_t i = 0; i < list.count; i++)
        longest = list.strings[i].len > longest ? list.strings[i].len : longest;
    char *scratch = malloc(longest + 1);
    t->merges = tv_arena_alloc(&t->arena, ((size_t)list.count + 1) * sizeof *t->merges);
    tv_status status = scratch && t->merges ? read_merge_list(m, &list, scratch) : tv_fail_memory(m->sink);
    free(scratch);
    return status;
}

/* ---- Construction ---- */

/* A printable version of `text`, in `out`. */
static const char *printable(tv_sv text, char out[TV_GGUF_META_TEXT(40)])
{
    const tv_gguf_meta meta = {.kind = TV_GGUF_KIND_STRING, .value = text};
    tv_buf buf = {.data = (uint8_t *)out, .cap = TV_GGUF_META_TEXT(40), .fixed = true};
    tv_gguf_meta_print(&meta, 40, &buf);
    return tv_buf_cstr(&buf);
}

static tv_status find_pretokenizer(builder *m)
{
    tv_sv name = tv_gguf_string(m->gguf, KEY "pre", tv_sv_of("default"));
    m->t->pre = tv_pretokenizer_find(name);
    if (m->t->pre)
        return TV_OK;
    char text[TV_GGUF_META_TEXT(40)];
    tv_buf hint = {0};
    tv_buf_str(&hint, "known are ");
    tv_pretokenizer_names(&hint);
    const char *names = tv_buf_cstr_or_null(&hint);
    tv_status status =
        names ? tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(TOKENIZER_SPLIT), names,
                        "the pre-tokenizer of the model is of the unknown kind '%s'", printable(name, text))
              : tv_fail_memory(m->sink);
    tv_buf_fini(&hint);
    return status;
}

static void warn_without_pretokenizer(const builder *m)
{
    if (m->t->gpt2 && !tv_gguf_meta_find(m->gguf, KEY "pre"))
        tv_report(m->sink, TV_WARNING, TV_LLM_CODE(TOKENIZER_SPLIT), &TV_NO_SOURCE_LOC,
                  "some words may become other tokens than in training",
                  "the model does not name its pre-tokenizer (" KEY "pre); 'default' is used");
}

static tv_status reject_model(const builder *m, tv_sv model)
{
    char text[TV_GGUF_META_TEXT(40)];
    return tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(TOKENIZER_MODEL),
                   "use a model whose tokenizer is 'llama' or 'gpt2'",
                   "the model's tokenizer is of the unknown kind '%s'", printable(model, text));
}

static tv_status build_tokenizer(builder *m)
{
    tv_sv model = tv_gguf_string(m->gguf, KEY "model", (tv_sv){NULL, 0});
    m->t->gpt2 = tv_sv_eq(model, tv_sv_of("gpt2"));
    if (model.len == 0)
        return tv_fail(m->sink, TV_ERR_INPUT, TV_LLM_CODE(TOKENIZER_MODEL), NULL,
                       "the model has no tokenizer (there is no key " KEY "model)");
    if (!m->t->gpt2 && !tv_sv_is(model, "llama"))
        return reject_model(m, model);
    if (m->t->gpt2)
        TV_TRY(find_pretokenizer(m));
    TV_TRY(read_tokens(m));
    TV_TRY(read_specials(m));
    if (!tv_special_init(m->t, tv_gguf_string(m->gguf, "general.name", tv_sv_of(""))))
        return tv_fail_memory(m->sink);
    TV_TRY(mark_named_ends(m));
    TV_TRY(sort_pieces(m));
    TV_TRY(read_merges(m));
    find_byte_tokens(m);
    warn_without_pretokenizer(m);
    return TV_OK;
}

tv_status tv_tokenizer_new(const tv_gguf *gguf, const tv_diag_sink *sink, tv_tokenizer **out)
{
    builder m = {.t = calloc(1, sizeof *m.t), .gguf = gguf, .sink = sink};
    if (!m.t)
        return tv_fail_memory(sink);
    tv_status status = build_tokenizer(&m);
    if (status != TV_OK) {
        tv_tokenizer_free(m.t);
        return status;
    }
    *out = m.t;
    return TV_OK;
}

void tv_tokenizer_free(tv_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    tv_arena_fini(&tokenizer->arena);
    free(tokenizer);
}

/* ---- Decoding ---- */

/* Decodes a llama piece; `drop` omits a space at its start. */
static void decode_llama(tv_sv text, bool drop, tv_buf *buf)
{
    const size_t n = sizeof TV_LOWER_BLOCK - 1;
    for (size_t i = 0; i < text.len;) {
        if (text.len - i >= n && memcmp(text.ptr + i, TV_LOWER_BLOCK, n) == 0) {
            if (i > 0 || !drop)
                tv_buf_str(buf, " ");
            i += n;
        } else {
            tv_buf_append(buf, text.ptr + i++, 1);
        }
    }
}

void tv_tokenizer_decode(const tv_tokenizer *t, int32_t previous, int32_t id, tv_buf *buf)
{
    if (id < 0 || id >= t->count)
        return;
    const tv_piece *p = &t->pieces[id];
    int byte = p->type == TV_TOKEN_BYTE ? byte_of_piece(p->text) : -1;
    if (p->type == TV_TOKEN_CONTROL || p->type == TV_TOKEN_UNUSED)
        return;
    if (p->type == TV_TOKEN_UNKNOWN)
        tv_buf_str(buf, "\xEF\xBF\xBD");
    else if (byte >= 0)
        tv_buf_fill(buf, (uint8_t)byte, 1);
    else if (t->gpt2)
        tv_buf_append(buf, p->bytes.ptr, p->bytes.len);
    else
        decode_llama(p->text, t->space_prefix && (previous < 0 || previous == t->bos), buf);
}

/* ---- Properties ---- */

int32_t tv_tokenizer_size(const tv_tokenizer *tokenizer) { return tokenizer->count; }
int32_t tv_tokenizer_bos(const tv_tokenizer *tokenizer) { return tokenizer->bos; }
int32_t tv_tokenizer_eos(const tv_tokenizer *tokenizer) { return tokenizer->eos; }
int32_t tv_tokenizer_unk(const tv_tokenizer *tokenizer) { return tokenizer->unk; }
bool tv_tokenizer_adds_bos(const tv_tokenizer *tokenizer) { return tokenizer->adds_bos; }
bool tv_tokenizer_adds_eos(const tv_tokenizer *tokenizer) { return tokenizer->adds_eos; }

bool tv_tokenizer_ends(const tv_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->count && tokenizer->pieces[id].ends;
}

tv_sv tv_tokenizer_piece(const tv_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->count ? tokenizer->pieces[id].text : (tv_sv){"", 0};
}

tv_token_type tv_tokenizer_type(const tv_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->count ? (tv_token_type)tokenizer->pieces[id].type : TV_TOKEN_UNUSED;
}
