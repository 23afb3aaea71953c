/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers: random vocabularies and texts against a brute-force implementation of the definition; pre-tokenizers
 * against words split by hand; special tokens in texts; inconsistent vocabularies. */
#include "unit.h"

#include <math.h>

#include "import/characters.h"
#include "import/pretokenizer.h"
#include "import/tokenizer.h"

#define LB "\xE2\x96\x81"

/* ---- A model in memory, built byte by byte ---- */

typedef struct model {
    tv_buf entries;
    uint64_t count;
} model;

static void append_string(tv_buf *buf, tv_sv text)
{
    tv_buf_le(buf, text.len, 8);
    tv_buf_append(buf, text.ptr, text.len);
}

static void append_key(model *m, const char *key, unsigned kind)
{
    m->count++;
    append_string(&m->entries, tv_sv_of(key));
    tv_buf_le(&m->entries, kind, 4);
}

static void append_text(model *m, const char *key, const char *value)
{
    append_key(m, key, 8);
    append_string(&m->entries, tv_sv_of(value));
}

static void append_u32(model *m, const char *key, uint32_t value)
{
    append_key(m, key, 4);
    tv_buf_le(&m->entries, value, 4);
}

static void append_bool(model *m, const char *key, bool value)
{
    append_key(m, key, 7);
    tv_buf_le(&m->entries, value, 1);
}

static void append_list(model *m, const char *key, unsigned kind, uint64_t count)
{
    append_key(m, key, 9);
    tv_buf_le(&m->entries, kind, 4);
    tv_buf_le(&m->entries, count, 8);
}

static void append_strings(model *m, const char *key, const tv_sv *values, size_t count)
{
    append_list(m, key, 8, count);
    for (size_t i = 0; i < count; i++)
        append_string(&m->entries, values[i]);
}

static void append_values(model *m, const char *key, unsigned kind, const void *values, size_t count)
{
    append_list(m, key, kind, count);
    for (size_t i = 0; i < count; i++)
        tv_buf_le(&m->entries, ((const uint32_t *)values)[i], 4);
}

static tv_status build_tokenizer(model *m, const tv_diag_sink *sink, tv_tokenizer **out)
{
    tv_buf file = {0};
    tv_gguf *gguf = NULL;
    tv_buf_str(&file, "GGUF");
    tv_buf_le(&file, 3, 4);
    tv_buf_le(&file, 0, 8);
    tv_buf_le(&file, m->count, 8);
    tv_buf_append(&file, m->entries.data, m->entries.len);
    tv_buf_fini(&m->entries);
    size_t size = file.len;
    tv_input input = {.data = (const uint8_t *)tv_buf_take(&file), .size = size};
    assert_int_equal(tv_gguf_read("unit.gguf", &input, sink, &gguf), TV_OK);
    tv_status status = tv_tokenizer_new(gguf, sink, out);
    tv_gguf_free(gguf);
    return status;
}

static tv_tokenizer *build_valid_tokenizer(model *m)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_tokenizer *t = NULL;
    if (build_tokenizer(m, &sink, &t) != TV_OK)
        fail_msg("%s", log.at[0].message);
    return t;
}

/* A vocabulary under construction. */
enum { PIECES_MAX = 1024 };
typedef struct vocabulary {
    tv_sv pieces[PIECES_MAX];
    float scores[PIECES_MAX];
    int32_t types[PIECES_MAX];
    size_t count;
    char names[PIECES_MAX][64];
} vocabulary;

static int32_t add_piece(vocabulary *v, const char *text, size_t len, float score, int32_t type)
{
    assert_true(v->count < PIECES_MAX && len <= sizeof v->names[0]);
    memcpy(v->names[v->count], text, len);
    v->pieces[v->count] = (tv_sv){v->names[v->count], len};
    v->scores[v->count] = score;
    v->types[v->count] = type;
    return (int32_t)v->count++;
}

static void add_specials(vocabulary *v, bool bytes)
{
    v->count = 0;
    add_piece(v, "<unk>", 5, 0, TV_TOKEN_UNKNOWN);
    add_piece(v, "<s>", 3, 0, TV_TOKEN_CONTROL);
    add_piece(v, "</s>", 4, 0, TV_TOKEN_CONTROL);
    for (unsigned b = 0; bytes && b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        add_piece(v, name, 6, 0, TV_TOKEN_BYTE);
    }
}

static model llama_model(const vocabulary *v)
{
    model m = {0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    append_strings(&m, "tokenizer.ggml.tokens", v->pieces, v->count);
    append_values(&m, "tokenizer.ggml.scores", 6, v->scores, v->count);
    append_values(&m, "tokenizer.ggml.token_type", 5, v->types, v->count);
    return m;
}

static void assert_ids(const tv_tokenizer *t, const char *text, size_t len, unsigned flags, const int32_t *expected,
                       size_t expected_count)
{
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(tv_tokenizer_encode(t, text, len, flags, &ids, &count), TV_OK);
    if (count != expected_count)
        fail_msg("'%.*s': %zu tokens, %zu expected", (int)len, text, count, expected_count);
    for (size_t i = 0; i < count; i++)
        if (ids[i] != expected[i])
            fail_msg("'%.*s': token %zu is %d, %d expected", (int)len, text, i, ids[i], expected[i]);
    free(ids);
}

static void assert_text(const tv_tokenizer *t, const int32_t *ids, size_t count, const char *expected, size_t len)
{
    tv_buf buf = {0};
    for (size_t i = 0; i < count; i++)
        tv_tokenizer_decode(t, i > 0 ? ids[i - 1] : -1, ids[i], &buf);
    assert_int_equal(buf.len, len);
    assert_memory_equal(tv_buf_cstr(&buf), expected, len);
    tv_buf_fini(&buf);
}

/* ---- Reference: repeatedly merges the best pair ---- */

typedef struct ref_symbol {
    const char *at;
    size_t len;
    int32_t id;
} ref_symbol;

static int32_t first_match(const vocabulary *v, const char *at, size_t len)
{
    for (size_t i = 0; i < v->count; i++)
        if ((v->types[i] == TV_TOKEN_NORMAL || v->types[i] == TV_TOKEN_USER_DEFINED) && v->pieces[i].len == len &&
            memcmp(v->pieces[i].ptr, at, len) == 0)
            return (int32_t)i;
    return -1;
}

static size_t ref_merge(const vocabulary *v, ref_symbol *symbols, size_t n)
{
    for (;;) {
        size_t best = n;
        int32_t best_id = -1;
        for (size_t i = 0; i + 1 < n; i++) {
            int32_t id = first_match(v, symbols[i].at, symbols[i].len + symbols[i + 1].len);
            float score = id < 0 || isnan(v->scores[id]) ? -INFINITY : v->scores[id];
            float best_score = best_id < 0 || isnan(v->scores[best_id]) ? -INFINITY : v->scores[best_id];
            if (id >= 0 && (best == n || score > best_score)) {
                best = i;
                best_id = id;
            }
        }
        if (best == n)
            return n;
        symbols[best].len += symbols[best + 1].len;
        symbols[best].id = best_id;
        memmove(&symbols[best + 1], &symbols[best + 2], (n - best - 2) * sizeof *symbols);
        n--;
    }
}

static size_t ref_encode_llama(const vocabulary *v, bool bytes, const char *text, size_t len, int32_t *ids)
{
    char escaped[1024] = LB;
    ref_symbol symbols[1024];
    size_t size = len > 0 ? 3 : 0, n = 0, count = 0;
    for (size_t i = 0; i < len; i++) {
        const char *as = text[i] == ' ' ? LB : text + i;
        size_t as_len = text[i] == ' ' ? 3 : 1;
        memcpy(escaped + size, as, as_len);
        size += as_len;
    }
    for (size_t at = 0; at < size;) {
        uint8_t c = (uint8_t)escaped[at];
        size_t k = c < 0xC0 || c == 0xFF ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4; /* sufficient for the alphabet */
        symbols[n++] = (ref_symbol){escaped + at, k, first_match(v, escaped + at, k)};
        at += k;
    }
    n = ref_merge(v, symbols, n);
    for (size_t i = 0; i < n; i++) {
        if (symbols[i].id >= 0)
            ids[count++] = symbols[i].id;
        else if (!bytes)
            ids[count++] = 0;
        else
            for (size_t k = 0; k < symbols[i].len; k++)
                ids[count++] = 3 + (uint8_t)symbols[i].at[k];
    }
    return count;
}

static const char *const alphabet[] = {"a", "b", "c", " ", LB, "\xC3\xA9", "\xF0\x9F\x98\x80", "\xFF", "\n"};

static size_t random_text(unit_rng *rng, char *out, size_t symbols)
{
    size_t len = 0;
    for (size_t i = 0; i < symbols; i++) {
        const char *c = alphabet[unit_below(rng, unit_below(rng, 3) ? 5 : 9)];
        memcpy(out + len, c, strlen(c));
        len += strlen(c);
    }
    return len;
}

static void random_vocabulary(unit_rng *rng, vocabulary *v, bool bytes)
{
    add_specials(v, bytes);
    size_t pieces = unit_below(rng, 200);
    add_piece(v, LB, 3, -1, TV_TOKEN_NORMAL); /* required in every SentencePiece vocabulary */
    for (size_t i = 0; i < pieces; i++) {
        char text[64];
        size_t len = random_text(rng, text, unit_below(rng, 6));
        float score = -(float)unit_below(rng, 20); /* many ties */
        if (unit_below(rng, 20) == 0)
            score = unit_below(rng, 2) ? NAN : INFINITY;
        add_piece(v, text, len, score, unit_below(rng, 10) ? TV_TOKEN_NORMAL : (int32_t)unit_below(rng, 9) - 1);
        if (v->types[v->count - 1] < 1 || v->types[v->count - 1] > 6)
            v->types[v->count - 1] = TV_TOKEN_NORMAL;        /* as they are read */
        if (v->types[v->count - 1] == TV_TOKEN_USER_DEFINED) /* found before; test_special_tokens has them */
            v->types[v->count - 1] = TV_TOKEN_NORMAL;
        if (v->types[v->count - 1] == TV_TOKEN_UNKNOWN)
            v->types[v->count - 1] = TV_TOKEN_UNUSED;
    }
}

static void test_llama_random(void **state)
{
    (void)state;
    static vocabulary v;
    unit_rng rng = {1};
    for (unsigned round = 0; round < 300; round++) {
        bool bytes = round % 2;
        random_vocabulary(&rng, &v, bytes);
        model m = llama_model(&v);
        tv_tokenizer *t = build_valid_tokenizer(&m);
        for (unsigned k = 0; k < 10; k++) {
            char text[256];
            int32_t ids[2048];
            size_t len = random_text(&rng, text, unit_below(&rng, 40));
            size_t count = ref_encode_llama(&v, bytes, text, len, ids);
            assert_ids(t, text, len, false, ids, count);
            if (bytes && !memmem(text, len, LB, 3))
                assert_text(t, ids, count, text, len);
        }
        tv_tokenizer_free(t);
    }
}

/* Hand-written cases: scores decide, then the leftmost; BOS; space prefix; bytes. */
static void test_llama_by_hand(void **state)
{
    (void)state;
    static vocabulary v;
    add_specials(&v, true);
    enum { BYTES = 3 };
    int32_t space = add_piece(&v, LB, 3, -10, 1), a = add_piece(&v, "a", 1, -10, 1), b = add_piece(&v, "b", 1, -10, 1);
    int32_t ab = add_piece(&v, "ab", 2, -2, 1), ba = add_piece(&v, "ba", 2, -1, 1),
            word = add_piece(&v, LB "ab", 5, -3, 1), aa = add_piece(&v, "aa", 2, -4, 1);
    model m = llama_model(&v);
    tv_tokenizer *t = build_valid_tokenizer(&m);
    assert_int_equal(tv_tokenizer_bos(t), 1);
    assert_int_equal(tv_tokenizer_eos(t), 2);
    assert_int_equal(tv_tokenizer_unk(t), 0);
    assert_true(tv_tokenizer_adds_bos(t));
    assert_int_equal(tv_tokenizer_size(t), (int32_t)v.count);
    assert_ids(t, "ab", 2, true, (int32_t[]){1, word}, 2);
    assert_ids(t, "aba", 3, false, (int32_t[]){space, a, ba}, 3); /* ba has the better score */
    assert_ids(t, "aaa", 3, false, (int32_t[]){space, aa, a}, 3); /* the leftmost on ties */
    assert_ids(t, "ab ab", 5, false, (int32_t[]){word, word}, 2);
    assert_ids(t, "", 0, true, (int32_t[]){1}, 1);
    assert_ids(t, "", 0, false, NULL, 0);
    assert_ids(t, "\xC3\xA9", 2, false, (int32_t[]){space, BYTES + 0xC3, BYTES + 0xA9}, 3);
    assert_ids(t, "<s>", 3, false, (int32_t[]){space, BYTES + '<', BYTES + 's', BYTES + '>'},
               4); /* control tokens are never produced */
    assert_ids(t, "<0x41>", 6, false,
               (int32_t[]){space, BYTES + '<', BYTES + '0', BYTES + 'x', BYTES + '4', BYTES + '1', BYTES + '>'}, 7);
    assert_text(t, (int32_t[]){1, word, word, b}, 4, "ab abb", 6);
    assert_text(t, (int32_t[]){word, ab, 2}, 3, "abab", 4);
    assert_text(t, (int32_t[]){ab, word}, 2, "ab ab", 5);
    assert_text(t, (int32_t[]){0, -1, (int32_t)v.count, 3 + 'x'}, 4, "\xEF\xBF\xBDx", 4);
    tv_tokenizer_free(t);

    m = llama_model(&v);
    append_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    append_bool(&m, "tokenizer.ggml.add_bos_token", false);
    append_u32(&m, "tokenizer.ggml.eos_token_id", UINT32_MAX); /* none */
    t = build_valid_tokenizer(&m);
    assert_ids(t, "ab ab", 5, false, (int32_t[]){ab, word}, 2);
    assert_text(t, (int32_t[]){word, word}, 2, " ab ab", 6);
    assert_false(tv_tokenizer_adds_bos(t));
    assert_int_equal(tv_tokenizer_eos(t), -1);
    tv_tokenizer_free(t);
}

/* ---- gpt2 ---- */

/* GPT-2's characters for bytes: printable ones represent themselves, the others are 256, 257, … */
static size_t gpt2_name(const char *bytes, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned b = (uint8_t)bytes[i], code = b, extra = 0;
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
        for (unsigned k = 0; !printable && k < b; k++)
            extra += !((k >= '!' && k <= '~') || (k >= 0xA1 && k <= 0xAC) || (k >= 0xAE && k <= 0xFF));
        if (!printable)
            code = 256 + extra;
        if (code >= 0x80)
            out[n++] = (char)(0xC0 | code >> 6);
        out[n++] = (char)(code < 0x80 ? code : 0x80 | (code & 0x3F));
    }
    return n;
}

typedef struct merges {
    int32_t left[PIECES_MAX], right[PIECES_MAX], merged[PIECES_MAX];
    tv_sv lines[PIECES_MAX];
    char names[PIECES_MAX][160];
    size_t count;
} merges;

static void add_merge(merges *g, const vocabulary *v, int32_t left, int32_t right, int32_t merged)
{
    size_t i = g->count++;
    int n =
        snprintf(g->names[i], sizeof g->names[i], "%.*s %.*s", TV_SV_ARG(v->pieces[left]), TV_SV_ARG(v->pieces[right]));
    g->left[i] = left;
    g->right[i] = right;
    g->merged[i] = merged;
    g->lines[i] = (tv_sv){g->names[i], (size_t)n};
}

static model gpt2_model(const vocabulary *v, const merges *g)
{
    model m = {0};
    append_text(&m, "tokenizer.ggml.model", "gpt2");
    append_text(&m, "tokenizer.ggml.pre", "gpt-2");
    append_strings(&m, "tokenizer.ggml.tokens", v->pieces, v->count);
    append_strings(&m, "tokenizer.ggml.merges", g->lines, g->count);
    return m;
}

static void add_bytes(vocabulary *v)
{
    v->count = 0;
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b, name[4];
        add_piece(v, name, gpt2_name(&byte, 1, name), 0, 1);
    }
}

static int32_t piece_of(const vocabulary *v, tv_sv text)
{
    for (size_t i = 0; i < v->count; i++)
        if (tv_sv_eq(v->pieces[i], text))
            return (int32_t)i;
    return -1;
}

/* Merges of existing pieces, as training produces them. */
static void random_merges(unit_rng *rng, vocabulary *v, merges *g, size_t count)
{
    static const char letters[] = "abc \n";
    g->count = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t symbols[2];
        for (unsigned k = 0; k < 2; k++)
            symbols[k] = v->count > 256 && unit_below(rng, 2) ? (int32_t)(256 + unit_below(rng, v->count - 256))
                                                              : (int32_t)letters[unit_below(rng, 5)];
        tv_sv a = v->pieces[symbols[0]], b = v->pieces[symbols[1]];
        char merged[64];
        if (a.len + b.len > 24)
            continue;
        memcpy(merged, a.ptr, a.len);
        memcpy(merged + a.len, b.ptr, b.len);
        int32_t id = piece_of(v, (tv_sv){merged, a.len + b.len});
        if (id < 0)
            id = add_piece(v, merged, a.len + b.len, 0, 1);
        add_merge(g, v, symbols[0], symbols[1], id);
    }
}

/* GPT-2's loop: merges the pair of the lowest rank everywhere in the word, from the left; with `all` false only its
 * first occurrence. */
static size_t ref_encode_gpt2(const merges *g, bool all, const char *word, size_t len, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        ids[n++] = (uint8_t)word[i];
    for (;;) {
        size_t rank = g->count;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t k = 0; k < rank; k++)
                if (g->left[k] == ids[i] && g->right[k] == ids[i + 1])
                    rank = k;
        if (rank == g->count)
            return n;
        size_t kept = 0;
        bool done = false;
        for (size_t i = 0; i < n; i++) {
            bool here = i + 1 < n && ids[i] == g->left[rank] && ids[i + 1] == g->right[rank] && (all || !done);
            ids[kept++] = here ? g->merged[rank] : ids[i];
            i += here;
            done |= here;
        }
        n = kept;
    }
}

typedef struct words {
    tv_sv at[256];
    size_t count;
} words;

static void add_word(void *user, tv_sv word)
{
    words *w = user;
    assert_true(w->count < TV_COUNTOF(w->at) && word.len > 0);
    w->at[w->count++] = word;
}

static words split_words(const char *pre, tv_sv text)
{
    words w = {.count = 0};
    const tv_pretokenizer *found = tv_pretokenizer_find(tv_sv_of(pre));
    assert_non_null(found);
    tv_pretokenizer_split(found, text, add_word, &w);
    return w;
}

static void test_gpt2_random(void **state)
{
    (void)state;
    static vocabulary v;
    static merges g;
    unit_rng rng = {2};
    for (unsigned round = 0; round < 200; round++) {
        bool shuffled = round % 2; /* an order of merges that no training produces */
        add_bytes(&v);
        random_merges(&rng, &v, &g, unit_below(&rng, 120));
        for (size_t i = g.count; shuffled && i > 1; i--) {
            size_t k = unit_below(&rng, i);
            tv_sv line = g.lines[i - 1];
            int32_t symbols[] = {g.left[i - 1], g.right[i - 1], g.merged[i - 1]};
            g.lines[i - 1] = g.lines[k], g.left[i - 1] = g.left[k], g.right[i - 1] = g.right[k],
                        g.merged[i - 1] = g.merged[k];
            g.lines[k] = line, g.left[k] = symbols[0], g.right[k] = symbols[1], g.merged[k] = symbols[2];
        }
        model m = gpt2_model(&v, &g);
        tv_tokenizer *t = build_valid_tokenizer(&m);
        for (unsigned k = 0; k < 20; k++) {
            char text[64];
            int32_t ids[128];
            size_t len = 0, count = 0, n = unit_below(&rng, 40);
            for (size_t i = 0; i < n; i++)
                text[len++] = "abc \n"[unit_below(&rng, 5)];
            words w = split_words("gpt-2", (tv_sv){text, len});
            for (size_t i = 0; i < w.count; i++)
                count += ref_encode_gpt2(&g, !shuffled, w.at[i].ptr, w.at[i].len, ids + count);
            assert_ids(t, text, len, true, ids, count);
            assert_text(t, ids, count, text, len);
        }
        tv_tokenizer_free(t);
    }
}

static void test_gpt2_by_hand(void **state)
{
    (void)state;
    static vocabulary v;
    static merges g;
    add_bytes(&v);
    assert_memory_equal(v.pieces[' '].ptr, "\xC4\xA0", 2);  /* U+0120 */
    assert_memory_equal(v.pieces['\n'].ptr, "\xC4\x8A", 2); /* U+010A */
    assert_memory_equal(v.pieces[0xAD].ptr, "\xC5\x83", 2); /* U+0143, the last */
    g.count = 0;
    int32_t th = add_piece(&v, "th", 2, 0, 1), the = add_piece(&v, "the", 3, 0, 1),
            s_the = add_piece(&v, "\xC4\xA0the", 5, 0, 1);
    int32_t end = add_piece(&v, "<|endoftext|>", 13, 0, TV_TOKEN_CONTROL);
    add_merge(&g, &v, 't', 'h', th);
    add_merge(&g, &v, th, 'e', the);
    add_merge(&g, &v, ' ', the, s_the);
    model m = gpt2_model(&v, &g);
    append_values(&m, "tokenizer.ggml.token_type", 5, v.types, v.count);
    append_u32(&m, "tokenizer.ggml.bos_token_id", (uint32_t)end);
    tv_tokenizer *t = build_valid_tokenizer(&m);
    assert_ids(t, "the the  the", 12, true, (int32_t[]){end, the, s_the, ' ', s_the}, 5);
    assert_ids(t, "\xFF\xC3", 2, false, (int32_t[]){0xFF, 0xC3}, 2);
    assert_ids(t, "<|endoftext|>", 3, false, (int32_t[]){'<', '|', 'e'}, 3);
    assert_text(t, (int32_t[]){end, s_the, '\n', 0}, 4, " the\n\0", 6);
    assert_false(tv_tokenizer_adds_bos(t));
    tv_tokenizer_free(t);
}

/* Words separated by '|', split by hand according to the regular expressions. */
static const struct {
    const char *pre, *words;
} splits[] = {
    {"gpt-2", "Hello| world|!"},
    {"gpt-2", "I|'m| you|'re| he|'s| we|'ve| they|'ll| I|'d| don|'t"},
    {"gpt-2", "'|M| I|'|M"},
    {"gpt-2", "''|s| '|s"}, /* two quotes are one word; so is " '" after a space */
    {"gpt-2", "a|  | b|\n\n|\n|c|\n|d|   "},
    {"gpt-2", "x|\t|y| |\t|z"},
    {"gpt-2", "abc|123|def| 45|,|6"},
    {"gpt-2", " ...|a| ?!|9"},
    {"gpt-2", "caf\xC3\xA9| na\xC3\xAFve|\xE2\x80\x94|\xE6\x97\xA5\xE6\x9C\xAC|\xE2\x85\xA7\xC2\xB2"}, /* dash; kanji;
                                             Roman eight and superscript two, both \p{N} */
    {"gpt-2", "a|\xC2\xA0|b| \xFF\xC3|c"},
    {"gpt-2", "e|\xCC\x81|\xC2\xB3"}, /* a combining accent is a mark, not a letter */
    {"starcoder", "v|1|2|3| x| |4"},
    {"llama-bpe", "Hello| world|!|123|45| I|'M| you|'re|\n\n| x|!!\n\n|y|$z| \n|  | a"},
    {"qwen2", "a|1|2| |3|(b|)"},
    {"qwen2", "e|\xCC\x81x"},
    {"qwen35", "e\xCC\x81x| y"},
    {"seed-coder", "a|!!|\n\n|b"},
    {"tekken", "Hello|World| XMLHttp| i|Phone|1|2|./\n|x"},
    {"gpt-4o", "Hello|World| don't| I'LL|123|4"},
    {"falcon", "a|..|b|123|45"},
    {"default", "a|..|b|123|45|==|c"},
    {"deepseek-llm", "ab| cd|,|\n|12345|\xE4\xB8\xAD\xE6\x96\x87|   "},
    {"deepseek-coder", "ab| cd|,|\n|1|2|\xE4\xB8\xAD\xE6\x96\x87| ."},
    {"deepseek-v3", "Hello| world|!!\n|.abc|123|45|\xE4\xB8\xAD\xE6\x96\x87|x"},
    {"bloom", "Hello| world|,| x1-2|...| y"},
    {"viking", "Hello| x|1|2|."},
};

static void test_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(splits); i++) {
        char text[128];
        size_t len = 0, at = 0;
        for (const char *p = splits[i].words; *p; p++)
            if (*p != '|')
                text[len++] = *p;
        words w = split_words(splits[i].pre, (tv_sv){text, len});
        for (const char *p = splits[i].words; *p; at++) {
            size_t want = strcspn(p, "|");
            if (at >= w.count || w.at[at].len != want)
                fail_msg("%s, '%s': word %zu", splits[i].pre, splits[i].words, at);
            p += want + (p[want] == '|');
        }
        assert_int_equal(at, w.count);
    }
    assert_int_equal(split_words("gpt-2", (tv_sv){"", 0}).count, 0);
    assert_null(tv_pretokenizer_find(tv_sv_of("GPT-2")));
}

/* Arbitrary bytes: every pre-tokenizer cuts a text into words whose concatenation is the text. */
static void test_split_covers_text(void **state)
{
    (void)state;
    tv_buf names = {0};
    tv_pretokenizer_names(&names);
    unit_rng rng = {3};
    for (char *name = strtok((char *)names.data, ", "); name; name = strtok(NULL, ", "))
        for (unsigned round = 0; round < 50; round++) {
            char text[100];
            size_t len = unit_below(&rng, sizeof text), at = 0;
            for (size_t i = 0; i < len; i++)
                text[i] =
                    unit_below(&rng, 2) ? (char)unit_below(&rng, 256) : " \n'sA1.\xE2\x80\xA8"[unit_below(&rng, 10)];
            words w = split_words(name, (tv_sv){text, len});
            for (size_t i = 0; i < w.count; i++) {
                assert_ptr_equal(w.at[i].ptr, text + at);
                at += w.at[i].len;
            }
            assert_int_equal(at, len);
        }
    tv_buf_fini(&names);
}

/* User-defined tokens are found in texts, control tokens only on request; the longest first; each part between them
 * begins a text. */
static void test_special_tokens(void **state)
{
    (void)state;
    static vocabulary v;
    add_specials(&v, true);
    enum { BYTES = 3 };
    int32_t space = add_piece(&v, LB, 3, -10, 1), a = add_piece(&v, "a", 1, -10, 1);
    int32_t user = add_piece(&v, "aa", 2, 0, TV_TOKEN_USER_DEFINED), longer = add_piece(&v, "aab", 3, 0, 4);
    int32_t end = add_piece(&v, "<end_of_turn>", 13, 0, TV_TOKEN_NORMAL); /* control by its name */
    int32_t other = add_piece(&v, "ba", 2, 0, TV_TOKEN_USER_DEFINED);
    model m = llama_model(&v);
    append_bool(&m, "tokenizer.ggml.add_eos_token", true);
    tv_tokenizer *t = build_valid_tokenizer(&m);
    assert_true(tv_tokenizer_adds_eos(t));
    assert_true(tv_tokenizer_ends(t, end) && tv_tokenizer_ends(t, 2) && !tv_tokenizer_ends(t, a));
    assert_false(tv_tokenizer_ends(t, -1) || tv_tokenizer_ends(t, tv_tokenizer_size(t)));
    assert_int_equal(tv_tokenizer_type(t, end), TV_TOKEN_CONTROL);
    assert_ids(t, "aaa", 3, 0, (int32_t[]){user, space, a}, 3);
    assert_ids(t, "aaba", 4, 0, (int32_t[]){longer, space, a}, 3);
    assert_ids(t, "aba", 3, TV_ENCODE_BOS | TV_ENCODE_EOS, (int32_t[]){1, space, a, other, 2}, 5);
    assert_ids(t, "a<s>a", 5, TV_ENCODE_SPECIAL, (int32_t[]){space, a, 1, space, a}, 5);
    assert_ids(t, "<s>", 3, 0, (int32_t[]){space, BYTES + '<', BYTES + 's', BYTES + '>'}, 4);
    assert_ids(t, "<end_of_turn><unk>", 18, TV_ENCODE_SPECIAL, (int32_t[]){end, 0}, 2);
    assert_ids(t, "<s> a", 5, TV_ENCODE_SPECIAL, (int32_t[]){1, space, space, a}, 4);
    tv_tokenizer_free(t);

    m = llama_model(&v);
    append_text(&m, "general.name", "My Phi-3 mini");
    t = build_valid_tokenizer(&m);
    assert_ids(t, "<end_of_turn> \n a", 17, TV_ENCODE_SPECIAL, (int32_t[]){end, space, a}, 3);
    assert_ids(t, "<s> a", 5, TV_ENCODE_SPECIAL, (int32_t[]){1, space, space, a}, 4);
    tv_tokenizer_free(t);
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len, taken;
        int32_t code;
    } rows[] = {
        {"A\x80", 2, 1, 'A'},
        {"\x7F", 1, 1, 0x7F},
        {"\xC2\x80", 2, 2, 0x80},
        {"\xDF\xBF", 2, 2, 0x7FF},
        {"\xE0\xA0\x80", 3, 3, 0x800},
        {"\xEF\xBF\xBF", 3, 3, 0xFFFF},
        {"\xF0\x90\x80\x80", 4, 4, 0x10000},
        {"\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
        {"\xC1\xBF", 2, 1, -1},
        {"\xE0\x9F\xBF", 3, 1, -1},
        {"\xF0\x8F\xBF\xBF", 4, 1, -1},
        {"\xF4\x90\x80\x80", 4, 1, -1}, /* overlong, too large */
        {"\xED\x9F\xBF", 3, 3, 0xD7FF},
        {"\xED\xA0\x80", 3, 1, -1},
        {"\xED\xBF\xBF", 3, 1, -1},
        {"\xEE\x80\x80", 3, 3, 0xE000}, /* surrogates */
        {"\x80", 1, 1, -1},
        {"\xE2\x96", 2, 1, -1},
        {"\xE2\x96"
         "a",
         3, 1, -1},
        {"\xFF", 1, 1, -1},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        int32_t code = 0;
        size_t taken = tv_utf8_decode((tv_sv){rows[i].bytes, rows[i].len}, &code);
        if (taken != rows[i].taken || code != rows[i].code)
            fail_msg("row %zu: %zu bytes, code %d", i, taken, code);
    }
}

/* ---- Invalid vocabularies ---- */

static void check_rejected(model *m, const char *code)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_tokenizer *t = NULL;
    assert_int_equal(build_tokenizer(m, &sink, &t), TV_ERR_INPUT);
    assert_null(t);
    assert_string_equal(log.at[0].code, code);
}

static void test_rejected_vocabularies(void **state)
{
    (void)state;
    static const tv_sv three[] = {{"a", 1}, {"b", 1}, {"ab", 2}}, bad_merges[] = {{"ab", 2}}, more_bad[] = {{"a ", 2}},
                       good[] = {{"a b", 3}};
    static const float scores[] = {0, 0, 0};
    model m = {0};
    check_rejected(&m, "TV-L020");
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "be\x1Brt");
    check_rejected(&m, "TV-L020");
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    check_rejected(&m, "TV-L021"); /* no tokens */
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    check_rejected(&m, "TV-L021"); /* no scores */
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    append_values(&m, "tokenizer.ggml.scores", 6, scores, 2);
    check_rejected(&m, "TV-L021");
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    append_values(&m, "tokenizer.ggml.scores", 6, scores, 3);
    append_u32(&m, "tokenizer.ggml.bos_token_id", 3);
    check_rejected(&m, "TV-L021");
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "llama");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    append_values(&m, "tokenizer.ggml.scores", 6, scores, 3);
    append_values(&m, "tokenizer.ggml.token_type", 5, scores, 2);
    check_rejected(&m, "TV-L021");
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "gpt2");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    check_rejected(&m, "TV-L021"); /* no merges */
    for (unsigned i = 0; i < 2; i++) {
        m = (model){0};
        append_text(&m, "tokenizer.ggml.model", "gpt2");
        append_strings(&m, "tokenizer.ggml.tokens", three, 3);
        append_strings(&m, "tokenizer.ggml.merges", i ? more_bad : bad_merges, 1);
        check_rejected(&m, "TV-L021");
    }
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "gpt2");
    append_text(&m, "tokenizer.ggml.pre", "no-such");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    append_strings(&m, "tokenizer.ggml.merges", good, 1);
    check_rejected(&m, "TV-L022");
    /* Accepted with two warnings, for the bytes and for the pre-tokenizer. */
    m = (model){0};
    append_text(&m, "tokenizer.ggml.model", "gpt2");
    append_strings(&m, "tokenizer.ggml.tokens", three, 3);
    append_strings(&m, "tokenizer.ggml.merges", good, 1);
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_tokenizer *t = NULL;
    assert_int_equal(build_tokenizer(&m, &sink, &t), TV_OK);
    assert_int_equal(log.count, 2);
    assert_string_equal(log.at[0].code, "TV-L023");
    assert_non_null(strstr(log.at[0].message, "254 bytes, the first is 0x00"));
    assert_string_equal(log.at[1].code, "TV-L022");
    assert_ids(t, "xabx", 4, false, (int32_t[]){2}, 1);
    tv_tokenizer_free(t);
}

/* Merges of unknown pieces never apply; a merge that recreates its own operand terminates. */
static void test_unusual_merges(void **state)
{
    (void)state;
    static const tv_sv lines[] = {{"a b", 3}, {"a b", 3}, {"x y", 3}, {"\xE6\x97\xA5 a", 5}, {"ab a", 4}};
    static vocabulary v;
    add_bytes(&v);
    int32_t ab = add_piece(&v, "ab", 2, 0, 1);
    add_piece(&v, "ab", 2, 0, 1); /* equal pieces: the first one counts */
    add_piece(&v, "", 0, 0, 1);
    add_piece(&v, "\xE6\x97\xA5", 3, 0, 1); /* not one of GPT-2's characters */
    model m = {0};
    append_text(&m, "tokenizer.ggml.model", "gpt2");
    append_text(&m, "tokenizer.ggml.pre", "gpt-2");
    append_strings(&m, "tokenizer.ggml.tokens", v.pieces, v.count);
    append_strings(&m, "tokenizer.ggml.merges", lines, TV_COUNTOF(lines));
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_tokenizer *t = NULL;
    assert_int_equal(build_tokenizer(&m, &sink, &t), TV_OK);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].code, "TV-L024");
    assert_ids(t, "abaxy", 5, false, (int32_t[]){ab, 'a', 'x', 'y'}, 4);
    assert_text(t, (int32_t[]){ab + 3, ab}, 2,
                "\xE6\x97\xA5"
                "ab",
                5);
    tv_tokenizer_free(t);
}

/* A megabyte of one letter, which would take hours in quadratic time: 2^k letters are pieces. */
static void test_long_text(void **state)
{
    (void)state;
    static vocabulary v;
    enum { SIZE = 1 << 20 };
    add_specials(&v, false);
    add_piece(&v, LB, 3, 0, 1);
    char run[64];
    memset(run, 'a', sizeof run);
    for (size_t n = 1; n <= 64; n *= 2)
        add_piece(&v, run, n, (float)n, 1);
    model m = llama_model(&v);
    tv_tokenizer *t = build_valid_tokenizer(&m);
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'a', SIZE);
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(tv_tokenizer_encode(t, text, SIZE, false, &ids, &count), TV_OK);
    assert_int_equal(count, 1 + SIZE / 64);
    assert_int_equal(ids[1], (int32_t)v.count - 1);
    free(ids);
    free(text);
    tv_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_random),
        cmocka_unit_test(test_llama_by_hand),
        cmocka_unit_test(test_gpt2_random),
        cmocka_unit_test(test_gpt2_by_hand),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_covers_text),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_rejected_vocabularies),
        cmocka_unit_test(test_unusual_merges),
        cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
