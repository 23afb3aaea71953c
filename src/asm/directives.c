/* SPDX-License-Identifier: Apache-2.0 */
/* The directives of one line: a table of names and handlers. blocks.c has those that span lines, conditions.c those of
 * conditional assembly. A handler reads its operands through the lexer and leaves the rest of the line to its caller,
 * which reports what is left over; data go to the current section through emit.c, with fixups for symbols that are not
 * defined yet. */
#include <inttypes.h>
#include <stdlib.h>

#include "asm/job.h"
#include "program/requirements.h"
#include "trivet/dtype.h"

typedef struct directive {
    const char *name;
    void (*handle)(tv_asm_job *job, const struct directive *self, unsigned column);
    int type; /* for the handler: a tv_dtype, a state of a symbol, or a flag */
} directive;

static bool require_data_section(tv_asm_job *job, const directive *self, unsigned column)
{
    if (job->in_data)
        return true;
    tv_asm_error_at(job, column, (unsigned)strlen(self->name), TV_CODE(ASM_SECTION), "put a .data line before it",
                    "%s is in .text, which has only instructions", self->name);
    return false;
}

/* ---- Data ---- */

/* A list of values. In .text only raw instruction words are allowed: .word64 or .word, by the size of the target's
 * words. */
static void handle_values(tv_asm_job *job, const directive *self, unsigned column)
{
    unsigned bytes = tv_dtype_bits((tv_dtype)self->type) / 8;
    bool raw_word = self->type == TV_HEX64 || self->type == TV_HEX32;
    if (!job->in_data && !job->isa) {
        tv_asm_error_at(job, column, (unsigned)strlen(self->name), TV_CODE(ASM_TARGET),
                        "write `.target NAME` before it or give -t", "the target is not set yet");
        return;
    }
    if (!job->in_data && !(raw_word && bytes == job->word_bytes)) {
        char hint[96];
        snprintf(hint, sizeof hint, "in .text only %s emits a whole word of %s",
                 job->word_bytes == 8 ? ".word64" : ".word", job->isa->target);
        tv_asm_error_at(job, column, (unsigned)strlen(self->name), TV_CODE(ASM_SECTION), hint,
                        "%s is not allowed in .text", self->name);
        return;
    }
    do {
        tv_expr value;
        if (!tv_expr_parse(job, &value))
            return;
        tv_emit_data(job, self->type, &value);
    } while (tv_lex_accept(job, ',') && !job->stop);
}

static void handle_int4(tv_asm_job *job, const directive *self, unsigned column)
{
    enum { CHUNK = 64 };
    tv_expr values[CHUNK];
    unsigned count = 0;
    if (!require_data_section(job, self, column))
        return;
    do {
        if (count == CHUNK) {
            tv_emit_int4(job, values, count);
            count = 0;
        }
        if (!tv_expr_parse(job, &values[count++]))
            return;
    } while (tv_lex_accept(job, ',') && !job->stop);
    tv_emit_int4(job, values, count);
}

/* Parses a count that must be known and not negative. */
static bool parse_count(tv_asm_job *job, const char *what, uint64_t *out)
{
    int64_t n;
    tv_expr where;
    if (!tv_expr_constant(job, &n, &where))
        return false;
    if (n < 0)
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), NULL,
                        "a %s must not be negative, found %" PRId64, what, n);
    *out = (uint64_t)n;
    return n >= 0;
}

/* Emits `count` times the low `size` bytes of `value`, little endian. `size` is 1 to 8. */
static void emit_pattern(tv_asm_job *job, uint64_t count, unsigned size, uint64_t value)
{
    uint8_t block[512];
    size_t in_block = sizeof block / size;
    if (value == 0) {
        tv_emit_zeros(job, count > TV_ASM_ADDRESS_MAX ? TV_ASM_ADDRESS_MAX + 1 : count * size);
        return;
    }
    for (size_t i = 0; i < in_block * size; i++)
        block[i] = (uint8_t)(value >> 8 * (i % size));
    while (count && !job->stop && !job->out_of_memory) {
        uint64_t n = count < in_block ? count : in_block;
        tv_emit_bytes(job, block, (size_t)n * size);
        count -= n;
    }
}

/* Parses a value of `size` bytes after a comma; 0 when there is none. */
static bool parse_fill(tv_asm_job *job, unsigned size, uint64_t *out)
{
    int64_t value = 0;
    tv_expr where;
    *out = 0;
    if (!tv_lex_accept(job, ','))
        return true;
    if (!tv_expr_constant(job, &value, &where))
        return false;
    int64_t low = size == 8 ? INT64_MIN : -(INT64_C(1) << (8 * size - 1));
    int64_t high = size == 8 ? INT64_MAX : (INT64_C(1) << 8 * size) - 1;
    if (value < low || value > high) {
        char hint[80];
        snprintf(hint, sizeof hint, "the range is %" PRId64 " to %" PRId64, low, high);
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), hint, "%" PRId64 " does not fit %u byte%s",
                        value, size, size == 1 ? "" : "s");
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

/* .zero SIZE; .space SIZE[, BYTE] */
static void handle_space(tv_asm_job *job, const directive *self, unsigned column)
{
    uint64_t count, value = 0;
    if (!require_data_section(job, self, column) || !parse_count(job, "size", &count))
        return;
    if (!self->type || parse_fill(job, 1, &value))
        emit_pattern(job, count, 1, value);
}

/* .fill COUNT[, SIZE[, VALUE]] */
static void handle_fill(tv_asm_job *job, const directive *self, unsigned column)
{
    uint64_t count, value = 0;
    int64_t size = 1;
    tv_expr where;
    if (!require_data_section(job, self, column) || !parse_count(job, "count", &count))
        return;
    if (tv_lex_accept(job, ',')) {
        if (!tv_expr_constant(job, &size, &where))
            return;
        if (size < 1 || size > 8) {
            tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), "write .fill COUNT, SIZE, VALUE",
                            "an element has 1 to 8 bytes, not %" PRId64, size);
            return;
        }
        if (!parse_fill(job, (unsigned)size, &value))
            return;
    }
    emit_pattern(job, count, (unsigned)size, value);
}

static void handle_string(tv_asm_job *job, const directive *self, unsigned column)
{
    if (!require_data_section(job, self, column))
        return;
    do {
        tv_buf text = {0};
        bool ok = tv_expr_string(job, &text);
        if (ok) {
            tv_emit_bytes(job, text.data, text.len);
            if (self->type)
                tv_emit_bytes(job, "", 1);
        }
        tv_buf_fini(&text);
        if (!ok)
            return;
    } while (tv_lex_accept(job, ',') && !job->stop);
}

static void handle_incbin(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_buf path = {0};
    int64_t skip = 0, count = -1;
    unsigned at = tv_lex_column(job);
    if (!require_data_section(job, self, column) || !tv_expr_string(job, &path)) {
        tv_buf_fini(&path);
        return;
    }
    bool ok = !tv_lex_accept(job, ',') || tv_expr_constant(job, &skip, NULL);
    ok = ok && (!tv_lex_accept(job, ',') || tv_expr_constant(job, &count, NULL));
    tv_input input;
    if (ok && tv_source_open_input(job, (tv_sv){tv_asm_cstr(job, &path), path.len}, at, &input, NULL)) {
        uint64_t size = input.size;
        uint64_t rest = skip >= 0 && (uint64_t)skip <= size ? size - (uint64_t)skip : 0;
        if (skip < 0 || (uint64_t)skip > size || count < -1 || (count >= 0 && (uint64_t)count > rest)) {
            tv_asm_error_at(job, at, (unsigned)path.len + 2, TV_CODE(ASM_RANGE), "write .incbin \"FILE\", skip, count",
                            "the range is outside the file, which has %" PRIu64 " bytes", size);
            tv_input_close(&input);
        } else {
            tv_emit_file(job, &input, (uint64_t)skip, count < 0 ? rest : (uint64_t)count);
        }
    }
    tv_buf_fini(&path);
}

/* ---- Location counter ---- */

/* Fills .text with no-operation instructions up to offset `to`. */
static void pad_text(tv_asm_job *job, uint64_t to, unsigned column)
{
    if (to == job->text.len)
        return;
    if (job->isa && job->isa->has_nop && to % job->word_bytes) {
        tv_asm_error_at(job, column, 1, TV_CODE(ASM_ALIGN), NULL, ".text is aligned to words of %u bytes",
                        job->word_bytes);
        return;
    }
    if (!job->isa || !job->isa->has_nop) {
        tv_asm_error_at(job, column, 1, TV_CODE(ASM_SECTION), "only .data can be moved or aligned",
                        "%s has no no-operation instruction to fill .text with",
                        job->isa ? job->isa->target : "this target");
        return;
    }
    while (job->text.len < to && !job->stop && !job->out_of_memory)
        tv_emit_word(job, job->isa->nop, column);
}

static void handle_balign(tv_asm_job *job, const directive *self, unsigned column)
{
    int64_t n;
    tv_expr where;
    (void)self;
    if (!tv_expr_constant(job, &n, &where))
        return;
    if (n < 1 || n > 1 << 30 || (n & (n - 1))) {
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), NULL,
                        ".balign requires a power of two up to 2^30, found %" PRId64, n);
        return;
    }
    uint64_t here = tv_emit_location(job), to = (here + (uint64_t)n - 1) & ~((uint64_t)n - 1);
    if (job->in_data)
        tv_emit_zeros(job, to - here);
    else
        pad_text(job, to, column);
}

static void handle_org(tv_asm_job *job, const directive *self, unsigned column)
{
    int64_t to;
    tv_expr where;
    (void)self;
    if (!tv_expr_constant(job, &to, &where))
        return;
    if (to < 0)
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), NULL,
                        "an address must not be negative, found %" PRId64, to);
    else if (job->in_data)
        tv_emit_org(job, (uint64_t)to);
    else if ((uint64_t)to < job->text.len)
        tv_asm_error_at(job, where.column, where.length, TV_CODE(ASM_RANGE), NULL, ".org cannot move back in .text");
    else
        pad_text(job, (uint64_t)to, column);
}

static void handle_text(tv_asm_job *job, const directive *self, unsigned column)
{
    (void)self;
    (void)column;
    job->in_data = false;
}

static void handle_data(tv_asm_job *job, const directive *self, unsigned column)
{
    job->in_data = true;
    if (job->lexer.token.kind != TV_TOK_END)
        handle_org(job, self, column);
}

static void handle_section(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_sv name = job->lexer.token.text;
    bool text = tv_sv_is(name, ".text");
    if (!text && !tv_sv_is(name, ".data")) {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, "expected .text or .data");
        return;
    }
    tv_lex_next(job);
    if (text)
        handle_text(job, self, column);
    else if (tv_lex_accept(job, ',') || job->lexer.token.kind == TV_TOK_END)
        handle_data(job, self, column);
}

/* ---- Symbols and the target ---- */

static void handle_assign(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_token name = job->lexer.token;
    unsigned at = tv_lex_column(job);
    tv_expr value;
    (void)column;
    if (name.kind != TV_TOK_NAME) {
        if (name.kind != TV_TOK_BAD)
            tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, "%s requires a name, a comma and a value", self->name);
        return;
    }
    tv_lex_next(job);
    if (!tv_lex_accept(job, ',') && !tv_lex_accept(job, '=')) {
        tv_asm_error(job, TV_CODE(ASM_COMMA), NULL, "expected ',' after '%.*s'", TV_SV_ARG(name.text));
        return;
    }
    if (!tv_expr_parse(job, &value))
        return;
    if (self->type == TV_SYM_SET && !value.known) {
        tv_asm_error_at(job, value.column, value.length, TV_CODE(ASM_NOT_CONSTANT),
                        "use .equ for a value that is defined later", ".set requires a value that is known here");
        return;
    }
    tv_symbol_define(job, name.text, at, self->type, TV_SYMBOL_CONSTANT, value);
}

static void handle_target(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_token name = job->lexer.token;
    (void)self;
    (void)column;
    if (name.kind != TV_TOK_NAME)
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), NULL, ".target requires the name of a machine");
    else if (tv_operands_set_target(job, name.text, tv_lex_column(job)))
        tv_lex_next(job);
}

/* .option proposed: the program uses proposed extensions intentionally. */
static void handle_option(tv_asm_job *job, const directive *self, unsigned column)
{
    (void)self;
    (void)column;
    if (tv_sv_is(job->lexer.token.text, "proposed")) {
        job->allows_proposed = true;
        tv_lex_next(job);
    } else {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), "`proposed` is the only option", "unknown option");
    }
}

static void add_requirement(tv_asm_job *job, const tv_buf *text)
{
    if (text->failed) {
        job->out_of_memory = true;
        return;
    }
    if (text->len >= TV_REQUIREMENT_MAX || job->requirements.count == TV_ASM_REQUIREMENTS_MAX) {
        tv_asm_error(job, TV_CODE(ASM_LIMIT), NULL,
                     text->len >= TV_REQUIREMENT_MAX ? "the requirement has more than %d bytes"
                                                     : "a program has at most %d requirements",
                     text->len >= TV_REQUIREMENT_MAX ? TV_REQUIREMENT_MAX - 1 : TV_ASM_REQUIREMENTS_MAX);
        return;
    }
    char *copy = tv_asm_alloc(job, text->len + 1);
    if (!copy)
        return;
    memcpy(copy, text->data, text->len);
    copy[text->len] = '\0';
    if (!TV_VEC_PUSH(&job->requirements, copy))
        job->out_of_memory = true;
}

/* True when the rest of the line is one value as configurations have them: "8", "0x40", "1.6", "8/5", or a name that is
 * no symbol. */
static bool is_parameter_value(tv_asm_job *job, tv_sv text)
{
    const tv_token *token = &job->lexer.token;
    if (token->kind == TV_TOK_NAME && token->text.len == text.len) {
        const tv_asm_symbol *symbol = tv_symbol_find(job, text);
        return !symbol || symbol->state == TV_SYM_UNDEFINED;
    }
    if (text.len == 0 || text.ptr[0] < '0' || text.ptr[0] > '9')
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!strchr("0123456789abcdefABCDEFxX_./", text.ptr[i]))
            return false;
    return true;
}

/* .require KEY OPERATOR VALUE: a parameter of the machine that the program depends on. */
static void handle_require(tv_asm_job *job, const directive *self, unsigned column)
{
    static const unsigned operators[TV_COMPARISONS] = {TV_OP2('=', '='), TV_OP2('!', '='), '<', TV_OP2('<', '='), '>',
                                                       TV_OP2('>', '=')};
    static const char example[] = "for example: .require vector.k == 8";
    tv_token key = job->lexer.token;
    (void)column;
    if (key.kind != TV_TOK_NAME) {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), example, "%s requires a parameter, a comparison and a value",
                     self->name);
        return;
    }
    tv_lex_next(job);
    unsigned i = 0;
    while (i < TV_COMPARISONS && !tv_lex_accept(job, operators[i]))
        i++;
    if (i == TV_COMPARISONS) {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), example, "expected ==, !=, <, <=, > or >= after '%.*s'",
                     TV_SV_ARG(key.text));
        return;
    }
    tv_buf text = {0};
    tv_sv rest;
    int64_t value;
    tv_buf_printf(&text, ".require %.*s %s ", TV_SV_ARG(key.text), tv_comparison_names[i]);
    tv_lex_rest(job, &rest);
    if (is_parameter_value(job, rest)) {
        tv_buf_append(&text, rest.ptr, rest.len);
        tv_lex_begin(job, (tv_sv){"", 0});
        add_requirement(job, &text);
    } else if (tv_expr_constant(job, &value, NULL)) {
        tv_buf_printf(&text, "%" PRId64, value);
        add_requirement(job, &text);
    }
    tv_buf_fini(&text);
}

/* .profile NAME: the program is for machines with exactly the parameters of a profile. */
static void handle_profile(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_sv name;
    (void)column;
    tv_lex_rest(job, &name);
    bool one_word = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        one_word = one_word && name.ptr[i] > ' ' && name.ptr[i] != '"';
    if (!one_word) {
        tv_asm_error(job, TV_CODE(ASM_DIRECTIVE), "`trivet config` lists the profiles",
                     "%s requires the name of a profile", self->name);
        return;
    }
    tv_buf text = {0};
    tv_buf_printf(&text, ".profile %.*s", TV_SV_ARG(name));
    tv_lex_begin(job, (tv_sv){"", 0});
    add_requirement(job, &text);
    tv_buf_fini(&text);
}

static void handle_include(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_buf path = {0};
    unsigned at = tv_lex_column(job);
    (void)self;
    (void)column;
    if (tv_expr_string(job, &path)) {
        if (job->lexer.token.kind != TV_TOK_END)
            tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "unexpected text after the file name");
        tv_source_push_file(job, (tv_sv){tv_asm_cstr(job, &path), path.len}, at);
        tv_lex_begin(job, (tv_sv){"", 0});
    }
    tv_buf_fini(&path);
}

static void handle_message(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_buf text = {0};
    unsigned length = (unsigned)strlen(self->name);
    if (tv_expr_string(job, &text)) {
        if (self->type)
            tv_asm_error_at(job, column, length, TV_CODE(ASM_USER), NULL, "%s", tv_asm_cstr(job, &text));
        else
            tv_asm_warning(job, column, length, TV_CODE(ASM_USER), NULL, "%s", tv_asm_cstr(job, &text));
    }
    tv_buf_fini(&text);
}

/* Directives of other assemblers that have no effect here. */
static void handle_ignored(tv_asm_job *job, const directive *self, unsigned column)
{
    (void)self;
    (void)column;
    tv_lex_begin(job, (tv_sv){"", 0});
}

/* wstream NAME, address, bytes: appends a descriptor to a weight stream. */
static void handle_wstream(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_token name = job->lexer.token;
    tv_expr addr, bytes;
    unsigned k = 0, count = job->isa ? tv_isa_stream_count(job->isa) : 0;
    if (count == 0) {
        tv_asm_error_at(job, column, (unsigned)strlen(self->name), TV_CODE(ASM_MNEMONIC),
                        job->isa ? NULL : "write `.target NAME` before it or give -t", "%s has no weight streams",
                        job->isa ? job->isa->target : "the target");
        return;
    }
    while (k < count && !tv_sv_is(name.text, job->isa->streams[k]))
        k++;
    if (name.kind != TV_TOK_NAME || k == count) {
        tv_buf hint = {0};
        tv_buf_str(&hint, "the streams are");
        for (unsigned i = 0; i < count; i++)
            tv_buf_printf(&hint, "%s %s", i ? " and" : "", job->isa->streams[i]);
        tv_asm_error(job, TV_CODE(ASM_OPERAND), tv_asm_cstr(job, &hint),
                     "wstream requires a stream, an address and a size");
        tv_buf_fini(&hint);
        return;
    }
    tv_lex_next(job);
    static const char example[] = "for example: wstream gemv, w, w_end - w";
    if (!tv_lex_accept(job, ','))
        tv_asm_error(job, TV_CODE(ASM_COMMA), example, "missing comma and address after '%.*s'", TV_SV_ARG(name.text));
    else if (!tv_expr_parse(job, &addr))
        return;
    else if (!tv_lex_accept(job, ','))
        tv_asm_error(job, TV_CODE(ASM_COMMA), example, "missing comma and size in bytes");
    else if (tv_expr_parse(job, &bytes))
        tv_emit_stream(job, k, &addr, &bytes);
}

static void handle_macro(tv_asm_job *job, const directive *self, unsigned column)
{
    (void)self;
    tv_block_macro(job, column);
}

static void handle_repeat(tv_asm_job *job, const directive *self, unsigned column)
{
    (void)self;
    tv_block_repeat(job, column);
}

static void handle_stray_end(tv_asm_job *job, const directive *self, unsigned column)
{
    tv_asm_error_at(job, column, (unsigned)strlen(self->name), TV_CODE(ASM_NESTING), NULL,
                    "%s without a matching block", self->name);
    tv_lex_begin(job, (tv_sv){"", 0});
}

static const directive directives[] = {
    {".byte", handle_values, TV_HEX8},   {".half", handle_values, TV_HEX16},
    {".word", handle_values, TV_HEX32},  {".word64", handle_values, TV_HEX64},
    {".bf16", handle_values, TV_BF16},   {".f16", handle_values, TV_F16},
    {".f32", handle_values, TV_F32},     {".int4", handle_int4, 0},
    {".int8", handle_values, TV_S8},     {".zero", handle_space, 0},
    {".space", handle_space, 1},         {".fill", handle_fill, 0},
    {".ascii", handle_string, 0},        {".asciz", handle_string, 1},
    {".incbin", handle_incbin, 0},       {".include", handle_include, 0},
    {".balign", handle_balign, 0},       {".org", handle_org, 0},
    {".text", handle_text, 0},           {".data", handle_data, 0},
    {".section", handle_section, 0},     {".equ", handle_assign, TV_SYM_EQU},
    {".set", handle_assign, TV_SYM_SET}, {".target", handle_target, 0},
    {".require", handle_require, 0},     {".profile", handle_profile, 0},
    {".option", handle_option, 0},       {".error", handle_message, 1},
    {".warning", handle_message, 0},     {".global", handle_ignored, 0},
    {".globl", handle_ignored, 0},       {"wstream", handle_wstream, 0},
    {".macro", handle_macro, 0},         {".rept", handle_repeat, 0},
    {".endm", handle_stray_end, 0},      {".endr", handle_stray_end, 0},
};

const char *tv_directive_name(unsigned i)
{
    static const char *const conditions[] = {".if", ".ifdef", ".ifndef", ".elseif", ".else", ".endif"};
    if (i < TV_COUNTOF(directives))
        return directives[i].name;
    i -= (unsigned)TV_COUNTOF(directives);
    return i < TV_COUNTOF(conditions) ? conditions[i] : NULL;
}

const char *tv_directive_elsewhere(tv_sv name)
{
    static const char *const names[][2] = {
        {".long", ".word"},    {".int", ".word"},     {".int32", ".word"},     {".uint32", ".word"},
        {".short", ".half"},   {".hword", ".half"},   {".int16", ".half"},     {".uint16", ".half"},
        {".2byte", ".half"},   {".4byte", ".word"},   {".8byte", ".word64"},   {".quad", ".word64"},
        {".dword", ".word64"}, {".int64", ".word64"}, {".uint8", ".byte"},     {".db", ".byte"},
        {".float", ".f32"},    {".single", ".f32"},   {".fp32", ".f32"},       {".float32", ".f32"},
        {".fp16", ".f16"},     {".float16", ".f16"},  {".bfloat16", ".bf16"},  {".string", ".asciz"},
        {".skip", ".space"},   {".align", ".balign"}, {".p2align", ".balign"}, {".endmacro", ".endm"},
        {".endrept", ".endr"}, {".elif", ".elseif"},  {".rodata", ".data"},    {".bss", ".data"},
        {".define", ".equ"},   {".equiv", ".equ"}};
    for (size_t i = 0; i < TV_COUNTOF(names); i++)
        if (tv_sv_is(name, names[i][0]))
            return names[i][1];
    return NULL;
}

void tv_directive_suggest(tv_nearest *nearest)
{
    const char *name;
    for (unsigned i = 0; (name = tv_directive_name(i)); i++)
        tv_nearest_offer(nearest, name);
}

bool tv_directive(tv_asm_job *job, tv_sv name, unsigned column)
{
    if (name.ptr[0] != '.' && name.ptr[0] != 'w')
        return false;
    for (size_t i = 0; i < TV_COUNTOF(directives); i++)
        if (tv_sv_is(name, directives[i].name)) {
            directives[i].handle(job, &directives[i], column);
            return true;
        }
    return false;
}
