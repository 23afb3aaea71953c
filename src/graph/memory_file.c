/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a range of memory as a file. */
#include "trivet/memory_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memh.h"
#include "base/sv.h"
#include "graph/npy.h"

tv_memory_format tv_memory_format_of(const char *path)
{
    return tv_sv_ends_with(tv_sv_of(path), ".npy")    ? TV_MEMORY_NPY
           : tv_sv_ends_with(tv_sv_of(path), ".memh") ? TV_MEMORY_MEMH
                                                      : TV_MEMORY_RAW;
}

TV_PRINTF(4, 5)
static tv_status reject(const char *name, const tv_diag_sink *sink, const char *hint, const char *format, ...)
{
    tv_source_loc loc = TV_NO_SOURCE_LOC;
    va_list args;
    loc.file = name;
    va_start(args, format);
    tv_vreport(sink, TV_ERROR, TV_CODE(MACHINE_FILE), &loc, hint, format, args);
    va_end(args);
    return TV_ERR_INPUT;
}

/* ---- Packed elements ---- */

/* The bits of element i. */
static uint64_t load_bits(unsigned bits, const uint8_t *bytes, uint64_t i)
{
    uint64_t value = 0;
    if (bits < 8)
        return bytes[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
    for (unsigned b = bits / 8; b-- > 0;)
        value = value << 8 | bytes[i * (bits / 8) + b];
    return value;
}

/* Sets bits of element i, which are 0. */
static void store_bits(unsigned bits, uint8_t *bytes, uint64_t i, uint64_t value)
{
    if (bits < 8)
        bytes[i * bits / 8] |= (uint8_t)((value & ((1u << bits) - 1)) << i * bits % 8);
    for (unsigned b = 0; b < bits / 8; b++)
        bytes[i * (bits / 8) + b] = (uint8_t)(value >> 8 * b);
}

/* Sets the bits of `known` of all elements. */
static void set_all_known(const tv_range *range, uint8_t *known)
{
    uint64_t bits = range->count * tv_dtype_bits(range->type);
    if (!bits)
        return;
    memset(known, 0xFF, (size_t)(bits / 8));
    if (bits % 8)
        known[bits / 8] = (uint8_t)((1u << bits % 8) - 1);
}

/* ---- Raw ---- */

static tv_status parse_raw(const char *name, tv_sv data, const tv_range *range, uint8_t *bytes, uint8_t *known,
                           const tv_diag_sink *sink)
{
    uint64_t size = tv_dtype_bytes(range->type, range->count);
    if (data.len != size)
        return reject(name, sink, "a raw file has the bytes of the range, as they are in memory",
                      "the file has %zu bytes, expected %" PRIu64 ": %" PRIu64 " elements of %s", data.len, size,
                      range->count, tv_dtype_name(range->type));
    if (size)
        memcpy(bytes, data.ptr, (size_t)size);
    set_all_known(range, known);
    return TV_OK;
}

/* ---- NumPy ---- */

/* The element type of a tensor for elements of memory. Elements of less than a byte become bytes. */
static tv_element element_of(tv_dtype type)
{
    switch (type) {
    case TV_I2:
    case TV_I4:
    case TV_S8:
        return TV_ELEMENT_I8;
    case TV_U8:
    case TV_HEX8:
        return TV_ELEMENT_U8;
    case TV_S16:
        return TV_ELEMENT_I16;
    case TV_U16:
    case TV_BF16:
    case TV_HEX16:
        return TV_ELEMENT_U16;
    case TV_S32:
        return TV_ELEMENT_I32;
    case TV_U32:
    case TV_HEX32:
        return TV_ELEMENT_U32;
    case TV_F32:
        return TV_ELEMENT_F32;
    case TV_F16:
        return TV_ELEMENT_F16;
    case TV_HEX64:
        return TV_ELEMENT_U64;
    case TV_DTYPE_COUNT:
        break;
    }
    return TV_ELEMENT_U8;
}

/* The shape of a range; its data are absent. */
static tv_tensor tensor_of(const tv_range *range)
{
    tv_tensor t = {.element = element_of(range->type), .rank = range->rank ? range->rank : 1};
    t.dims[0] = (int64_t)range->count;
    for (unsigned i = 0; i < range->rank; i++)
        t.dims[i] = (int64_t)range->dims[i];
    return t;
}

static tv_status save_npy(const char *path, const tv_range *range, const uint8_t *bytes, tv_output_group *group,
                          const tv_diag_sink *sink)
{
    tv_tensor shape = tensor_of(range), t;
    unsigned bits = tv_dtype_bits(range->type);
    TV_TRY(tv_tensor_init(&t, shape.element, shape.rank, shape.dims, sink));
    int8_t *data = t.data;
    if (bits >= 8 && range->count)
        memcpy(data, bytes, tv_tensor_bytes(&t));
    for (uint64_t i = 0; bits < 8 && i < range->count; i++) /* signed */
        data[i] = (int8_t)(int32_t)tv_dtype_value(range->type, bytes, i);
    tv_status status = tv_npy_write(&t, path, group, sink);
    tv_tensor_fini(&t);
    return status;
}

/* Checks type and shape of an array. Any shape with the elements of a range of one dimension is accepted. */
static tv_status check_array(const char *name, const tv_tensor *t, const tv_range *range, const tv_diag_sink *sink)
{
    tv_tensor expected = tensor_of(range);
    char found_text[TV_TENSOR_TEXT_MAX], expected_text[TV_TENSOR_TEXT_MAX], hint[96];
    bool same_shape = tv_tensor_count(t) == range->count &&
                      (range->rank == 0 ||
                       (t->rank == expected.rank && memcmp(t->dims, expected.dims, sizeof t->dims[0] * t->rank) == 0));
    if (t->element == expected.element && same_shape)
        return TV_OK;
    tv_tensor_print_shape(t, found_text);
    tv_tensor_print_shape(&expected, expected_text);
    snprintf(hint, sizeof hint, "elements of %s are %s in .npy files", tv_dtype_name(range->type),
             tv_element_infos[expected.element].name);
    return reject(name, sink, hint, "the array is %s, expected %s", found_text, expected_text);
}

static tv_status pack_array(const char *name, const tv_tensor *t, const tv_range *range, uint8_t *bytes,
                            const tv_diag_sink *sink)
{
    unsigned bits = tv_dtype_bits(range->type);
    const int8_t *data = t->data;
    if (bits >= 8 && range->count)
        memcpy(bytes, data, tv_tensor_bytes(t));
    for (uint64_t i = 0; bits < 8 && i < range->count; i++) {
        if (data[i] < -(1 << (bits - 1)) || data[i] >= 1 << (bits - 1))
            return reject(name, sink, NULL, "element %" PRIu64 " is %d, which is no %s", i, data[i],
                          tv_dtype_name(range->type));
        store_bits(bits, bytes, i, (uint64_t)data[i]);
    }
    return TV_OK;
}

static tv_status parse_npy(const char *name, tv_sv data, const tv_range *range, uint8_t *bytes, uint8_t *known,
                           const tv_diag_sink *sink)
{
    tv_tensor t;
    TV_TRY(tv_npy_parse(name, data, sink, &t));
    tv_status status = check_array(name, &t, range, sink);
    if (status == TV_OK)
        status = pack_array(name, &t, range, bytes, sink);
    if (status == TV_OK)
        set_all_known(range, known);
    tv_tensor_fini(&t);
    return status;
}

/* ---- $readmemh ---- */

static void write_memh(const tv_range *range, const uint8_t *bytes, FILE *out)
{
    unsigned bits = tv_dtype_bits(range->type);
    fprintf(out, "// %s:0x%" PRIx64 ", %" PRIu64 " elements of %s\n", range->space.name, range->addr, range->count,
            tv_dtype_name(range->type));
    for (uint64_t i = 0; i < range->count; i++)
        fprintf(out, "%0*" PRIx64 "\n", (int)(bits + 3) / 4, load_bits(bits, bytes, i));
}

/* The element of a word must be in the range, and is given once. */
static tv_status check_word(const char *name, const tv_memh_word *word, const tv_range *range, const uint8_t *known,
                            const tv_diag_sink *sink)
{
    tv_source_loc loc = {.file = name, .line = word->line, .column = word->column, .index = -1};
    if (word->addr >= range->count)
        tv_report(sink, TV_ERROR, TV_CODE(MACHINE_FILE), &loc, NULL,
                  "the word is element %" PRIu64 ", the range has %" PRIu64 " elements", word->addr, range->count);
    else if (load_bits(tv_dtype_bits(range->type), known, word->addr))
        tv_report(sink, TV_ERROR, TV_CODE(MACHINE_FILE), &loc, NULL, "element %" PRIu64 " is given twice", word->addr);
    else
        return TV_OK;
    return TV_ERR_INPUT;
}

static tv_status parse_memh(const char *name, tv_sv data, const tv_range *range, uint8_t *bytes, uint8_t *known,
                            const tv_diag_sink *sink)
{
    unsigned bits = tv_dtype_bits(range->type);
    tv_memh_reader reader;
    tv_memh_word word;
    uint64_t expected = 0;
    bool found, jumped = false;
    tv_memh_init(&reader, name, data, bits, sink);
    for (;;) {
        TV_TRY(tv_memh_next(&reader, &word, &found));
        if (!found)
            break;
        TV_TRY(check_word(name, &word, range, known, sink));
        jumped = jumped || word.addr != expected;
        expected = word.addr + 1;
        store_bits(bits, bytes, word.addr, word.value & word.known);
        store_bits(bits, known, word.addr, word.known);
    }
    if (!jumped && expected != range->count)
        return reject(name, sink, "`@` and the hexadecimal number of an element leaves out those before it",
                      "the file has %" PRIu64 " elements, expected %" PRIu64, expected, range->count);
    return TV_OK;
}

/* ---- Files ---- */

tv_status tv_memory_save(const char *path, const tv_range *range, const void *bytes, tv_output_group *group,
                         const tv_diag_sink *sink)
{
    tv_output *output;
    tv_memory_format format = tv_memory_format_of(path);
    if (format == TV_MEMORY_NPY)
        return save_npy(path, range, bytes, group, sink);
    TV_TRY(tv_output_open(path, sink, &output));
    size_t size = (size_t)tv_dtype_bytes(range->type, range->count);
    if (format == TV_MEMORY_MEMH)
        write_memh(range, bytes, tv_output_stream(output));
    else if (size)
        fwrite(bytes, 1, size, tv_output_stream(output)); /* the commit reports failures */
    return tv_output_commit_to(output, group, sink);
}

tv_status tv_memory_parse(const char *name, const void *data, size_t size, const tv_range *range, void *bytes,
                          void *known, const tv_diag_sink *sink)
{
    static tv_status (*const readers[])(const char *name, tv_sv data, const tv_range *range, uint8_t *bytes,
                                        uint8_t *known, const tv_diag_sink *sink) = {
        [TV_MEMORY_RAW] = parse_raw, [TV_MEMORY_NPY] = parse_npy, [TV_MEMORY_MEMH] = parse_memh};
    size_t range_size = (size_t)tv_dtype_bytes(range->type, range->count);
    tv_sv text = {size ? data : "", size};
    memset(bytes, 0, range_size);
    memset(known, 0, range_size);
    return readers[tv_memory_format_of(name)](name, text, range, bytes, known, sink);
}

tv_status tv_memory_load(const char *path, const tv_range *range, void *bytes, void *known, const tv_diag_sink *sink)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_memory_parse(path, input.data, input.size, range, bytes, known, sink);
    tv_input_close(&input);
    return status;
}

/* ---- The range of a file ---- */

static tv_status measure_npy(const char *name, tv_sv data, tv_range *range, const tv_diag_sink *sink)
{
    static const tv_dtype types[] = {TV_U8, TV_S8, TV_U16, TV_S16, TV_U32, TV_S32, TV_F32, TV_F16, TV_HEX64};
    tv_tensor t;
    TV_TRY(tv_npy_parse(name, data, sink, &t));
    unsigned i = 0;
    while (i < sizeof types / sizeof types[0] && element_of(types[i]) != t.element)
        i++;
    bool found = i < sizeof types / sizeof types[0] && t.rank <= TV_RANGE_RANK_MAX;
    if (found) {
        range->type = types[i];
        range->count = tv_tensor_bytes(&t) * 8 / tv_dtype_bits(types[i]);
        range->rank = t.rank;
        for (unsigned d = 0; d < t.rank; d++)
            range->dims[d] = (uint64_t)t.dims[d];
    }
    tv_status status =
        found ? TV_OK : reject(name, sink, NULL, "memory has no elements of type %s", tv_element_infos[t.element].name);
    tv_tensor_fini(&t);
    return status;
}

/* Digits of the word at `column`, without `_`. */
static unsigned count_digits(const tv_memh_reader *reader, const tv_memh_word *word)
{
    unsigned digits = 0;
    for (const char *at = reader->line_start + word->column - 1; at < reader->at; at++)
        digits += *at != '_';
    return digits;
}

static tv_status measure_memh(const char *name, tv_sv data, tv_range *range, const tv_diag_sink *sink)
{
    static const tv_dtype types[] = {[2] = TV_HEX8, [4] = TV_HEX16, [8] = TV_HEX32, [16] = TV_HEX64};
    tv_memh_reader reader;
    tv_memh_word word;
    bool found;
    unsigned digits = 0;
    range->count = 0;
    range->type = TV_HEX8;
    tv_memh_init(&reader, name, data, 64, sink);
    for (;;) {
        TV_TRY(tv_memh_next(&reader, &word, &found));
        if (!found)
            return TV_OK;
        if (!digits) {
            digits = count_digits(&reader, &word);
            if (digits >= sizeof types / sizeof types[0] || (digits & (digits - 1)) || digits < 2)
                return reject(name, sink, "give the range, SPACE:ADDR:LEN:TYPE",
                              "the first word has %u digits, expected 2, 4, 8 or 16", digits);
            range->type = types[digits];
        }
        range->count = tv_max_u64(range->count, word.addr < UINT64_MAX ? word.addr + 1 : word.addr);
    }
}

tv_status tv_memory_measure(const char *path, tv_range *range, const tv_diag_sink *sink)
{
    tv_input input;
    tv_status status = TV_OK;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_sv data = {input.size ? (const char *)input.data : "", input.size};
    range->rank = 0;
    switch (tv_memory_format_of(path)) {
    case TV_MEMORY_RAW:
        range->type = TV_HEX8;
        range->count = input.size;
        break;
    case TV_MEMORY_NPY:
        status = measure_npy(path, data, range, sink);
        break;
    case TV_MEMORY_MEMH:
        status = measure_memh(path, data, range, sink);
        break;
    }
    tv_input_close(&input);
    return status;
}
