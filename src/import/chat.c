/* SPDX-License-Identifier: Apache-2.0 */
#include "import/chat.h"

#define BAR(text) "<\357\275\234" text "\357\275\234>" /* between fullwidth bars */

#define BOS "\001" /* replaced by the text of the token */
#define EOS "\002"

enum { TRIM = 1, INSIDE = 2 };

typedef struct chat_template {
    const char *name;
    unsigned flags;
    const char *begin, *system_before, *system_after, *user_before, *user_after, *answer, *answer_after;
} chat_template;

static const chat_template templates[] = {
#define TV_CHAT(...) {__VA_ARGS__},
#include "import/chat.def"
#undef TV_CHAT
};

typedef struct chat_rule {
    const char *name, *texts[3]; /* name NULL: a template that is known, but not in the table */
} chat_rule;

static const chat_rule rules[] = {
#define TV_CHAT_RULE(name, ...) {name, {__VA_ARGS__}},
#include "import/chat.def"
#undef TV_CHAT_RULE
};

static const chat_template *find_template(tv_sv name)
{
    for (size_t i = 0; i < TV_COUNTOF(templates); i++)
        if (tv_sv_is(name, templates[i].name))
            return &templates[i];
    return NULL;
}

static bool contains(tv_sv program, const char *text)
{
    return text[0] == '\0' || (program.len > 0 && memmem(program.ptr, program.len, text, strlen(text)));
}

const char *tv_chat_detect(tv_sv program)
{
    const chat_template *named = find_template(program);
    if (named)
        return named->name;
    for (size_t i = 0; i < TV_COUNTOF(rules); i++)
        if (contains(program, rules[i].texts[0]) && contains(program, rules[i].texts[1]) &&
            contains(program, rules[i].texts[2]))
            return rules[i].name;
    return NULL;
}

static void append_message(tv_buf *out, const chat_template *t, const char *text)
{
    static const char space[] = " \t\n\v\f\r";
    size_t len = strlen(text), start = t->flags & TRIM ? strspn(text, space) : 0;
    while ((t->flags & TRIM) && len > start && strchr(space, text[len - 1]))
        len--;
    tv_buf_append(out, text + start, len - start);
}

/* Appends a text of the table. */
static void append_text(tv_buf *out, const char *text, const tv_chat_message *message)
{
    for (; *text; text++)
        if (*text == BOS[0])
            tv_buf_append(out, message->bos.ptr, message->bos.len);
        else if (*text == EOS[0])
            tv_buf_append(out, message->eos.ptr, message->eos.len);
        else
            tv_buf_append(out, text, 1);
}

static void append_system(tv_buf *out, const chat_template *t, const tv_chat_message *message)
{
    if (!message->system || message->continues)
        return;
    append_text(out, t->system_before, message);
    append_message(out, t, message->system);
    append_text(out, t->system_after, message);
}

bool tv_chat_format(const char *name, const tv_chat_message *message, tv_buf *out)
{
    const chat_template *t = find_template(tv_sv_of(name));
    if (!t)
        return false;
    append_text(out, message->continues ? t->answer_after : t->begin, message);
    if (!(t->flags & INSIDE))
        append_system(out, t, message);
    append_text(out, t->user_before, message);
    if (t->flags & INSIDE)
        append_system(out, t, message);
    append_message(out, t, message->user);
    append_text(out, t->user_after, message);
    append_text(out, t->answer, message);
    return true;
}

void tv_chat_names(tv_buf *buf)
{
    for (size_t i = 0; i < TV_COUNTOF(templates); i++)
        tv_buf_printf(buf, "%s%s", i > 0 ? ", " : "", templates[i].name);
}
