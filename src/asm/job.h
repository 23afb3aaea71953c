/* SPDX-License-Identifier: Apache-2.0 */
/* One assembly: what the assembler's parts share. The assembler makes one pass over the statements; what cannot be
 * known yet (forward references) is kept as an expression tree and filled in at the end.
 *
 * Each part uses those above it:
 *   errors.c       errors and limits              lexer.c       tokens of a line
 *   symbols.c      the symbol table               emit.c        sections, words, data
 *   expr.c         expressions and their trees    fixups.c      what waited for symbols
 *   conditions.c   .if and its kin                source.c      files, macro bodies and repeats as a stack of frames
 *   blocks.c       macros and repeats             operands.c    instructions, from the ISA tables
 *   directives.c   all other directives           listing.c     the listing
 *   assemble.c     the pass over the statements */
#ifndef TV_ASM_JOB_H
#define TV_ASM_JOB_H

#include "base/arena.h"
#include "base/buf.h"
#include "isa/isa.h"
#include "program/program.h"

enum {
    TV_ASM_DEPTH_MAX = 128,   /* frames: includes, macros, repeats */
    TV_ASM_EXPR_DEPTH = 200,  /* nested parentheses and operators */
    TV_ASM_EVAL_DEPTH = 8000, /* operators and constants that wait for each other */
    TV_ASM_ERRORS_MAX = 200,  /* reported, then the job stops */
    TV_ASM_ARGS_MAX = 64,     /* of a macro or an instruction */
};
#define TV_ASM_OUTPUT_MAX ((uint64_t)2 << 30)  /* bytes of words, data, and what waits for symbols */
#define TV_ASM_ADDRESS_MAX ((uint64_t)1 << 48) /* of data */
#define TV_ASM_EXPANSION_MAX ((size_t)1 << 20) /* bytes of one macro's text with its arguments */

/* ---- Tokens ---- */

typedef enum tv_token_kind {
    TV_TOK_END,
    TV_TOK_NAME, /* letters, digits, _ . $ */
    TV_TOK_INT,
    TV_TOK_FLOAT,
    TV_TOK_STRING, /* text between the quotes, escapes untouched */
    TV_TOK_PUNCT,  /* `op`: the character, or two of them packed */
    TV_TOK_BAD,    /* reported already */
} tv_token_kind;

typedef struct tv_token {
    tv_token_kind kind;
    unsigned op;
    tv_sv text; /* in the line */
    uint64_t integer;
    double real;
} tv_token;

#define TV_OP2(a, b) ((unsigned)(a) << 8 | (unsigned)(b))

typedef struct tv_lexer {
    tv_sv line;
    size_t pos;
    size_t last_end; /* where the token before the current one ends */
    tv_token token;  /* the current one */
} tv_lexer;

/* ---- Expressions ---- */

typedef struct tv_value {
    bool real;
    int64_t i;
    double f;
} tv_value;

struct tv_asm_symbol;

typedef struct tv_node {
    enum { TV_NODE_VALUE, TV_NODE_SYMBOL, TV_NODE_UNARY, TV_NODE_BINARY, TV_NODE_CHOICE, TV_NODE_CALL } kind;
    unsigned op; /* of UNARY, BINARY; index of the function of CALL */
    uint16_t depth;
    uint16_t column, length; /* of the symbol or operator in its line; 0: too far to the right */
    tv_value value;
    struct tv_asm_symbol *symbol;
    struct tv_node *a, *b, *c;
} tv_node;

/* A parsed expression: a value, or a tree that waits for symbols. */
typedef struct tv_expr {
    bool known;
    tv_value value;
    tv_node *node;
    unsigned column, length;
} tv_expr;

/* ---- Symbols ---- */

typedef struct tv_asm_symbol {
    struct tv_asm_symbol *next_in_bucket, *next; /* `next`: in order of first appearance */
    tv_sv name;
    uint64_t hash;
    enum { TV_SYM_UNDEFINED, TV_SYM_LABEL, TV_SYM_EQU, TV_SYM_SET } state;
    tv_symbol_kind kind;
    tv_value value;
    tv_node *node; /* EQU that waits */
    bool visiting, reported;
    tv_source_loc loc;
} tv_asm_symbol;

/* ---- Source ---- */

typedef struct tv_macro {
    struct tv_macro *next;
    tv_sv name;
    tv_sv params[TV_ASM_ARGS_MAX], defaults[TV_ASM_ARGS_MAX];
    bool has_default[TV_ASM_ARGS_MAX];
    unsigned param_count;
    tv_sv body;
    uint32_t file;
    unsigned line; /* of the body's first line */
} tv_macro;

typedef struct tv_frame {
    struct tv_frame *up;
    enum { TV_FRAME_FILE, TV_FRAME_MACRO, TV_FRAME_REPEAT } kind;
    tv_sv text;
    size_t pos;
    unsigned line, first_line; /* `line`: of the line last taken */
    uint32_t file;
    char *owned; /* text made for this frame */
    const tv_macro *macro;
    uint64_t repeats_left;
    unsigned if_depth; /* conditionals open when it was pushed */
} tv_frame;

typedef struct tv_asm_file {
    const char *path;
    tv_input input;
    bool open;
} tv_asm_file;

typedef struct tv_condition {
    bool taken, active, seen_else;
    tv_source_loc loc;
} tv_condition;

/* ---- Sections ---- */

typedef struct tv_chunk {
    uint64_t addr;
    uint64_t zeros; /* > 0: a run of zeros, and no bytes */
    tv_buf bytes;
    tv_source_loc loc;
} tv_chunk;

typedef enum tv_fix_kind { TV_FIX_FIELD, TV_FIX_DATA, TV_FIX_STREAM } tv_fix_kind;

typedef struct tv_fixup {
    tv_fix_kind kind;
    uint8_t type;    /* DATA: tv_dtype; STREAM: which stream */
    uint16_t field;  /* FIELD: index; STREAM: 0 address, 1 bytes */
    uint32_t chunk;  /* DATA: index, or UINT32_MAX for .text */
    uint64_t offset; /* of the word or element; STREAM: index of the descriptor */
    tv_node *node;
    tv_source_loc loc;
} tv_fixup;

typedef struct tv_asm_job {
    const tv_isa_list *isas; /* in which .target looks a name up */
    const char *name;
    const tv_program_options *options;
    const tv_diag_sink *sink;
    tv_arena arena;
    tv_program *program;
    const tv_isa *isa; /* NULL until .target or the options name it */
    unsigned word_bytes;

    tv_frame *frame;
    unsigned frame_depth;
    tv_asm_file *files;
    unsigned file_count, file_cap;
    tv_sv line; /* the statement being assembled */
    tv_lexer lexer;
    unsigned unique; /* \@ */
    uint64_t lines_left;
    uint64_t output_left;

    tv_asm_symbol **buckets;
    size_t bucket_count, symbol_count;
    tv_asm_symbol *first_symbol, *last_symbol;
    tv_macro *macros;
    tv_buf conditions; /* tv_condition */

    bool in_data;
    tv_buf text, lines;             /* words; tv_line_entry */
    tv_buf chunks;                  /* tv_chunk */
    tv_buf fixups;                  /* tv_fixup */
    tv_buf streams[TV_STREAMS_MAX]; /* tv_descriptor */
    struct tv_mnemonics *mnemonics;

    bool proposed_ok, proposed_said;
    unsigned eval_depth;
    unsigned errors;
    uint64_t said[TV_ASM_ERRORS_MAX]; /* hashes of errors reported inside repeats */
    unsigned said_count, unsaid;      /* `unsaid`: errors that were said in an earlier round */
    bool stop, out_of_memory;
    FILE *listing;
    tv_buf listed, listed_text; /* tv_listed; the lines' text */
} tv_asm_job;

/* lexer.c: `tv_lex_next` advances to the next token and returns it. */
void tv_lex_begin(tv_asm_job *job, tv_sv line);
tv_token tv_lex_next(tv_asm_job *job);
tv_token tv_lex_peek(tv_asm_job *job); /* the token after the current one */
bool tv_lex_is(const tv_asm_job *job, unsigned op);
bool tv_lex_accept(tv_asm_job *job, unsigned op);

/* Of the current token, 1-based. */
static inline unsigned tv_lex_column(const tv_asm_job *job)
{
    return (unsigned)(job->lexer.token.text.ptr - job->lexer.line.ptr) + 1;
}

size_t tv_lex_skip(tv_sv text, size_t pos);     /* past the character, string or character literal at `pos` */
void tv_lex_rest(tv_asm_job *job, tv_sv *rest); /* raw text from the current token to the comment or the end */

/* errors.c: errors at the current token, at a column, or at a stored place. */
void tv_asm_error(tv_asm_job *job, const tv_code *code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);
void tv_asm_error_at(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                     const char *format, ...) TV_PRINTF(6, 7);
void tv_asm_error_loc(tv_asm_job *job, const tv_source_loc *loc, const tv_code *code, const char *hint,
                      const char *format, ...) TV_PRINTF(5, 6);
void tv_asm_warning(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                    const char *format, ...) TV_PRINTF(6, 7);
tv_source_loc tv_asm_loc(const tv_asm_job *job, unsigned column, unsigned length); /* for keeping: no source line */
void *tv_asm_alloc(tv_asm_job *job, size_t size);                                  /* sets out_of_memory */
bool tv_asm_take(tv_asm_job *job, uint64_t bytes); /* from the output limit; an error, and stop, when it is spent */

/* source.c */
bool tv_source_push_file(tv_asm_job *job, tv_sv path, unsigned column);
bool tv_source_push_text(tv_asm_job *job, const char *name, const char *text, size_t size);
bool tv_source_push_macro(tv_asm_job *job, const tv_macro *macro, const tv_sv *args, unsigned arg_count);
bool tv_source_push_repeat(tv_asm_job *job, tv_sv body, unsigned first_line, uint64_t count);
bool tv_source_next(tv_asm_job *job, tv_sv *line); /* false at the end of everything */
bool tv_source_open(tv_asm_job *job, tv_sv path, unsigned column, tv_input *input, const char **found);
/* Takes the lines up to the matching `end` directive (which is consumed); nested `begin`s are counted. */
bool tv_source_block(tv_asm_job *job, const char *const *begin, const char *end, tv_sv *body, unsigned *first_line);
void tv_source_fini(tv_asm_job *job);

/* symbols.c */
tv_asm_symbol *tv_symbol_get(tv_asm_job *job, tv_sv name);
tv_asm_symbol *tv_symbol_find(tv_asm_job *job, tv_sv name); /* NULL: never seen */
bool tv_symbol_define(tv_asm_job *job, tv_sv name, unsigned column, int state, tv_symbol_kind kind, tv_expr value);

/* expr.c */
bool tv_expr_parse(tv_asm_job *job, tv_expr *out);
/* An integer that is known now, or an error; `where` (may be NULL) gets the expression for its column. */
bool tv_expr_constant(tv_asm_job *job, int64_t *out, tv_expr *where);
bool tv_expr_eval(tv_asm_job *job, const tv_source_loc *loc, tv_node *node, tv_value *out);
bool tv_expr_string(tv_asm_job *job, tv_buf *out); /* the current string token, escapes resolved */

/* emit.c. The put functions check a value and report at `place`. */
void tv_emit_word(tv_asm_job *job, uint64_t word, unsigned column);
uint64_t tv_emit_here(const tv_asm_job *job); /* offset in .text or address in .data */
void tv_emit_field(tv_asm_job *job, uint64_t *word, uint16_t field, const tv_expr *value);
void tv_emit_data(tv_asm_job *job, int type, const tv_expr *value);
void tv_emit_bytes(tv_asm_job *job, const void *bytes, size_t n);
void tv_emit_int4(tv_asm_job *job, const tv_expr *values, unsigned count);
void tv_emit_zeros(tv_asm_job *job, uint64_t n);
void tv_emit_org(tv_asm_job *job, uint64_t addr);
void tv_emit_stream(tv_asm_job *job, unsigned stream, const tv_expr *addr, const tv_expr *bytes);
bool tv_emit_put_field(tv_asm_job *job, const tv_source_loc *loc, uint64_t *word, uint16_t index, tv_value v);
bool tv_emit_data_bits(tv_asm_job *job, const tv_source_loc *loc, int type, tv_value v, uint64_t *bits);
bool tv_emit_put_stream(tv_asm_job *job, const tv_source_loc *loc, unsigned field, tv_value v, tv_descriptor *d);
tv_status tv_emit_finish(tv_asm_job *job);

/* listing.c: a line is noted around its statement, and printed when all symbols are known. */
typedef struct tv_listed {
    size_t text_at, text_length;   /* in listed_text */
    uint64_t words_from, words_to; /* bytes of .text */
    uint64_t addr, data_size;      /* of .data */
    size_t chunk, chunk_offset;
    unsigned line;
    bool expanded, in_data;
} tv_listed;
tv_listed tv_listing_begin(tv_asm_job *job, tv_sv line);
void tv_listing_end(tv_asm_job *job, tv_listed *listed);
void tv_listing_write(tv_asm_job *job);

/* fixups.c */
void tv_fixups_apply(tv_asm_job *job);

/* operands.c */
bool tv_operands_is_mnemonic(tv_asm_job *job, tv_sv name);
void tv_operands_assemble(tv_asm_job *job, tv_sv mnemonic, unsigned column);
void tv_operands_suggest(tv_asm_job *job, tv_nearest *nearest);
bool tv_operands_set_target(tv_asm_job *job, tv_sv name, unsigned column);
void tv_operands_fini(tv_asm_job *job);

/* directives.c, blocks.c, conditions.c: false when `name` is no directive. */
bool tv_directive(tv_asm_job *job, tv_sv name, unsigned column);
bool tv_directive_condition(tv_asm_job *job, tv_sv name, unsigned column);
void tv_directive_suggest(tv_nearest *nearest);
const char *tv_directive_name(unsigned i); /* all of them; NULL past the last */
const char *tv_expr_function(unsigned i);
bool tv_macro_call(tv_asm_job *job, tv_sv name, unsigned column);
void tv_macro_suggest(const tv_asm_job *job, tv_nearest *nearest);
void tv_block_macro(tv_asm_job *job, unsigned column);
void tv_block_repeat(tv_asm_job *job, unsigned column);
bool tv_conditions_active(const tv_asm_job *job);
void tv_conditions_close(tv_asm_job *job, unsigned depth);

#endif
