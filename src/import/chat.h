/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: the text of a conversation as a model was trained on it.
 *
 * A file has a program for its template (`tokenizer.chat_template`). It is not run: the template is one of a table,
 * found by texts that the program has, as llama.cpp does. */
#ifndef TV_IMPORT_CHAT_H
#define TV_IMPORT_CHAT_H

#include "base/buf.h"
#include "base/diag.h"

/* One turn of a conversation. */
typedef struct tv_chat_message {
    bool continues;     /* an answer precedes it */
    const char *system; /* of the first turn; NULL: none */
    const char *user;
    tv_sv bos, eos; /* the texts of these tokens; empty: there is none */
} tv_chat_message;

/* The name of the template that `program`, the text of the file or a name of the table, stands for. NULL: it is not
 * one of the table. */
const char *tv_chat_detect(tv_sv program);

/* Appends the text of a turn, up to where the answer begins; the first turn with the beginning of the conversation,
 * the others with the end of the previous answer. `name` is of the table. False: there is no such template. */
bool tv_chat_format(const char *name, const tv_chat_message *message, tv_buf *out);

/* Appends the names of all templates, separated by commas. */
void tv_chat_names(tv_buf *buf);

#endif
