/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the JSON syntax of a queue, in words: what is wrong, where, and the way out. The JSON reader's own message
 * is the last resort. */
#include <ctype.h>

#include "queue/reader.h"

uint64_t cmdq_string_start(const reader *r, uint64_t end)
{
    uint64_t at = end - 1, slashes;
    do {
        for (at--; at && r->data[at] != '"'; at--)
            continue;
        for (slashes = 0; slashes < at && r->data[at - 1 - slashes] == '\\'; slashes++)
            continue;
    } while (slashes % 2);
    return at;
}

/* A message, its hint (or NULL) and its byte. */
typedef struct syntax_error {
    const char *message, *hint;
    uint64_t at;
} syntax_error;

static bool has_text(const reader *r, uint64_t at, const char *text)
{
    size_t n = strlen(text);
    return at <= r->size && n <= r->size - at && memcmp(r->data + at, text, n) == 0;
}

/* The first byte after spaces from `at` on. */
static uint64_t skip_spaces(const reader *r, uint64_t at)
{
    while (at < r->size && isspace(r->data[at]))
        at++;
    return at;
}

/* Words and characters of other languages. */
static bool explain_word(const reader *r, syntax_error *e)
{
    static const struct {
        const char *word, *message, *hint;
    } words[] = {
        {"NaN", "JSON has no NaN", "give a finite number; in Python, json.dumps(allow_nan=False) finds it"},
        {"nan", "JSON has no NaN", "give a finite number"},
        {"Infinity", "JSON has no infinity", "give a finite number; in Python, json.dumps(allow_nan=False) finds it"},
        {"-Infinity", "JSON has no infinity", "give a finite number; in Python, json.dumps(allow_nan=False) finds it"},
        {"inf", "JSON has no infinity", "give a finite number"},
        {"True", "JSON writes true in lower case", "write the file with a JSON library"},
        {"False", "JSON writes false in lower case", "write the file with a JSON library"},
        {"None", "JSON writes null for None", "write the file with a JSON library"},
        {"'", "strings of JSON are in double quotation marks", "replace the single ones by \""},
        {"/", "JSON has no comments", "put notes into 'debug'"},
        {"#", "JSON has no comments", "put notes into 'debug'"},
        {"\xE2\x80\x9C", "strings of JSON are in straight quotation marks", "replace the typographic ones by \""},
        {"\xE2\x80\x9D", "strings of JSON are in straight quotation marks", "replace the typographic ones by \""},
        {"+", "numbers of JSON begin with a digit or '-'", NULL},
        {".", "numbers of JSON begin with a digit or '-'", "write 0 before the point"},
        {";", "members and elements of JSON are separated by ','", "replace the ; by ,"},
        {"=", "a key and its value are separated by ':'", "replace the = by :"},
    };
    for (unsigned i = 0; i < TV_COUNTOF(words); i++)
        if (has_text(r, e->at, words[i].word)) {
            e->message = words[i].message;
            e->hint = words[i].hint;
            return true;
        }
    return false;
}

static bool explain_trailing_comma(const reader *r, syntax_error *e)
{
    if (!has_text(r, e->at, "}") && !has_text(r, e->at, "]"))
        return false;
    uint64_t before = e->at;
    while (before && isspace(r->data[before - 1]))
        before--;
    if (!before || r->data[before - 1] != ',')
        return false;
    *e = (syntax_error){"there is a comma after the last element", "remove the comma", before - 1};
    return true;
}

/* Names without quotation marks. */
static bool explain_name(const reader *r, syntax_error *e)
{
    uint64_t end = e->at;
    while (end < r->size && (isalnum(r->data[end]) || r->data[end] == '_'))
        end++;
    if (e->at >= r->size || (!isalpha(r->data[e->at]) && r->data[e->at] != '_'))
        return false;
    if (e->at && r->data[e->at - 1] == '0')
        e->message = "numbers of JSON are decimal";
    else if (has_text(r, skip_spaces(r, end), ":"))
        e->message = "keys of JSON are in double quotation marks";
    else {
        e->message = "this is no value of JSON";
        e->hint = "values are objects, lists, strings, numbers, true, false and null";
    }
    return true;
}

/* Moves e->at, which is in or at the end of a token, to the token's first byte. */
static void find_token_start(const reader *r, syntax_error *e)
{
    if (has_text(r, e->at + 1, "\"")) /* the JSON reader stops before the end of a string */
        e->at = cmdq_string_start(r, e->at + 2);
    else if (has_text(r, e->at, "\""))
        e->at = cmdq_string_start(r, e->at + 1);
    else
        while (e->at && (isalnum(r->data[e->at - 1]) || strchr("+-.", r->data[e->at - 1])))
            e->at--;
}

/* A token where the JSON reader expects a separator. */
static bool explain_separator(const reader *r, const char *message, syntax_error *e)
{
    bool colon = strstr(message, "separated by a colon") != NULL;
    if ((!colon && !strstr(message, "I expect ','")) || e->at >= r->size || strchr("}]", r->data[e->at]))
        return false;
    find_token_start(r, e);
    if (has_text(r, e->at, "0"))
        *e = (syntax_error){"numbers of JSON have no leading zeros", "remove the zeros", e->at};
    else
        *e = (syntax_error){colon ? "a colon is missing before this" : "a comma is missing before this", NULL, e->at};
    return true;
}

static bool explain_control(const reader *r, const char *message, syntax_error *e)
{
    if (!strstr(message, "inside string"))
        return false;
    e->at += e->at + 1 < r->size && r->data[e->at] >= ' ';
    if (e->at >= r->size || r->data[e->at] >= ' ')
        return false;
    *e = (syntax_error){"a string of JSON has no control characters", "write \\n for a new line, \\t for a tab", e->at};
    return true;
}

static void report_error(reader *r, uint64_t end)
{
    syntax_error e = {.at = end ? end - 1 : 0};
    const char *message = r->json.error.message;
    if (has_text(r, 0, "\xEF\xBB\xBF")) {
        e = (syntax_error){"the file begins with a byte order mark", "save the file as UTF-8 without it", 0};
    } else if (!explain_control(r, message, &e)) {
        if (e.at < r->size && isspace(r->data[e.at])) /* a comment is found before it is consumed */
            e.at = end;
        if (!explain_word(r, &e) && !explain_trailing_comma(r, &e) && !explain_separator(r, message, &e))
            explain_name(r, &e);
    }
    if (e.message)
        cmdq_reader_error(r, CMDQ_CODE_JSON, e.at, e.hint, "%s", e.message);
    else
        cmdq_reader_error(r, CMDQ_CODE_JSON, e.at, NULL, "the file is not JSON here: %s", message);
}

void cmdq_reader_report_syntax(reader *r, unsigned token_max)
{
    const tv_json_error *error = &r->json.error;
    uint64_t end = tv_min_u64(error->offset, r->size);
    switch (error->kind) {
    case TV_JSON_OK:
    case TV_JSON_STOPPED:
        return;
    case TV_JSON_MEMORY:
        r->out_of_memory = true;
        return;
    case TV_JSON_UTF8:
        cmdq_reader_error(r, CMDQ_CODE_JSON, cmdq_string_start(r, end), NULL, "%s", error->message);
        return;
    case TV_JSON_DEPTH:
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, end - 1, NULL, "%s", error->message);
        return;
    case TV_JSON_TOKEN:
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, r->chunk_offset, NULL, "a string or number is longer than %u MiB",
                          token_max);
        return;
    case TV_JSON_SYNTAX:
    case TV_JSON_SIZE:
    case TV_JSON_DUPLICATE:
    case TV_JSON_VALUE:
        break;
    }
    report_error(r, end);
}
