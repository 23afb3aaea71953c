/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy files and raw files.
 *
 * A .npy file is the magic bytes, two bytes of version, the length of the header (16 bits in version 1, 32 bits later),
 * the header, and the elements. The header is a dictionary as Python writes it, with three keys in any order:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }
 * The file is hostile: lengths are compared with its size before anything is allocated, and a tensor has at most as
 * many bytes as its file. */
#include "graph/npy.h"

#include <inttypes.h>
#include <stdio.h>

#include "graph/codes.h"

static const char MAGIC[] = "\x93NUMPY";

enum {
    MAGIC_SIZE = 6,
    PREFIX_SIZE = 10, /* of version 1.0: magic, version, 16 bits of length */
    ALIGNMENT = 64,   /* of the elements */
    HEADER_MAX = 512, /* of what is written */
    SHOWN_MAX = 40    /* characters of a text in a message */
};

typedef struct npy_reader {
    const char *path;
    const tv_diag_sink *sink;
    tv_sv file;
    size_t at, end; /* of the header's text, in bytes of the file */
    /* what the header says */
    tv_element element;
    bool big_endian, columns_first;
    uint32_t rank;
    int64_t dims[TV_TENSOR_RANK_MAX];
} npy_reader;

TV_PRINTF(4, 5)
static tv_status reject(const npy_reader *r, const tv_code *code, const char *hint, const char *format, ...)
{
    tv_source_loc loc = TV_NO_SOURCE_LOC;
    va_list args;
    loc.file = r->path;
    va_start(args, format);
    tv_vreport(r->sink, TV_ERROR, code, &loc, hint, format, args);
    va_end(args);
    return TV_ERR_INPUT;
}

/* ---- The header's dictionary ---- */

static void skip_space(npy_reader *r)
{
    while (r->at < r->end && r->file.ptr[r->at] && strchr(" \t\n\r\f\v", r->file.ptr[r->at]))
        r->at++;
}

/* Skips a character if it is next, after white space. */
static bool accept_char(npy_reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || r->file.ptr[r->at] != c)
        return false;
    r->at++;
    return true;
}

static tv_status reject_next(const npy_reader *r, const char *expected)
{
    static const char hint[] = "write the file again with numpy.save";
    if (r->at == r->end)
        return reject(r, TV_LLM_CODE(NPY), hint, "the header ends where %s is expected", expected);
    uint8_t c = (uint8_t)r->file.ptr[r->at];
    if (c >= 0x20 && c < 0x7F)
        return reject(r, TV_LLM_CODE(NPY), hint, "byte %zu of the header is '%c', expected %s", r->at, c, expected);
    return reject(r, TV_LLM_CODE(NPY), hint, "byte %zu of the header is 0x%02x, expected %s", r->at, c, expected);
}

/* A text in quotes, without escapes. */
static tv_status read_text(npy_reader *r, const char *expected, tv_sv *out)
{
    char quote = '\'';
    if (!accept_char(r, quote) && !accept_char(r, quote = '"'))
        return reject_next(r, expected);
    size_t start = r->at;
    while (r->at < r->end && r->file.ptr[r->at] != quote && r->file.ptr[r->at] != '\\' && r->file.ptr[r->at] != '\n')
        r->at++;
    if (r->at == r->end || r->file.ptr[r->at] != quote)
        return reject_next(r, quote == '"' ? "a double quote" : "a single quote");
    *out = (tv_sv){r->file.ptr + start, r->at++ - start};
    return TV_OK;
}

/* The type that a file has for an element type. */
static tv_element stored_type(tv_element element)
{
    return element == TV_ELEMENT_BF16 ? TV_ELEMENT_U16
           : element == TV_ELEMENT_I4 ? TV_ELEMENT_I8
           : element == TV_ELEMENT_U4 ? TV_ELEMENT_U8
                                      : element;
}

/* The letter of NumPy for a kind of elements. */
static char kind_letter(tv_element_kind kind)
{
    switch (kind) {
    case TV_KIND_REAL:
        return 'f';
    case TV_KIND_SIGNED:
        return 'i';
    case TV_KIND_UNSIGNED:
        return 'u';
    case TV_KIND_FLAG:
        return 'b';
    }
    return '\0';
}

/* A byte order, which may be absent, a letter, and a number of bytes: "<f4". */
static bool parse_type(npy_reader *r, tv_sv text)
{
    if (text.len && strchr("<>=|", text.ptr[0])) {
        r->big_endian = text.ptr[0] == '>';
        text = (tv_sv){text.ptr + 1, text.len - 1};
    }
    for (unsigned i = 0; i < TV_ELEMENTS && text.len == 2; i++) {
        const tv_element_info *info = &tv_element_infos[i];
        r->element = (tv_element)i;
        if (stored_type(r->element) == r->element && text.ptr[0] == kind_letter(info->kind) &&
            text.ptr[1] == '0' + info->bytes)
            return true;
    }
    return false;
}

static tv_status read_type(npy_reader *r)
{
    static const char hint[] = "numpy.save(path, array.astype('float32')) writes a type that is read";
    tv_sv text;
    if (accept_char(r, '['))
        return reject(r, TV_LLM_CODE(NPY_TYPE), "save one field", "the elements are records, expected numbers");
    TV_TRY(read_text(r, "an element type in quotes", &text));
    if (parse_type(r, text))
        return TV_OK;
    int shown = (int)(text.len < SHOWN_MAX ? text.len : SHOWN_MAX);
    return reject(
        r, TV_LLM_CODE(NPY_TYPE), hint,
        "the element type '%.*s' is not supported, expected bool, int8 to int64, uint8 to uint64 or float16 to "
        "float64",
        shown, text.ptr);
}

static bool accept_word(npy_reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_space(r);
    if (r->end - r->at < n || memcmp(r->file.ptr + r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static tv_status read_order(npy_reader *r)
{
    r->columns_first = accept_word(r, "True");
    return r->columns_first || accept_word(r, "False") ? TV_OK : reject_next(r, "True or False");
}

static bool is_digit(const npy_reader *r)
{
    return r->at < r->end && r->file.ptr[r->at] >= '0' && r->file.ptr[r->at] <= '9';
}

static tv_status read_extent(npy_reader *r)
{
    int64_t value = 0;
    skip_space(r);
    if (!is_digit(r))
        return reject_next(r, "an extent of at least 0");
    if (r->rank == TV_TENSOR_RANK_MAX)
        return reject(r, TV_LLM_CODE(ARRAY_DIMS), NULL, "the array has more than %d dimensions", TV_TENSOR_RANK_MAX);
    for (; is_digit(r); r->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, r->file.ptr[r->at] - '0', &value))
            return reject(r, TV_LLM_CODE(ARRAY_DIMS), NULL, "extent %u of the array exceeds 2^63 - 1", r->rank);
    if (r->at < r->end && r->file.ptr[r->at] == 'L')
        r->at++; /* Python 2 wrote long integers so */
    r->dims[r->rank++] = value;
    return TV_OK;
}

/* A tuple: (), (3,), (3, 4). */
static tv_status read_shape(npy_reader *r)
{
    if (!accept_char(r, '('))
        return reject_next(r, "the shape in parentheses");
    while (!accept_char(r, ')')) {
        TV_TRY(read_extent(r));
        if (accept_char(r, ','))
            continue;
        if (r->rank == 1)
            return reject_next(r, "a comma after the only extent");
        if (!accept_char(r, ')'))
            return reject_next(r, "a comma or the end of the shape");
        break;
    }
    return TV_OK;
}

static const struct header_key {
    const char *name;
    tv_status (*read)(npy_reader *r);
} keys[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};

enum { KEYS = sizeof keys / sizeof keys[0] };

static tv_status read_member(npy_reader *r, unsigned *found)
{
    tv_sv name;
    unsigned k = 0;
    TV_TRY(read_text(r, "a key in quotes", &name));
    while (k < KEYS && !tv_sv_is(name, keys[k].name))
        k++;
    int shown = (int)(name.len < SHOWN_MAX ? name.len : SHOWN_MAX);
    if (k == KEYS)
        return reject(r, TV_LLM_CODE(NPY), NULL,
                      "the header has the key '%.*s', expected descr, fortran_order and shape", shown, name.ptr);
    if (*found >> k & 1)
        return reject(r, TV_LLM_CODE(NPY), NULL, "the header has the key '%s' twice", keys[k].name);
    *found |= 1u << k;
    return accept_char(r, ':') ? keys[k].read(r) : reject_next(r, "a colon");
}

static tv_status read_dictionary(npy_reader *r)
{
    unsigned found = 0;
    if (!accept_char(r, '{'))
        return reject_next(r, "a dictionary in braces");
    while (!accept_char(r, '}')) {
        TV_TRY(read_member(r, &found));
        if (accept_char(r, ','))
            continue;
        if (!accept_char(r, '}'))
            return reject_next(r, "a comma or the end of the dictionary");
        break;
    }
    for (unsigned k = 0; k < KEYS; k++)
        if (!(found >> k & 1))
            return reject(r, TV_LLM_CODE(NPY), NULL, "the header has no key '%s'", keys[k].name);
    skip_space(r);
    return r->at == r->end ? TV_OK : reject_next(r, "nothing after the dictionary");
}

/* ---- Before and after the header ---- */

/* Checks the bytes before the header, and sets its limits. */
static tv_status read_prefix(npy_reader *r)
{
    const uint8_t *bytes = (const uint8_t *)r->file.ptr;
    if (r->file.len < MAGIC_SIZE || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
        return reject(r, TV_LLM_CODE(NPY), "numpy.save writes such files", "the file is not a .npy file");
    if (r->file.len < PREFIX_SIZE)
        return reject(r, TV_LLM_CODE(NPY), NULL, "the file ends in the first %d bytes", PREFIX_SIZE);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return reject(r, TV_LLM_CODE(NPY), NULL, "the .npy version is %u.%u, expected 1.0, 2.0 or 3.0", bytes[6],
                      bytes[7]);
    r->at = bytes[6] == 1 ? PREFIX_SIZE : PREFIX_SIZE + 2;
    uint64_t length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    if (r->file.len < r->at)
        return reject(r, TV_LLM_CODE(NPY), NULL, "the file ends in the first %zu bytes", r->at);
    if (bytes[6] > 1)
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (length > r->file.len - r->at)
        return reject(r, TV_LLM_CODE(NPY), NULL, "the header has %" PRIu64 " bytes, the file %zu after its start",
                      length, r->file.len - r->at);
    r->end = r->at + (size_t)length;
    return TV_OK;
}

/* Checks that the bytes from `start` on are the elements of the shape. */
static tv_status check_size(const npy_reader *r, size_t start)
{
    tv_tensor t = {.element = r->element, .rank = r->rank};
    char text[TV_TENSOR_TEXT_MAX];
    memcpy(t.dims, r->dims, sizeof t.dims);
    tv_tensor_print_shape(&t, text);
    if (!tv_tensor_fits(r->element, r->rank, r->dims))
        return reject(r, TV_LLM_CODE(ARRAY_DIMS), NULL, "the shape %s is no shape of a tensor in memory", text);
    size_t present = r->file.len - start, bytes = tv_tensor_bytes(&t);
    if (present == bytes)
        return TV_OK;
    return reject(r, TV_LLM_CODE(ARRAY_DATA),
                  present < bytes ? "the file was cut off, or has another type or shape" : NULL,
                  "%s has %zu bytes, the file %zu", text, bytes, present);
}

/* ---- Elements ---- */

/* Copies elements whose source strides are given per dimension, in elements. */
static void copy_strided(tv_tensor *t, const uint8_t *raw, const uint64_t *strides)
{
    size_t size = tv_element_infos[t->element].bytes;
    int64_t index[TV_TENSOR_RANK_MAX] = {0};
    uint64_t count = tv_tensor_count(t), from = 0;
    uint8_t *to = t->data;
    for (uint64_t i = 0; i < count; i++, to += size) {
        memcpy(to, raw + from * size, size);
        for (uint32_t d = t->rank; d-- > 0;) {
            from += strides[d];
            if (++index[d] < t->dims[d])
                break;
            from -= strides[d] * (uint64_t)t->dims[d];
            index[d] = 0;
        }
    }
}

static void copy_columns_first(tv_tensor *t, const uint8_t *raw)
{
    uint64_t strides[TV_TENSOR_RANK_MAX], stride = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        strides[d] = stride;
        stride *= (uint64_t)t->dims[d];
    }
    copy_strided(t, raw, strides);
}

static void swap_bytes(tv_tensor *t)
{
    size_t size = tv_element_infos[t->element].bytes, bytes = tv_tensor_bytes(t);
    uint8_t *data = t->data;
    for (size_t at = 0; at < bytes; at += size)
        for (size_t i = 0; i < size / 2; i++) {
            uint8_t byte = data[at + i];
            data[at + i] = data[at + size - 1 - i];
            data[at + size - 1 - i] = byte;
        }
}

/* Makes the elements of a tensor from bytes whose number is right. */
static tv_status copy_elements(const npy_reader *r, const uint8_t *raw, tv_tensor *out)
{
    TV_TRY(tv_tensor_init(out, r->element, r->rank, r->dims, r->sink));
    if (r->columns_first && r->rank > 1)
        copy_columns_first(out, raw);
    else if (tv_tensor_bytes(out))
        memcpy(out->data, raw, tv_tensor_bytes(out));
    if (r->big_endian)
        swap_bytes(out);
    uint8_t *flags = out->data;
    for (uint64_t i = 0; r->element == TV_ELEMENT_BOOL && i < tv_tensor_count(out); i++)
        flags[i] = flags[i] != 0;
    return TV_OK;
}

tv_status tv_npy_parse(const char *path, tv_sv bytes, const tv_diag_sink *sink, tv_tensor *out)
{
    npy_reader r = {.path = path, .sink = sink, .file = bytes};
    *out = (tv_tensor){0};
    TV_TRY(read_prefix(&r));
    TV_TRY(read_dictionary(&r));
    TV_TRY(check_size(&r, r.end));
    return copy_elements(&r, (const uint8_t *)bytes.ptr + r.end, out);
}

tv_status tv_npy_read(const char *path, const tv_diag_sink *sink, tv_tensor *out)
{
    tv_input input;
    *out = (tv_tensor){0};
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_npy_parse(path, (tv_sv){(const char *)input.data, input.size}, sink, out);
    tv_input_close(&input);
    return status;
}

tv_status tv_raw_read(const char *path, tv_element element, uint32_t rank, const int64_t *dims,
                      const tv_diag_sink *sink, tv_tensor *out)
{
    npy_reader r = {.path = path, .sink = sink, .element = stored_type(element), .rank = rank};
    tv_input input;
    *out = (tv_tensor){0};
    if (rank > TV_TENSOR_RANK_MAX)
        return reject(&r, TV_LLM_CODE(ARRAY_DIMS), NULL, "the array has more than %d dimensions", TV_TENSOR_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++)
        r.dims[i] = dims[i];
    TV_TRY(tv_input_open(path, sink, &input));
    r.file = (tv_sv){(const char *)input.data, input.size};
    tv_status status = check_size(&r, 0);
    if (status == TV_OK)
        status = copy_elements(&r, input.data, out);
    tv_input_close(&input);
    if (status == TV_OK && !tv_tensor_restore(out, element)) {
        tv_tensor_fini(out);
        status = reject(&r, TV_LLM_CODE(ARRAY_DATA), "a byte has one element", "a value is out of the range of %s",
                        tv_element_infos[element].name);
    }
    return status;
}

bool tv_tensor_restore(tv_tensor *t, tv_element element)
{
    if (t->element == element)
        return true;
    if (t->element != stored_type(element))
        return false;
    int64_t low = element == TV_ELEMENT_I4 ? -8 : 0, high = element == TV_ELEMENT_I4 ? 7 : 15;
    uint64_t count = element == TV_ELEMENT_BF16 ? 0 : tv_tensor_count(t);
    for (uint64_t i = 0; i < count; i++)
        if (tv_tensor_integer(t, i) < low || tv_tensor_integer(t, i) > high)
            return false;
    t->element = element;
    return true;
}

/* ---- Writing ---- */

/* Writes bytes and the elements after them. */
static tv_status write_file(const tv_tensor *t, tv_sv header, const char *path, tv_output_group *group,
                            const tv_diag_sink *sink)
{
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    FILE *file = tv_output_stream(output);
    size_t bytes = tv_tensor_bytes(t);
    if (header.len)
        fwrite(header.ptr, 1, header.len, file);
    if (bytes)
        fwrite(t->data, 1, bytes, file); /* the commit reports failures */
    return tv_output_commit_to(output, group, sink);
}

tv_status tv_npy_write(const tv_tensor *t, const char *path, tv_output_group *group, const tv_diag_sink *sink)
{
    char text[HEADER_MAX];
    const tv_element_info *info = &tv_element_infos[stored_type(t->element)];
    int n = snprintf(text + PREFIX_SIZE, sizeof text - PREFIX_SIZE,
                     "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (", info->bytes > 1 ? '<' : '|',
                     kind_letter(info->kind), info->bytes);
    size_t len = PREFIX_SIZE + (size_t)n;
    for (uint32_t i = 0; i < t->rank; i++) {
        const char *separator = t->rank == 1 ? "," : i + 1 < t->rank ? ", " : "";
        len += (size_t)snprintf(text + len, sizeof text - len, "%" PRId64 "%s", t->dims[i], separator);
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "), }");
    size_t end = (len + ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* with a newline */
    memset(text + len, ' ', end - len);
    text[end - 1] = '\n';
    memcpy(text, MAGIC, MAGIC_SIZE);
    memcpy(text + MAGIC_SIZE, "\1\0", 2);
    text[8] = (char)((end - PREFIX_SIZE) & 0xFF);
    text[9] = (char)((end - PREFIX_SIZE) >> 8);
    return write_file(t, (tv_sv){text, end}, path, group, sink);
}

tv_status tv_raw_write(const tv_tensor *t, const char *path, tv_output_group *group, const tv_diag_sink *sink)
{
    return write_file(t, (tv_sv){0}, path, group, sink);
}
