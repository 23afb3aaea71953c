/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one assembly, shared by the assembler's files.
 *
 * The assembler makes one pass over the statements. tv_source_next_line delivers lines from a stack of frames (files,
 * macro expansions, repeats); each statement defines symbols, changes the state or emits words, data or descriptors.
 * An expression that refers to a symbol that is not defined yet is kept as a tree: emission writes zeros and records a
 * fixup, and tv_fixups_apply evaluates the trees at the end. tv_emit_finish then moves the result into a tv_program.
 *
 * Errors are reported where they occur and counted; a job with errors makes no program. `stop` and `out_of_memory` end
 * the job early. Everything that lives as long as the job is allocated from `arena`.
 *
 * Each file uses those above it:
 *   errors.c       diagnostics and limits         lexer.c       tokens of a line
 *   symbols.c      the symbol table               emit.c        sections, words, data, the finished program
 *   expr.c         expressions and their trees    fixups.c      evaluation of deferred expressions
 *   conditions.c   .if, .else, .endif             paths.c       files that .include and .incbin may read
 *   source.c       files, macro expansions and repeats as frames
 *   blocks.c       macros and repeats             operands.c    instructions, from the ISA tables
 *   directives.c   all other directives           listing.c     the listing
 *   assemble.c     the pass over the statements */
#ifndef TV_ASM_JOB_H
#define TV_ASM_JOB_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "isa/isa.h"
#include "program/program.h"

enum {
    TV_ASM_DEPTH_MAX = 128,         /* frames: includes, macros, repeats */
    TV_ASM_EXPR_DEPTH = 200,        /* nested parentheses and operators */
    TV_ASM_TREE_DEPTH = 2000,       /* of a deferred expression */
    TV_ASM_EVAL_DEPTH = 8000,       /* nested evaluations of deferred expressions */
    TV_ASM_ERRORS_MAX = 200,        /* errors reported before the job stops */
    TV_ASM_ARGS_MAX = 64,           /* of a macro or an instruction */
    TV_ASM_WARNINGS_MAX = 200,      /* warnings shown */
    TV_ASM_CONDITIONS_MAX = 256,    /* nested .if */
    TV_ASM_INCLUSIONS_MAX = 16384,  /* .include and .incbin directives */
    TV_ASM_REQUIREMENTS_MAX = 1024, /* .require and .profile lines; files have the same limit */
};
#define TV_ASM_LINES_MAX ((uint64_t)1000000)    /* lines of macros, repeats and files included again */
#define TV_ASM_LINE_BYTES 64                    /* bytes that such a line may have on average */
#define TV_ASM_SOURCE_MAX ((uint64_t)256 << 20) /* bytes of included files */
#define TV_ASM_SUGGESTIONS_MAX 400000           /* names compared for "did you mean" hints */
#define TV_ASM_OUTPUT_MAX ((uint64_t)2 << 30)   /* bytes of words, data and deferred expressions */
#define TV_ASM_ADDRESS_MAX ((uint64_t)1 << 48)  /* of data */
#define TV_ASM_EXPANSION_MAX ((size_t)1 << 20)  /* bytes of one macro expansion */

/* ---- Tokens ---- */

typedef enum tv_token_kind {
    TV_TOK_END,
    TV_TOK_NAME, /* letters, digits, _ . $ */
    TV_TOK_INT,
    TV_TOK_FLOAT,
    TV_TOK_STRING, /* text between the quotes, escapes untouched */
    TV_TOK_PUNCT,  /* `op`: the character, or two of them packed */
    TV_TOK_BAD,    /* malformed; the error has been reported */
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
    size_t prev_end; /* end of the token before the current one */
    tv_token token;  /* the current token */
} tv_lexer;

/* ---- Expressions ---- */

typedef struct tv_value {
    bool real;
    int64_t i;
    double f;
} tv_value;

struct tv_asm_symbol;

typedef struct tv_node {
    enum { TV_NODE_VALUE, TV_NODE_SYMBOL, TV_NODE_UNARY, TV_NODE_BINARY, TV_NODE_TERNARY, TV_NODE_CALL } kind;
    unsigned op; /* UNARY, BINARY: the operator; CALL: index of the function */
    uint16_t depth;
    uint16_t column, length; /* of the symbol or operator; 0: unknown or above 65535 */
    tv_value value;
    struct tv_asm_symbol *symbol;
    struct tv_node *a, *b, *c;
} tv_node;

/* A parsed expression: a value, or a tree that refers to symbols that are not defined yet. */
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
    tv_node *node; /* of an EQU whose value is deferred */
    bool evaluating, reported;
    tv_source_loc loc;
} tv_asm_symbol;

/* ---- Source ---- */

typedef struct tv_macro_param {
    tv_sv name, default_value;
    bool has_default;
} tv_macro_param;

typedef struct tv_macro {
    struct tv_macro *next, *next_in_bucket;
    uint64_t hash;
    tv_sv name;
    tv_macro_param *params;
    unsigned param_count;
    tv_sv body;
    uint32_t file;
    unsigned line; /* of the body's first line */
} tv_macro;

/* A source of lines. */
typedef struct tv_frame {
    struct tv_frame *parent;
    enum { TV_FRAME_FILE, TV_FRAME_MACRO, TV_FRAME_REPEAT } kind;
    tv_sv text;
    size_t pos;
    unsigned line, first_line; /* `line`: number of the line read last */
    uint32_t file;
    char *expansion; /* a macro's text with its arguments; owned */
    const tv_macro *macro;
    uint64_t repeats_left;
    bool expanded;            /* its lines count against the budgets */
    unsigned condition_depth; /* number of open conditions when it was pushed */
} tv_frame;

typedef struct tv_asm_file {
    const char *path;
    tv_input input;
    bool open;
    bool read; /* its lines have been read once */
} tv_asm_file;

typedef struct tv_condition {
    bool branch_taken; /* a branch has been assembled; the others are skipped */
    bool active;       /* the current branch is being assembled */
    bool has_else;
    tv_source_loc loc;
} tv_condition;

/* ---- Sections ---- */

/* A contiguous range of data. */
typedef struct tv_chunk {
    uint64_t addr;
    uint64_t zeros; /* > 0: the chunk is this many zero bytes, and `bytes` is empty */
    tv_buf bytes;
    tv_source_loc loc;
} tv_chunk;

/* Part of a file whose bytes are copied to a chunk at the end, when there are no errors. */
typedef struct tv_file_copy {
    tv_input input;
    uint64_t skip, size;
    size_t chunk, offset; /* where in the chunk's bytes */
} tv_file_copy;

typedef enum tv_fix_kind { TV_FIX_FIELD, TV_FIX_DATA, TV_FIX_STREAM } tv_fix_kind;

#define TV_FIX_IN_TEXT UINT32_MAX /* as the chunk of a fixup */

/* A value to fill in once all symbols are known. */
typedef struct tv_fixup {
    tv_fix_kind kind;
    uint8_t type;    /* DATA: tv_dtype; STREAM: index of the stream */
    uint16_t field;  /* FIELD: index in the ISA's fields; STREAM: 0 address, 1 bytes */
    uint32_t chunk;  /* DATA: index in `chunks`, or TV_FIX_IN_TEXT */
    uint64_t offset; /* FIELD, DATA: in bytes, of the word or element; STREAM: index of the descriptor */
    tv_node *node;
    tv_source_loc loc;
} tv_fixup;

/* One line of the listing. It records ranges, and is printed when the fixups have been applied. */
typedef struct tv_listing_line {
    size_t text_at, text_length;   /* its source, in `listing_text` */
    uint64_t text_begin, text_end; /* its words, in bytes of .text */
    uint64_t addr, data_size;      /* its data */
    size_t chunk, chunk_offset;    /* where its data begins */
    unsigned line;
    bool expanded, in_data;
} tv_listing_line;

typedef struct tv_asm_job {
    /* Input, unchanged during the job. */
    const tv_isa_list *isas; /* where .target looks up a name */
    const char *name;        /* of the source, in messages */
    const tv_program_options *options;
    FILE *listing;            /* NULL: no listing */
    const tv_diag_sink *sink; /* NULL while diagnostics are suppressed */

    tv_arena arena;
    const tv_isa *isa; /* NULL until .target or the options select it */
    unsigned word_bytes;
    struct tv_mnemonics *mnemonics; /* operands.c: the index of the ISA's mnemonics */

    /* The position in the source. */
    tv_frame *frame; /* the innermost one */
    unsigned frame_depth;
    TV_VEC(tv_asm_file) files;
    tv_sv line; /* the statement being assembled */
    tv_lexer lexer;
    TV_VEC(tv_condition) conditions; /* open .if blocks, innermost last */

    /* Definitions. */
    tv_asm_symbol **buckets;
    size_t bucket_count, symbol_count;
    tv_asm_symbol *first_symbol, *last_symbol;
    tv_macro *macros, **macro_buckets;
    size_t macro_bucket_count, macro_count;
    unsigned expansion_count; /* macro expansions so far: the value of \@ */
    unsigned eval_depth;

    /* Output. */
    bool in_data; /* the current section is .data */
    tv_buf text;  /* instruction words, little endian */
    tv_line_vec lines;
    TV_VEC(tv_chunk) chunks;
    TV_VEC(tv_file_copy) file_copies;
    TV_VEC(tv_fixup) fixups;
    TV_VEC(tv_descriptor) streams[TV_STREAMS_MAX];
    TV_VEC(tv_listing_line) listing_lines;
    tv_buf listing_text;
    bool allows_proposed, warned_proposed;
    TV_VEC(const char *) requirements; /* in `arena` */
    TV_VEC(const char *) inputs;       /* files that were included, in `arena` */
    tv_program *program;

    /* Limits and errors. */
    uint64_t line_budget, byte_budget; /* left for expansions */
    uint64_t source_budget;            /* bytes left for included files */
    uint64_t output_budget;            /* bytes left */
    unsigned inclusion_count, suggestion_budget;
    unsigned errors, warnings;
    uint64_t reported_hashes[TV_ASM_ERRORS_MAX]; /* of errors reported inside a .rept */
    unsigned reported_count;
    unsigned repeated_errors; /* suppressed because an earlier iteration of a .rept reported them */
    bool stop, out_of_memory;
    int host_error; /* errno of an included file that could not be read because of the host; reported */
} tv_asm_job;

/* lexer.c: tv_lex_next advances to the next token, job->lexer.token; tv_lex_peek returns it without advancing. */
void tv_lex_begin(tv_asm_job *job, tv_sv line);
void tv_lex_next(tv_asm_job *job);
tv_token tv_lex_peek(tv_asm_job *job);
bool tv_lex_is(const tv_asm_job *job, unsigned op);
bool tv_lex_accept(tv_asm_job *job, unsigned op);

/* The column of the current token, from 1. */
static inline unsigned tv_lex_column(const tv_asm_job *job)
{
    return (unsigned)(job->lexer.token.text.ptr - job->lexer.line.ptr) + 1;
}

size_t tv_lex_skip_literal(tv_sv text, size_t pos); /* the position after the literal or character at `pos` */
void tv_lex_rest(tv_asm_job *job, tv_sv *rest);     /* raw text from the current token to the comment or the end */

/* errors.c: errors at the current token, at a column of the current line, or at a source location. */
void tv_asm_error(tv_asm_job *job, const tv_code *code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);
void tv_asm_error_at(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                     const char *format, ...) TV_PRINTF(6, 7);
void tv_asm_error_loc(tv_asm_job *job, const tv_source_loc *loc, const tv_code *code, const char *hint,
                      const char *format, ...) TV_PRINTF(5, 6);
void tv_asm_warning(tv_asm_job *job, unsigned column, unsigned length, const tv_code *code, const char *hint,
                    const char *format, ...) TV_PRINTF(6, 7);
tv_source_loc tv_asm_loc(const tv_asm_job *job, unsigned column,
                         unsigned length);                   /* without the source line: may be kept */
const char *tv_asm_cstr(tv_asm_job *job, tv_buf *text);      /* tv_buf_cstr; sets out_of_memory */
void *tv_asm_alloc(tv_asm_job *job, size_t size);            /* NULL: sets stop or out_of_memory */
bool tv_asm_may_suggest(tv_asm_job *job);                    /* false: enough names have been compared */
bool tv_asm_reserve_output(tv_asm_job *job, uint64_t bytes); /* false: over the limit; reports it, sets stop */

/* source.c */
bool tv_source_push_file(tv_asm_job *job, tv_sv path, unsigned column);
bool tv_source_push_text(tv_asm_job *job, const char *name, const char *text, size_t size);
bool tv_source_push_macro(tv_asm_job *job, const tv_macro *macro, const tv_sv *args, unsigned arg_count);
bool tv_source_push_repeat(tv_asm_job *job, tv_sv body, unsigned first_line, uint64_t count, const tv_source_loc *loc);
bool tv_source_next_line(tv_asm_job *job, tv_sv *line); /* false at the end of the last file or of a budget */
/* Reads the lines up to the matching `end` directive and consumes that. Any of `begin` (NULL-terminated) opens a nested
 * block. False: there is no matching `end`. */
bool tv_source_read_block(tv_asm_job *job, const char *const *begin, const char *end, tv_sv *body,
                          unsigned *first_line);
void tv_source_fini(tv_asm_job *job);

/* paths.c: opens a file of .include or .incbin. False: it is not there or may not be read, which is reported. */
bool tv_source_open_input(tv_asm_job *job, tv_sv path, unsigned column, tv_input *input, const char **found);

/* symbols.c */
tv_asm_symbol *tv_symbol_intern(tv_asm_job *job, tv_sv name);
tv_asm_symbol *tv_symbol_find(tv_asm_job *job, tv_sv name); /* NULL: not in the table */
bool tv_symbol_define(tv_asm_job *job, tv_sv name, unsigned column, int state, tv_symbol_kind kind, tv_expr value);

/* expr.c */
bool tv_expr_parse(tv_asm_job *job, tv_expr *out);
/* Parses an expression whose integer value must be known now; otherwise reports an error. `where` (may be NULL)
 * receives the expression, for its column. */
bool tv_expr_constant(tv_asm_job *job, int64_t *out, tv_expr *where);
bool tv_expr_eval(tv_asm_job *job, const tv_source_loc *loc, tv_node *node, tv_value *out);
bool tv_expr_string(tv_asm_job *job, tv_buf *out); /* the current string token, escapes resolved */

/* emit.c. The encode functions check that a value fits, reporting at `loc`, and encode it. */
void tv_emit_word(tv_asm_job *job, uint64_t word, unsigned column);
uint64_t tv_emit_location(const tv_asm_job *job); /* offset in .text or address in .data */
void tv_emit_field(tv_asm_job *job, uint64_t *word, uint16_t field, const tv_expr *value);
void tv_emit_data(tv_asm_job *job, int type, const tv_expr *value);
void tv_emit_bytes(tv_asm_job *job, const void *bytes, size_t n);

/* `size` bytes of a file from `skip` on, which are there. Takes over `input`. A large part is copied by
 * tv_emit_copy_files. */
void tv_emit_file(tv_asm_job *job, tv_input *input, uint64_t skip, uint64_t size);
void tv_emit_copy_files(tv_asm_job *job);
void tv_emit_int4(tv_asm_job *job, const tv_expr *values, unsigned count);
void tv_emit_zeros(tv_asm_job *job, uint64_t n);
void tv_emit_org(tv_asm_job *job, uint64_t addr);
void tv_emit_stream(tv_asm_job *job, unsigned stream, const tv_expr *addr, const tv_expr *bytes);
bool tv_emit_encode_field(tv_asm_job *job, const tv_source_loc *loc, uint64_t *word, uint16_t index, tv_value v);
bool tv_emit_encode_data(tv_asm_job *job, const tv_source_loc *loc, int type, tv_value v, uint64_t *bits);
bool tv_emit_encode_stream(tv_asm_job *job, const tv_source_loc *loc, unsigned field, tv_value v, tv_descriptor *d);
tv_status tv_emit_finish(tv_asm_job *job);

/* listing.c: called before and after a statement, and at the end. */
tv_listing_line tv_listing_begin(tv_asm_job *job, tv_sv line);
void tv_listing_end(tv_asm_job *job, tv_listing_line *listed);
void tv_listing_write(tv_asm_job *job);

/* fixups.c */
void tv_fixups_apply(tv_asm_job *job);

/* operands.c */
bool tv_operands_is_mnemonic(tv_asm_job *job, tv_sv name);
void tv_operands_assemble(tv_asm_job *job, tv_sv mnemonic, unsigned column);
void tv_operands_suggest(tv_asm_job *job, tv_nearest *nearest);
bool tv_operands_set_target(tv_asm_job *job, tv_sv name, unsigned column);
void tv_operands_fini(tv_asm_job *job);

/* directives.c, blocks.c, conditions.c: false when `name` is not a directive, or not a macro. */
bool tv_directive(tv_asm_job *job, tv_sv name, unsigned column);
bool tv_directive_condition(tv_asm_job *job, tv_sv name, unsigned column);
void tv_directive_suggest(tv_nearest *nearest);
const char *tv_directive_elsewhere(tv_sv name); /* the directive for one of other assemblers; NULL: none is known */
const char *tv_directive_name(unsigned i);      /* NULL past the last */
const char *tv_expr_function(unsigned i);
bool tv_macro_call(tv_asm_job *job, tv_sv name, unsigned column);
void tv_macro_suggest(tv_asm_job *job, tv_nearest *nearest);
void tv_macros_fini(tv_asm_job *job);
void tv_block_macro(tv_asm_job *job, unsigned column);
void tv_block_repeat(tv_asm_job *job, unsigned column);
bool tv_conditions_active(const tv_asm_job *job);
void tv_conditions_close(tv_asm_job *job, unsigned depth);

#endif
