/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers operators that only move elements. They are computed on numbers of elements when the network is planned, which
 * gives for each L2 word of the output the word that it is a copy of. A word whose elements come from several words, or
 * from other lanes, is a product: the words are copied next to each other, as a row, and multiplied by a matrix that
 * selects the elements. Words with the same selection are rows of one GEMM; a second one selects from what the
 * activations of the first one round off. */
#include <stdlib.h>

#include "graph/resize.h"
#include "lower/pccx/network_state.h"

enum { EXACT_INDICES = 1 << 24, SELECTIONS_MAX = 1 << 18, PATTERNS_MAX = 1 << 14, ROW_MAX = PCCX_LOWER_LANES };

/* ---- Planning ---- */

bool pccx_net_number_elements(const pccx_network *w, const tv_graph_node *n, tv_tensor in[TV_GRAPH_INPUTS_MAX],
                              tv_tensor *out)
{
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    uint64_t number = 0;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        if (n->inputs[k] == TV_NO_VALUE)
            continue;
        tv_tensor type = tv_graph_tensor_of(w->graph, n->inputs[k]);
        bool index = !tv_is_real_element(type.element);
        if (index) {
            inputs[k] = tv_graph_value_at(w->graph, n->inputs[k])->tensor;
            if (!inputs[k] || !inputs[k]->data)
                return false;
            continue;
        }
        if (tv_tensor_init(&in[k], type.element, type.rank, type.dims, NULL) != TV_OK)
            return false;
        for (uint64_t i = 0; i < tv_tensor_count(&in[k]); i++)
            tv_tensor_set_real(&in[k], i, (double)(++number));
        inputs[k] = &in[k];
    }
    tv_tensor type = tv_graph_tensor_of(w->graph, n->output);
    return number < EXACT_INDICES && type.element == TV_ELEMENT_F32 &&
           tv_tensor_init(out, type.element, type.rank, type.dims, NULL) == TV_OK &&
           tv_node_compute(w->graph, n, inputs, out, NULL) == TV_OK;
}

uint32_t pccx_net_word_of(const pccx_network *w, uint32_t value, uint64_t index, uint32_t *lane)
{
    const pccx_net_value *v = &w->values[value];
    uint64_t row = index / v->columns, column = index % v->columns;
    if (v->spatial) {
        uint64_t pixels = v->rows / (uint64_t)tv_graph_value_at(w->graph, value)->shape.dims[0];
        column = index / pixels % v->columns;
        row = index / pixels / v->columns * pixels + index % pixels;
    }
    *lane = (uint32_t)(column % PCCX_LOWER_LANES);
    return (uint32_t)(row * v->words + column / PCCX_LOWER_LANES);
}

/* The word that numbered element `number` is in, counted over all inputs. */
static uint32_t source_word(const pccx_network *w, const tv_graph_node *n, uint64_t number, uint32_t *lane)
{
    uint32_t first = 0;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        if (n->inputs[k] == TV_NO_VALUE || !tv_is_real_element(tv_graph_value_at(w->graph, n->inputs[k])->element))
            continue;
        uint64_t count = tv_graph_elements(w->graph, n->inputs[k]);
        if (number <= count)
            return first + pccx_net_word_of(w, n->inputs[k], number - 1, lane);
        number -= count;
        first += (uint32_t)pccx_net_words(&w->values[n->inputs[k]]);
    }
    return PCCX_NET_ZERO;
}

/* Adds the selection of word `to`; false: there are too many. words[i] and lanes[i] are of element i. */
static bool add_selection(pccx_net_moves_plan *m, uint32_t to, const uint32_t words[ROW_MAX],
                          const uint32_t lanes[ROW_MAX])
{
    pccx_net_pattern p = {0};
    pccx_net_selection s = {.to = to};
    for (uint32_t word = 0; word != PCCX_NET_ZERO;) { /* the words in ascending order */
        uint32_t next = PCCX_NET_ZERO;
        for (unsigned i = 0; i < ROW_MAX; i++)
            if (words[i] != PCCX_NET_ZERO && words[i] >= word && words[i] < next)
                next = words[i];
        if (next != PCCX_NET_ZERO)
            s.words[p.count++] = next;
        word = next == PCCX_NET_ZERO ? next : next + 1;
    }
    for (unsigned i = 0; i < ROW_MAX; i++)
        for (unsigned k = 0; k < p.count; k++)
            if (words[i] == s.words[k])
                p.from[i] = (uint8_t)(k * PCCX_LOWER_LANES + lanes[i] + 1);
    while (s.pattern < m->patterns.count && memcmp(&m->patterns.data[s.pattern], &p, sizeof p) != 0)
        s.pattern++;
    if (s.pattern == PATTERNS_MAX || m->selections.count == SELECTIONS_MAX)
        return false;
    return (s.pattern < m->patterns.count || TV_VEC_PUSH(&m->patterns, p)) && TV_VEC_PUSH(&m->selections, s);
}

/* Finds what the words of the output are copies of, and the selections. */
static bool map_words(const pccx_network *w, const tv_graph_node *n, const tv_tensor *numbers, pccx_net_moves_plan *m)
{
    const pccx_net_value *v = &w->values[n->output];
    for (uint32_t r = 0; r < v->rows; r++)
        for (uint32_t word = 0; word < v->words; word++) {
            uint32_t words[ROW_MAX], lanes[ROW_MAX] = {0}, to = r * v->words + word;
            bool copied = true;
            for (uint32_t i = 0, c; i < ROW_MAX; i++) {
                c = word * PCCX_LOWER_LANES + i;
                double number = c < v->columns ? tv_tensor_real(numbers, pccx_net_index(w, n->output, r, c)) : 0;
                words[i] = number > 0 ? source_word(w, n, (uint64_t)number, &lanes[i]) : PCCX_NET_ZERO;
                bool is_free = c >= v->columns || (words[i] == PCCX_NET_ZERO && words[0] == PCCX_NET_ZERO);
                copied = copied && (is_free || (words[i] == words[0] && lanes[i] == i));
            }
            m->words[to] = copied ? words[0] : PCCX_NET_SELECTED;
            if (!copied && !add_selection(m, to, words, lanes))
                return false;
        }
    return true;
}

/* Whether the node moves elements regardless of their values, and what it adds is zero. */
static bool is_move(const pccx_network *w, const tv_graph_node *n)
{
    tv_resize resize = tv_resize_unpack(n->attrs.mode);
    for (unsigned k = 3; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && pccx_net_is_constant(w, n->inputs[k]))
            return false;
    switch (n->op) {
    case TV_OP_PAD:
        return n->inputs[1] == TV_NO_VALUE || n->attrs.mode != TV_PAD_CONSTANT;
    case TV_OP_RESIZE:
        return resize.method == TV_RESIZE_NEAREST && (resize.coordinates != TV_RESIZE_CROP || n->attrs.beta == 0);
    case TV_OP_SCATTER_ND:
    case TV_OP_SCATTER_ELEMENTS:
        return n->attrs.mode == 0;
    default:
        return n->op != TV_OP_TOP_K;
    }
}

void pccx_net_moves_fini(pccx_net_moves_plan *m)
{
    free(m->words);
    TV_VEC_FINI(&m->selections);
    TV_VEC_FINI(&m->patterns);
    *m = (pccx_net_moves_plan){0};
}

const char *pccx_net_plan_moves(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_moves_plan *m = &w->nodes[node].moves;
    tv_tensor in[TV_GRAPH_INPUTS_MAX] = {{0}}, out = {0};
    if (!is_move(w, n))
        return n->op == TV_OP_RESIZE ? "interpolation" : "moves of these elements";
    if (tv_graph_value_at(w->graph, n->output)->element != TV_ELEMENT_F32)
        return "moves of other types than binary32";
    m->words = malloc((pccx_net_words(&w->values[n->output]) + 1) * sizeof *m->words);
    bool ok = m->words && pccx_net_number_elements(w, n, in, &out) && map_words(w, n, &out, m);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        tv_tensor_fini(&in[k]);
    tv_tensor_fini(&out);
    if (!ok)
        pccx_net_moves_fini(m);
    w->nodes[node].is_move = ok;
    return ok ? NULL : "moves of so many elements within words, or by computed indices";
}

/* ---- Constants ---- */

/* Bytes of a matrix: of its rows, whose scales are ones. */
static uint64_t pattern_bytes(void)
{
    return (uint64_t)ROW_MAX * pccx_lower_beats(ROW_MAX * PCCX_LOWER_LANES) * PCCX_LOWER_BEAT_BYTES;
}

tv_status pccx_net_upload_patterns(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    pccx_net_moves_plan *m = &w->nodes[node].moves;
    uint64_t bytes = m->patterns.count * pattern_bytes();
    m->addr = pccx_lower_reserve(&w->l, bytes);
    uint8_t *image = w->l.timing ? NULL : calloc(1, bytes + 1);
    if (w->l.timing)
        return TV_OK;
    if (!image)
        return tv_fail_memory(sink);
    for (size_t i = 0; i < m->patterns.count; i++) {
        const pccx_net_pattern *p = &m->patterns.data[i];
        uint32_t row_bytes = pccx_lower_beats(p->count * PCCX_LOWER_LANES) * PCCX_LOWER_BEAT_BYTES;
        for (unsigned r = 0; r < ROW_MAX; r++)
            if (p->from[r])
                image[i * pattern_bytes() + r * row_bytes + (p->from[r] - 1U) / 2] =
                    (uint8_t)(1 << (p->from[r] - 1) % 2 * 4);
    }
    tv_status status = tv_machine_write(w->l.machine, "host", m->addr, image, bytes, sink);
    free(image);
    return status;
}

/* ---- Copies ---- */

/* The rows of a tile: words [at, at + words) of the output, and the parts of inputs in L2 for them. */
typedef struct mover {
    pccx_network *w;
    uint32_t node, at, words, out;
    uint32_t low[TV_GRAPH_INPUTS_MAX], staged[TV_GRAPH_INPUTS_MAX]; /* first word; its address, or NO_BUFFER */
} mover;

/* The input that word `from` is in, and the word there. */
static unsigned input_of(const mover *t, uint32_t *from)
{
    const tv_graph_node *n = pccx_net_graph_node(t->w, t->node);
    unsigned k = 0;
    for (; k + 1 < tv_graph_input_count(n); k++) {
        bool counts =
            n->inputs[k] != TV_NO_VALUE && tv_is_real_element(tv_graph_value_at(t->w->graph, n->inputs[k])->element);
        uint64_t size = counts ? pccx_net_words(pccx_net_value_at(t->w, n->inputs[k])) : 0;
        if (*from < size)
            return k;
        *from -= (uint32_t)size;
    }
    return k;
}

static void load_input(const mover *t, unsigned k, uint32_t to, uint32_t from, uint32_t words)
{
    uint32_t value = pccx_net_graph_node(t->w, t->node)->inputs[k];
    if (pccx_net_is_constant(t->w, value))
        pccx_net_load(t->w, to, t->w->nodes[t->node].operands[k] + (uint64_t)from * PCCX_LOWER_WORD_BYTES, words);
    else
        pccx_net_read_words(t->w, to, value, from, words);
}

/* Copies words of an input, or zeros, to `to`. */
static void copy_run(const mover *t, uint32_t to, uint32_t from, uint32_t words)
{
    if (from == PCCX_NET_ZERO) {
        for (uint32_t i = 0, max = PCCX_NET_ZEROS / PCCX_LOWER_LANES; i < words; i += max)
            pccx_net_move(t->w, to + i, t->w->zeros, words - i < max ? words - i : max);
        return;
    }
    for (uint32_t done = 0, count; done < words; done += count) { /* a run may extend over several inputs */
        uint32_t at = from + done;
        unsigned k = input_of(t, &at);
        uint64_t left = pccx_net_words(pccx_net_value_at(t->w, pccx_net_graph_node(t->w, t->node)->inputs[k])) - at;
        count = left < words - done ? (uint32_t)left : words - done;
        if (t->staged[k] != PCCX_LOWER_NO_BUFFER)
            pccx_net_move(t->w, to + done, t->staged[k] + at - t->low[k], count);
        else
            load_input(t, k, to + done, at, count);
    }
}

/* Widens the range of words of an input that a tile reads. */
static void include_word(const mover *t, uint32_t from, uint32_t low[], uint32_t high[], uint32_t count[])
{
    if (from == PCCX_NET_ZERO || from == PCCX_NET_SELECTED)
        return;
    unsigned k = input_of(t, &from);
    low[k] = count[k] == 0 || from < low[k] ? from : low[k];
    high[k] = count[k] == 0 || from > high[k] ? from : high[k];
    count[k]++;
}

/* The first selection of the output from word `at` on. */
static size_t find_selection(const pccx_net_moves_plan *m, uint32_t at)
{
    size_t low = 0, high = m->selections.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->selections.data[middle].to < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Loads what a tile reads of inputs that are not in L2 at once, where that takes few words and there is room. */
static void stage_inputs(mover *t)
{
    const pccx_net_moves_plan *m = &t->w->nodes[t->node].moves;
    const tv_graph_node *n = pccx_net_graph_node(t->w, t->node);
    uint32_t high[TV_GRAPH_INPUTS_MAX] = {0}, count[TV_GRAPH_INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < t->words; i++)
        include_word(t, m->words[t->at + i], t->low, high, count);
    for (size_t i = find_selection(m, t->at); i < find_selection(m, t->at + t->words); i++)
        for (unsigned k = 0; k < m->patterns.data[m->selections.data[i].pattern].count; k++)
            include_word(t, m->selections.data[i].words[k], t->low, high, count);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        uint64_t words = (uint64_t)high[k] - t->low[k] + 1;
        t->staged[k] = PCCX_LOWER_NO_BUFFER;
        if (count[k] < 2 || words > 8 * (uint64_t)count[k] || t->w->scratch_next + words > t->w->scratch_end ||
            (!pccx_net_is_constant(t->w, n->inputs[k]) &&
             pccx_net_value_at(t->w, n->inputs[k])->l2 != PCCX_LOWER_NO_BUFFER))
            continue;
        uint32_t to = pccx_net_scratch(t->w, words);
        load_input(t, k, to, t->low[k], (uint32_t)words);
        t->staged[k] = to;
    }
}

/* ---- Selections ---- */

enum { SELECTION_WORDS = 2 * ROW_MAX + 1, CHUNK = 256 }; /* a row, what was rounded off of it, and the result */

/* Computes the chosen selections of a pattern in scratch space at `addr`. */
static void select_rows(const mover *t, uint32_t pattern, const pccx_net_selection *const *list, uint32_t rows,
                        uint32_t addr)
{
    pccx_network *w = t->w;
    const pccx_net_moves_plan *m = &w->nodes[t->node].moves;
    uint32_t count = m->patterns.data[pattern].count, columns = count * PCCX_LOWER_LANES, rest = addr + rows * count,
             out = rest + rows * count;
    uint64_t matrix = m->addr + pattern * pattern_bytes();
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0, run; k < count; k += run) {
            for (run = 1; k + run < count && list[r]->words[k + run] == list[r]->words[k] + run; run++)
                ;
            copy_run(t, addr + r * count + k, list[r]->words[k], run);
        }
    pccx_net_small_product p = {w->l.map.ones, matrix, rows, PCCX_LOWER_LANES, columns, 0};
    pccx_net_multiply_small(w, &p, out, addr);
    pccx_net_move(w, rest, addr, rows * count);
    pccx_net_multiply_identity(w, rest, addr, rows, columns, true, PCCX_LOWER_ACCM);
    p.flags = PCCX_LOWER_ACCM;
    pccx_net_multiply_small(w, &p, out, rest);
    for (uint32_t r = 0, run; r < rows; r += run) {
        for (run = 1; r + run < rows && list[r + run]->to == list[r]->to + run; run++)
            ;
        pccx_net_move(w, t->out + list[r]->to - t->at, out + r, run);
    }
}

/* Selections [first, last), at most CHUNK, pattern by pattern. */
static void select_words(const mover *t, size_t first, size_t last, uint32_t addr)
{
    const pccx_net_moves_plan *m = &t->w->nodes[t->node].moves;
    const pccx_net_selection *list[CHUNK];
    bool done[CHUNK] = {false};
    for (size_t i = first; i < last; i++) {
        uint32_t rows = 0, pattern = m->selections.data[i].pattern;
        for (size_t k = i; k < last && !done[i - first]; k++)
            if (m->selections.data[k].pattern == pattern && !done[k - first])
                list[rows++] = &m->selections.data[k];
        for (uint32_t r = 0; r < rows; r++)
            done[(size_t)(list[r] - m->selections.data) - first] = true;
        if (rows)
            select_rows(t, pattern, list, rows, addr);
    }
}

/* ---- The node ---- */

static void move_words(mover *t)
{
    const uint32_t *map = t->w->nodes[t->node].moves.words + t->at;
    for (uint32_t i = 0, run; i < t->words; i += run) {
        for (run = 1; i + run < t->words && map[i] != PCCX_NET_SELECTED &&
                      map[i + run] == (map[i] == PCCX_NET_ZERO ? map[i] : map[i] + run);
             run++)
            ;
        if (map[i] != PCCX_NET_SELECTED)
            copy_run(t, t->out + i, map[i], run);
    }
}

tv_status pccx_net_moves(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = pccx_net_value_at(w, n->output);
    const pccx_net_moves_plan *m = &w->nodes[node].moves;
    uint32_t half = pccx_net_scratch_size(w, node, true), chunk = half / 4 / SELECTION_WORDS,
             rows = half / 3 / v->words;
    chunk = m->selections.count == 0 ? 0 : chunk < CHUNK ? chunk : CHUNK;
    if (rows == 0 || (m->selections.count && chunk == 0))
        return tv_backend_reject(w->graph, n, "pccx", "L2 for one row of it", sink);
    for (uint32_t r = 0, tile = 0; r < v->rows; r += rows) {
        uint32_t count = v->rows - r < rows ? v->rows - r : rows;
        mover t = {.w = w, .node = node, .at = r * v->words, .words = count * v->words};
        pccx_net_begin_tile(w, node, tile++, 2);
        uint32_t addr = pccx_net_scratch(w, chunk * SELECTION_WORDS);
        t.out = pccx_net_locate(w, n->output, r, count);
        stage_inputs(&t);
        move_words(&t);
        size_t last = find_selection(m, t.at + t.words);
        for (size_t i = find_selection(m, t.at); i < last; i += chunk)
            select_words(&t, i, last - i < chunk ? last : i + chunk, addr);
        pccx_net_put(w, n->output, r, count, t.out);
    }
    return TV_OK;
}
