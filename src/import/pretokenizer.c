/* SPDX-License-Identifier: Apache-2.0 */
/* The matchers of pre.def. */
#include "import/pretokenizer.h"

#include "import/characters.h"

typedef enum pass_lead { LEAD_NONE, LEAD_BLANK, LEAD_SPACE } pass_lead;           /* "", " ?", "\s?" */
typedef enum pass_letters { LETTERS, LETTERS_MARKS, LETTERS_CASED } pass_letters; /* of match_words */
typedef enum pass_contraction { NO_CONTRACTION, CONTRACTION, CONTRACTION_SUFFIX } pass_contraction;

struct tv_split_pass {
    /* Length of the match at the start of the non-empty `text`. 0: none, and none starts in the first *skip bytes,
     * which the caller sets to those of one character. */
    size_t (*match)(const tv_split_pass *pass, tv_sv text, size_t *skip);
    bool (*is)(int32_t code);
    uint8_t min, max; /* characters of a run; max 0: any number */
    pass_lead lead;
    pass_letters letters;
    pass_contraction contraction;
    uint8_t digits;   /* of a word of numbers */
    const char *tail; /* characters that follow a word of punctuation */
};

static tv_sv suffix(tv_sv text, size_t at) { return (tv_sv){text.ptr + at, text.len - at}; }

/* ---- Classes of characters ---- */

static bool is_letter(int32_t code) { return tv_char_kind_of(code) == TV_CHAR_LETTER; }
static bool is_number(int32_t code) { return tv_char_kind_of(code) == TV_CHAR_NUMBER; }
static bool is_space(int32_t code) { return tv_char_kind_of(code) == TV_CHAR_SPACE; }
static bool is_punctuation(int32_t code) { return tv_char_kind_of(code) == TV_CHAR_PUNCTUATION; }
static bool is_newline(int32_t code) { return code == '\n' || code == '\r'; }
static bool is_digit(int32_t code) { return code >= '0' && code <= '9'; }
static bool is_lower(int32_t code) { return code >= 'a' && code <= 'z'; }
static bool is_upper(int32_t code) { return code >= 'A' && code <= 'Z'; }

static bool is_any_of(int32_t code, const char *chars)
{
    return code > 0 && code < 0x80 && strchr(chars, (int)code) != NULL;
}

static bool is_letter_or_mark(int32_t code)
{
    tv_char_kind kind = tv_char_kind_of(code);
    return kind == TV_CHAR_LETTER || kind == TV_CHAR_MARK;
}

static bool is_punctuation_or_symbol(int32_t code)
{
    tv_char_kind kind = tv_char_kind_of(code);
    return kind == TV_CHAR_PUNCTUATION || kind == TV_CHAR_SYMBOL;
}

static bool is_default_punctuation(int32_t code) { return is_punctuation(code) || is_any_of(code, "$+<=>^~|"); }
static bool is_falcon_punctuation(int32_t code) { return is_punctuation(code) || is_any_of(code, "$+<=>^~|`"); }

typedef struct code_range {
    int32_t first, last;
} code_range;

static bool in_ranges(const code_range *ranges, size_t count, int32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

static bool is_deepseek_letter(int32_t code)
{
    static const code_range above_ascii[] = {
        {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},
        {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x376},     {0x377, 0x377},
        {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},
        {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},     {0x531, 0x556},
        {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},
        {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},
        {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},
        {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},
        {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},
        {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},
        {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
        {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},   {0x2145, 0x2149},
        {0x214E, 0x214E},   {0x2183, 0x2183},   {0x2184, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
        {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},
        {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},
        {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3},
        {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
    };
    return is_upper(code) || is_lower(code) || (code >= 0x80 && in_ranges(above_ascii, TV_COUNTOF(above_ascii), code));
}

static bool is_deepseek_punctuation(int32_t code)
{
    static const code_range ranges[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                        {0x3001, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
    return in_ranges(ranges, TV_COUNTOF(ranges), code);
}

static bool is_deepseek_ideograph(int32_t code)
{
    static const code_range ranges[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
    return in_ranges(ranges, TV_COUNTOF(ranges), code) && !is_space(code);
}

static bool is_deepseek3_ideograph(int32_t code)
{
    static const code_range ranges[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
    return in_ranges(ranges, TV_COUNTOF(ranges), code);
}

static bool is_bloom_letter(int32_t code)
{
    static const code_range others[] = {{0x060C, 0x060C}, {0x06D4, 0x06D4}, {0x0964, 0x0964},
                                        {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};
    return !is_space(code) && !is_any_of(code, "(|.,!?)") && !in_ranges(others, TV_COUNTOF(others), code);
}

/* ---- Parts of matches ---- */

static int32_t code_at(tv_sv text, size_t at)
{
    int32_t code;
    tv_utf8_decode(suffix(text, at), &code);
    return code;
}

/* End of the characters of the class from `at` on, at most `max`, 0: all. */
static size_t end_of_run(tv_sv text, size_t at, bool (*is)(int32_t code), size_t max)
{
    for (size_t count = 0; at < text.len && (max == 0 || count < max); count++) {
        int32_t code;
        size_t n = tv_utf8_decode(suffix(text, at), &code);
        if (!is(code))
            break;
        at += n;
    }
    return at;
}

/* 's 't 'm 'd 're 've 'll; with `lower`, not 'S. */
static size_t contraction_bytes(tv_sv text, bool lower)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < TV_COUNTOF(endings); i++) {
        tv_sv head = {text.ptr, strlen(endings[i])};
        if (text.len >= head.len && (lower ? tv_sv_is(head, endings[i]) : tv_sv_is_nocase(head, endings[i])))
            return head.len;
    }
    return 0;
}

/* \s+(?!\S)|\s+: trailing white space is one word; before others, all of it except its last character, unless that is
 * all. 0: no white space. */
static size_t space_bytes(tv_sv text)
{
    size_t at = 0, last = 0;
    while (at < text.len) {
        int32_t code;
        size_t n = tv_utf8_decode(suffix(text, at), &code);
        if (!is_space(code))
            return last > 0 ? last : at;
        last = at;
        at += n;
    }
    return at;
}

/* \s*[\r\n]+: white space up to the last end of a line in it. 0: none. */
static size_t lines_bytes(tv_sv text)
{
    size_t end = end_of_run(text, 0, is_space, 0);
    while (end > 0 && !is_newline(text.ptr[end - 1]))
        end--;
    return end;
}

/* ---- Matchers ---- */

/* LEAD[class]{min,max} */
static size_t match_run(const tv_split_pass *pass, tv_sv text, size_t *skip)
{
    (void)skip;
    int32_t code;
    size_t n = tv_utf8_decode(text, &code), start = 0;
    bool leads = pass->lead == LEAD_BLANK ? code == ' ' : pass->lead == LEAD_SPACE && is_space(code);
    if (leads && n < text.len && pass->is(code_at(text, n)))
        start = n;
    size_t end = end_of_run(text, start, pass->is, pass->max);
    return end - start < pass->min ? 0 : end; /* min > 1 is used with ASCII only */
}

/* \s+$ */
static size_t match_trailing_space(const tv_split_pass *pass, tv_sv text, size_t *skip)
{
    (void)pass;
    size_t end = end_of_run(text, 0, is_space, 0);
    if (end == text.len)
        return end;
    *skip = end > 0 ? end : *skip;
    return 0;
}

static bool is_gpt2_other(int32_t code)
{
    tv_char_kind kind = tv_char_kind_of(code);
    return kind != TV_CHAR_SPACE && kind != TV_CHAR_LETTER && kind != TV_CHAR_NUMBER;
}

static bool is_other_than_marks(int32_t code) { return is_gpt2_other(code) && tv_char_kind_of(code) != TV_CHAR_MARK; }

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t match_gpt2(const tv_split_pass *pass, tv_sv text, size_t *skip)
{
    (void)pass;
    (void)skip;
    size_t n = contraction_bytes(text, true);
    if (n > 0)
        return n;
    size_t blank = text.ptr[0] == ' ' && text.len > 1;
    switch (tv_char_kind_of(code_at(text, blank))) {
    case TV_CHAR_LETTER:
        return end_of_run(text, blank, is_letter, 0);
    case TV_CHAR_NUMBER:
        return end_of_run(text, blank, is_number, 0);
    case TV_CHAR_SPACE:
        break;
    case TV_CHAR_OTHER:
    case TV_CHAR_MARK:
    case TV_CHAR_PUNCTUATION:
    case TV_CHAR_SYMBOL:
        return end_of_run(text, blank, is_gpt2_other, 0);
    }
    return space_bytes(text);
}

/* U*l+|U+l*, where U are the letters except a-z, and l those except A-Z. Letters above ASCII are both, so the capitals
 * give back characters until the rest begins with one that is both; they are scanned twice at most. */
static size_t end_of_cased_word(tv_sv text, size_t start)
{
    size_t at = start, both = start; /* `both`: end of the last letter above ASCII */
    while (at < text.len) {
        int32_t code;
        size_t n = tv_utf8_decode(suffix(text, at), &code);
        if (is_lower(code)) {
            int32_t next;
            for (; at < text.len; at += n) {
                n = tv_utf8_decode(suffix(text, at), &next);
                if (!is_letter(next) || is_upper(next))
                    break;
            }
            return at;
        }
        if (!is_letter(code))
            break;
        at += n;
        both = is_upper(code) ? both : at;
    }
    return both > start ? both : at;
}

static size_t end_of_letters(const tv_split_pass *pass, tv_sv text, size_t at)
{
    if (pass->letters == LETTERS_CASED)
        return end_of_cased_word(text, at);
    return end_of_run(text, at, pass->letters == LETTERS ? is_letter : is_letter_or_mark, 0);
}

/* CONTRACTION|[^\r\n\p{L}\p{N}]?LETTERS|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[TAIL]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t match_words(const tv_split_pass *pass, tv_sv text, size_t *skip)
{
    (void)skip;
    size_t n = pass->contraction == CONTRACTION ? contraction_bytes(text, false) : 0;
    if (n > 0)
        return n;
    int32_t code;
    n = tv_utf8_decode(text, &code);
    tv_char_kind kind = tv_char_kind_of(code);
    bool leads = !is_newline(code) && kind != TV_CHAR_LETTER && kind != TV_CHAR_NUMBER;
    bool begins = end_of_letters(pass, text, 0) > 0;
    size_t start = leads && !begins ? n : 0, end = end_of_letters(pass, text, start);
    if (end > start)
        return end + (pass->contraction == CONTRACTION_SUFFIX ? contraction_bytes(suffix(text, end), false) : 0);
    if (kind == TV_CHAR_NUMBER)
        return end_of_run(text, 0, is_number, pass->digits);
    bool (*other)(int32_t) = pass->letters == LETTERS_MARKS ? is_other_than_marks : is_gpt2_other;
    start = code == ' ';
    end = end_of_run(text, start, other, 0);
    while (end > start && end < text.len && is_any_of(text.ptr[end], pass->tail))
        end++;
    if (end > start)
        return end;
    n = lines_bytes(text);
    return n > 0 ? n : space_bytes(text);
}

/* [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t match_deepseek3(const tv_split_pass *pass, tv_sv text, size_t *skip)
{
    (void)pass;
    (void)skip;
    int32_t code;
    size_t n = tv_utf8_decode(text, &code), end;
    bool mark = is_punctuation_or_symbol(code);
    if (code > 0 && code < 0x80 && mark && n < text.len && (is_lower(text.ptr[n]) || is_upper(text.ptr[n]))) {
        for (end = n; end < text.len && (is_lower(text.ptr[end]) || is_upper(text.ptr[end])); end++)
            continue;
        return end;
    }
    size_t start = is_letter_or_mark(code) || is_newline(code) || mark ? 0 : n;
    end = end_of_run(text, start, is_letter_or_mark, 0);
    if (end > start)
        return end;
    start = code == ' ';
    end = end_of_run(text, start, is_punctuation_or_symbol, 0);
    while (end > start && end < text.len && is_newline(text.ptr[end]))
        end++;
    if (end > start)
        return end;
    n = lines_bytes(text);
    return n > 0 ? n : space_bytes(text);
}

/* ---- The table ---- */

#define GPT2_WORDS                                                                                                     \
    {                                                                                                                  \
        .match = match_gpt2                                                                                            \
    }
#define DEEPSEEK3_WORDS                                                                                                \
    {                                                                                                                  \
        .match = match_deepseek3                                                                                       \
    }
#define TRAILING_SPACE                                                                                                 \
    {                                                                                                                  \
        .match = match_trailing_space                                                                                  \
    }
#define RUNS(class, min_count, max_count, before)                                                                      \
    {                                                                                                                  \
        .match = match_run, .is = is_##class, .min = min_count, .max = max_count, .lead = LEAD_##before                \
    }
#define WORDS(kind, of_contraction, of_digits, of_tail)                                                                \
    {                                                                                                                  \
        .match = match_words, .letters = kind, .contraction = of_contraction, .digits = of_digits, .tail = of_tail     \
    }

#define TV_PRE_SPLIT(id, ...) static const tv_split_pass passes_##id[] = {__VA_ARGS__, {.match = NULL}};
#define TV_PRE_NAME(name, id, ignores_merges, adds_bos)
#include "import/pre.def"
#undef TV_PRE_SPLIT
#undef TV_PRE_NAME

static const tv_pretokenizer pretokenizers[] = {
#define TV_PRE_SPLIT(id, ...)
#define TV_PRE_NAME(name, id, ignores_merges, adds_bos) {name, passes_##id, ignores_merges, adds_bos},
#include "import/pre.def"
#undef TV_PRE_SPLIT
#undef TV_PRE_NAME
};

const tv_pretokenizer *tv_pretokenizer_find(tv_sv name)
{
    for (size_t i = 0; i < TV_COUNTOF(pretokenizers); i++)
        if (tv_sv_is(name, pretokenizers[i].name))
            return &pretokenizers[i];
    return NULL;
}

void tv_pretokenizer_names(tv_buf *buf)
{
    for (size_t i = 0; i < TV_COUNTOF(pretokenizers); i++)
        tv_buf_printf(buf, "%s%s", i > 0 ? ", " : "", pretokenizers[i].name);
}

/* Recursion is as deep as the list of passes. */
static void split(const tv_split_pass *pass, tv_sv text, void (*word)(void *user, tv_sv word), void *user)
{
    if (!pass->match) {
        word(user, text);
        return;
    }
    size_t start = 0, at = 0; /* [start, at) is between two matches */
    while (at < text.len) {
        int32_t code;
        tv_sv rest = suffix(text, at);
        size_t skip = tv_utf8_decode(rest, &code), n = pass->match(pass, rest, &skip);
        if (n == 0) {
            at += skip;
            continue;
        }
        if (at > start)
            split(pass + 1, (tv_sv){text.ptr + start, at - start}, word, user);
        split(pass + 1, (tv_sv){text.ptr + at, n}, word, user);
        start = at += n;
    }
    if (at > start)
        split(pass + 1, (tv_sv){text.ptr + start, at - start}, word, user);
}

void tv_pretokenizer_split(const tv_pretokenizer *pre, tv_sv text, void (*word)(void *user, tv_sv word), void *user)
{
    if (text.len > 0)
        split(pre->passes, text, word, user);
}
