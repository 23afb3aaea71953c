/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum, as products of matrices. A term is a value whose axes have labels. Terms are combined one after the other:
 * labels that only one term has, and not the output, are summed; of two terms, common labels are the batch if they are
 * needed after it, and the inner axis otherwise. */
#include "import/onnx_products.h"
#include "import/onnx_table.h"

enum { ELLIPSIS = 128 }; /* the labels of axes for which dots stand; the last one is ELLIPSIS */

typedef struct term {
    uint32_t value, rank;
    uint8_t labels[TV_GRAPH_RANK_MAX];
} term;

static bool has_label(const term *t, uint8_t label)
{
    bool has = false;
    for (uint32_t i = 0; i < t->rank; i++)
        has |= t->labels[i] == label;
    return has;
}

/* Adds the labels of one term of the equation, to its end or a comma or arrow; `dots` axes for an ellipsis. */
static size_t parse_term(tv_onnx_node *n, tv_sv text, size_t at, uint32_t dots, term *t)
{
    for (; at < text.len && text.ptr[at] != ',' && text.ptr[at] != '-'; at++) {
        char c = text.ptr[at];
        uint32_t count = c == '.' ? dots : 1;
        if (c == ' ')
            continue;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool ellipsis = c == '.' && at + 2 < text.len && text.ptr[at + 1] == '.' && text.ptr[at + 2] == '.';
        if ((!letter && !ellipsis) || t->rank + count > TV_GRAPH_RANK_MAX) {
            tv_onnx_reject(n, TV_ONNX_INVALID, "the equation is not valid");
            return text.len;
        }
        for (uint32_t i = 0; i < count && t->rank < TV_GRAPH_RANK_MAX; i++)
            t->labels[t->rank++] = ellipsis ? (uint8_t)(ELLIPSIS + count - 1 - i) : (uint8_t)c;
        at += ellipsis ? 2 : 0;
    }
    return at;
}

/* Number of axes that an ellipsis of a term stands for. */
static uint32_t count_dots(tv_sv text, size_t at, uint32_t rank)
{
    uint32_t letters = 0;
    for (; at < text.len && text.ptr[at] != ',' && text.ptr[at] != '-'; at++)
        letters += text.ptr[at] != '.' && text.ptr[at] != ' ';
    return rank > letters ? rank - letters : 0;
}

/* Makes an axis of the two with the same label. */
static void take_diagonal(tv_onnx_node *n, term *t, uint32_t first, uint32_t second)
{
    tv_graph_shape dims = tv_onnx_dims(n, t->value);
    uint32_t perm[TV_GRAPH_RANK_MAX] = {0};
    int64_t extent = dims.dims[first];
    if (dims.dims[second] != extent)
        tv_onnx_reject(n, TV_ONNX_INVALID, "axes of the same label differ in extent");
    uint32_t axes = UINT32_C(1) << first | UINT32_C(1) << second;
    uint32_t x = tv_onnx_axes_last(n, t->value, axes, perm);
    tv_graph_shape out = tv_onnx_dims(n, x);
    if (!tv_onnx_ok(n))
        return;
    tv_graph_lists lists = {0};
    for (uint32_t i = 0; i < out.rank; i++)
        lists.step[i] = 1;
    lists.step[out.rank - 1] = extent + 1;
    out.dims[out.rank - 1] = extent;
    t->value = tv_onnx_emit(n, TV_OP_SLICE, &x, 1, &(tv_graph_attrs){.shape = out, .lists = &lists});
    uint8_t label = t->labels[first];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (i != first && i != second)
            t->labels[rank++] = t->labels[i];
    t->labels[rank++] = label;
    t->rank = rank;
}

static void take_diagonals(tv_onnx_node *n, term *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        for (uint32_t k = i + 1; k < t->rank && tv_onnx_ok(n); k++)
            if (t->labels[i] == t->labels[k]) {
                take_diagonal(n, t, i, k);
                i = k = 0;
            }
}

/* Sums the axes whose labels none of `others`, which end with the output, has. */
static void sum_labels(tv_onnx_node *n, term *t, const term *others, size_t count)
{
    uint32_t axes = 0, rank = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool needed = false;
        for (size_t k = 0; k < count; k++)
            needed |= has_label(&others[k], t->labels[i]);
        if (needed)
            t->labels[rank++] = t->labels[i];
        else
            axes |= UINT32_C(1) << i;
    }
    t->rank = rank;
    if (axes)
        t->value = tv_onnx_reduce(n, t->value, axes, false, TV_OP_REDUCE_SUM);
}

/* Permutes the axes of a term to the labels of `order`. */
static uint32_t permute(tv_onnx_node *n, const term *t, const term *order)
{
    uint32_t perm[TV_GRAPH_RANK_MAX] = {0};
    for (uint32_t i = 0; i < order->rank; i++)
        for (uint32_t k = 0; k < t->rank; k++)
            perm[i] = t->labels[k] == order->labels[i] ? k : perm[i];
    return tv_onnx_transpose(n, t->value, perm);
}

/* Removes axes of one element where the other term has more of the same label. */
static void drop_repeated(tv_onnx_node *n, term *t, const term *other)
{
    tv_graph_shape dims = tv_onnx_dims(n, t->value), other_dims = tv_onnx_dims(n, other->value), to = {0};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool repeated = false;
        for (uint32_t k = 0; k < other->rank; k++)
            repeated |= t->labels[i] == other->labels[k] && dims.dims[i] == 1 && other_dims.dims[k] != 1;
        if (repeated)
            continue;
        t->labels[rank++] = t->labels[i];
        to.dims[to.rank++] = dims.dims[i];
    }
    t->rank = rank;
    t->value = tv_onnx_reshape(n, t->value, &to);
}

/* The labels of term a that b has and that are needed after the product (BATCH), or are not (INNER), or that b has not
 * (OWN). */
typedef enum label_kind { BATCH, INNER, OWN } label_kind;

/* A pair of terms; `needed` are those after them, and the output. */
typedef struct pair {
    const term *a, *b, *needed;
    size_t count;
} pair;

/* Appends the labels of a kind to a term, and their extents to `dims`. Returns the product of the extents. */
static int64_t append_labels(const tv_onnx_node *n, const pair *p, label_kind kind, term *to, tv_graph_shape *dims)
{
    tv_graph_shape from = tv_onnx_dims(n, p->a->value);
    int64_t product = 1;
    for (uint32_t i = 0; i < p->a->rank && tv_onnx_ok(n); i++) {
        uint8_t label = p->a->labels[i];
        bool needed = false;
        for (size_t k = 0; k < p->count; k++)
            needed |= has_label(&p->needed[k], label);
        if (kind != (!has_label(p->b, label) ? OWN : needed ? BATCH : INNER))
            continue;
        if (to->rank == TV_GRAPH_RANK_MAX) {
            tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "a product has more than %d axes", TV_GRAPH_RANK_MAX);
            continue;
        }
        to->labels[to->rank++] = label;
        dims->dims[dims->rank++] = from.dims[i];
        product *= from.dims[i];
    }
    return product;
}

static void check_extents(const tv_onnx_node *n, const term *a, const term *b)
{
    tv_graph_shape x = tv_onnx_dims(n, a->value), y = tv_onnx_dims(n, b->value);
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t k = 0; k < b->rank; k++)
            if (a->labels[i] == b->labels[k] && x.dims[i] != y.dims[k] && tv_onnx_ok(n))
                tv_onnx_reject(n, TV_ONNX_INVALID, "axes of the same label differ in extent");
}

/* The product of two terms: [batch][own of a][inner] times [batch][inner][own of b]. */
static term multiply_terms(tv_onnx_node *n, term *a, term *b, const term *needed, size_t count)
{
    term left = {0}, right = {0}, out = {0};
    tv_graph_shape dims[3] = {{0}};
    drop_repeated(n, a, b);
    drop_repeated(n, b, a);
    check_extents(n, a, b);
    const pair ab = {a, b, needed, count}, ba = {b, a, needed, count};
    int64_t batch = append_labels(n, &ab, BATCH, &left, &dims[0]), rows = append_labels(n, &ab, OWN, &left, &dims[0]);
    int64_t inner = append_labels(n, &ab, INNER, &left, &dims[0]);
    append_labels(n, &ab, BATCH, &right, &dims[1]);
    append_labels(n, &ab, INNER, &right, &dims[1]);
    int64_t columns = append_labels(n, &ba, OWN, &right, &dims[1]);
    append_labels(n, &ab, BATCH, &out, &dims[2]);
    append_labels(n, &ab, OWN, &out, &dims[2]);
    append_labels(n, &ba, OWN, &out, &dims[2]);
    bool one = batch == 1;
    tv_graph_shape x = one ? (tv_graph_shape){2, {rows, inner}} : (tv_graph_shape){3, {batch, rows, inner}};
    tv_graph_shape y = one ? (tv_graph_shape){2, {inner, columns}} : (tv_graph_shape){3, {batch, inner, columns}};
    if (!tv_onnx_ok(n))
        return out;
    uint32_t p = tv_onnx_reshape(n, permute(n, a, &left), &x), q = tv_onnx_reshape(n, permute(n, b, &right), &y);
    out.value = tv_onnx_reshape(n, tv_onnx_product(n, p, q), &dims[2]);
    return out;
}

/* ---- Equations ---- */

/* Labels of letters that one term has, once, in alphabetical order, after those of an ellipsis. */
static void find_output(const term *terms, size_t count, uint32_t dots, term *out)
{
    for (uint32_t i = 0; i < dots; i++)
        out->labels[out->rank++] = (uint8_t)(ELLIPSIS + dots - 1 - i);
    for (uint8_t label = 'A'; label <= 'z'; label++) {
        unsigned times = 0;
        for (size_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < terms[k].rank; i++)
                times += terms[k].labels[i] == label;
        if (times == 1 && out->rank < TV_GRAPH_RANK_MAX)
            out->labels[out->rank++] = label;
    }
}

/* Reads the equation: `terms` receives the inputs and then the output. */
static void parse_equation(tv_onnx_node *n, tv_sv text, size_t count, term *terms)
{
    size_t at = 0;
    uint32_t dots = 0;
    for (size_t i = 0; i < count && tv_onnx_ok(n); i++) {
        term *t = &terms[i];
        uint32_t rank = tv_onnx_dims(n, t->value).rank, own = count_dots(text, at, rank);
        at = parse_term(n, text, at, own, t);
        dots = own > dots ? own : dots;
        bool comma = at < text.len && text.ptr[at] == ',';
        if (tv_onnx_ok(n) && (t->rank != rank || comma != (i + 1 < count)))
            tv_onnx_reject(n, TV_ONNX_INVALID, "the equation does not fit the inputs");
        at += comma;
    }
    if (!tv_onnx_ok(n))
        return;
    if (at == text.len) {
        find_output(terms, count, dots, &terms[count]);
        return;
    }
    bool arrow = at + 1 < text.len && text.ptr[at + 1] == '>';
    if (!arrow || parse_term(n, text, at + 2, dots, &terms[count]) != text.len)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the equation is not valid");
}

/* Labels of the output are different, and those of some input. */
static void check_output(tv_onnx_node *n, const term *terms, size_t count)
{
    const term *out = &terms[count];
    for (uint32_t i = 0; i < out->rank && tv_onnx_ok(n); i++) {
        bool known = false, twice = false;
        for (size_t k = 0; k < count; k++)
            known |= has_label(&terms[k], out->labels[i]);
        for (uint32_t k = 0; k < i; k++)
            twice |= out->labels[k] == out->labels[i];
        if (!known || twice)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the equation is not valid");
    }
}

void tv_onnx_import_einsum(tv_onnx_node *n)
{
    enum { TERMS_MAX = TV_GRAPH_INPUTS_MAX };
    term terms[TERMS_MAX + 1] = {{0}};
    size_t count = n->proto->n_input;
    const Onnx__AttributeProto *a = tv_onnx_attribute(n, "equation");
    if (!a || a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING || !count || count > TERMS_MAX) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "there is no equation, or there are more than %d inputs", TERMS_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++)
        terms[i].value = tv_onnx_input(n, i);
    parse_equation(n, (tv_sv){(const char *)a->s.data, a->s.len}, count, terms);
    check_output(n, terms, count);
    tv_element element = tv_onnx_element(n, terms[0].value);
    if (tv_onnx_ok(n) && count > 1 && !tv_is_real_element(element))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "products of integers are not supported");
    for (size_t i = 0; i < count && tv_onnx_ok(n); i++)
        take_diagonals(n, &terms[i]);
    for (size_t i = 0; i < count && tv_onnx_ok(n); i++) {
        sum_labels(n, &terms[i], terms + i + 1, count - i); /* the last one is the output */
        if (i + 1 < count)
            terms[i + 1] = multiply_terms(n, &terms[i], &terms[i + 1], terms + i + 2, count - i - 1);
    }
    const term *last = &terms[count - 1];
    if (tv_onnx_ok(n) && last->rank != terms[count].rank)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the equation does not fit the inputs");
    tv_onnx_output(n, 0, permute(n, last, &terms[count]));
}
