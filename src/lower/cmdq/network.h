/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering of networks to CMDQ: one queue for the whole network.
 *
 * Values of convolutions are stored with the channels last, others in row-major order. A value is resident, in segments
 * that each fit an SPM bank, from the node that computes it to its last reader, if there is space; otherwise it is in
 * DRAM and passes through slots, tile by tile. Positions in values are numbers of elements, so a Reshape is another
 * name of the same storage. network_formats.c chooses formats, network_values.c stores values, network_weights.c loads
 * weights, network_nodes.c has the table of operators, whose entries the other files emit; network_backend.c builds and
 * runs the queue. */
#ifndef TV_LOWER_CMDQ_NETWORK_H
#define TV_LOWER_CMDQ_NETWORK_H

#include "graph/network.h"
#include "lower/cmdq/emit.h"

enum { CMDQ_NET_ENGINES = 3, CMDQ_NET_SEGMENTS_MAX = 24, CMDQ_NET_SLOTS = 3, CMDQ_NET_ENGINES_MAX = 16 };

/* Elements [first, first + count) of a value: in a buffer of SPM, or stored to DRAM by an entry. */
typedef struct cmdq_net_range {
    uint64_t first, count;
    uint32_t where; /* buffer or entry */
} cmdq_net_range;

typedef struct cmdq_net_value {
    uint32_t storage; /* the value whose storage it has: itself, or an input of its Reshape */
    bool crossed;     /* [n][c][pixels] in the storage of an image */
    unsigned qbits;
    float scale;
    uint64_t rows, row_elements; /* how it is cut into tiles: rows of pixels, or of the last axis */
    uint64_t elements;
    uint32_t last_use; /* node */

    /* Where its elements are in the storage of `root`: element (i, k, ...) at first + i * strides[0] + ... Of a value
     * that is no view these are row-major order, or not used (channels_last of the network). */
    bool is_view, not_view; /* not_view: a reader cannot read it as one */
    uint32_t root;
    uint64_t first, strides[TV_GRAPH_RANK_MAX];

    /* of storages */
    bool computed, in_dram, is_output;
    uint64_t dram; /* address */
    uint32_t segment_count;
    cmdq_net_range segments[CMDQ_NET_SEGMENTS_MAX];
    TV_VEC(cmdq_net_range) chunks; /* what entries stored to DRAM */
} cmdq_net_value;

enum { CMDQ_NET_WEIGHT_GROUP = 32 }; /* INT4 weights that share a scale */

/* tv_network_backend's `round_weights`, as cmdq_net_upload rounds. */
bool cmdq_net_round_weights(float *channel, uint64_t taps, uint64_t inputs, unsigned bits);

/* The weights of a product in DRAM: rows of integers, then a scale for each group of a row, and a bias for each row. */
typedef struct cmdq_net_weights {
    unsigned bits;
    uint64_t rows, columns, group, row_bytes, data, scales, bias; /* bias 0: none */
} cmdq_net_weights;

/* What a plan may choose; the search of network_backend.c times the queues of some and keeps the fastest. */
typedef struct cmdq_net_options {
    uint64_t block_bytes;    /* of the weights that are multiplied at once */
    uint64_t ahead_bytes;    /* of weights of later nodes that are loaded, at most */
    uint64_t reserve;        /* bytes of SPM that these leave free, besides what the values between need */
    uint64_t streamed_bytes; /* of a tile of a value in DRAM */
} cmdq_net_options;

/* The output channels of a product are divided into `count` blocks of `rows`; count 0: none fits an SPM bank. */
typedef struct cmdq_net_blocks {
    uint64_t rows, count;
} cmdq_net_blocks;

/* The weights of block `index` of a product, with their scales and bias, in SPM. */
typedef struct cmdq_net_block {
    uint32_t node;
    uint64_t index;
    uint32_t weights, params; /* buffers */
} cmdq_net_block;

typedef struct cmdq_net_text cmdq_net_text;

typedef struct cmdq_network {
    cmdq_lowering l; /* queue entries and their dependencies: only what entries.c uses is set */
    cmdq_lower_plan plan;
    const tv_graph *graph;
    cmdq_net_value *values;    /* of each value */
    bool *channels_last;       /* of each value: an image whose channels are adjacent */
    cmdq_net_weights *weights; /* of each node */
    cmdq_net_options options;
    const float *ranges;   /* of each value, or NULL */
    TV_VEC(uint32_t) live; /* buffers with memory */
    tv_status status;      /* sticky */
    const tv_diag_sink *sink;
    uint32_t node;                       /* that is lowered */
    uint64_t work[CMDQ_NET_ENGINES_MAX]; /* of each tensor engine in the current product */
    TV_VEC(cmdq_net_block) ahead;        /* blocks that are loaded and not yet multiplied, in order */
    bool *wide;                          /* of each node: its inputs are binary16 because of the option */
    uint32_t *in_attention;              /* of each node: 1 + the product that executes it with others, or 0 */
    uint64_t *needs;                     /* of each node: bytes of the values that live while it executes */

    tv_program *program;
    uint32_t *entries_end; /* of each node: number of entries after it */
    tv_layer *layers;      /* of each node */
    size_t layer_count;
    uint64_t weights_begin, dram_end; /* before it DRAM has values, then weights and constants */
    TV_VEC(tv_network_step) steps;    /* of written programs */
    tv_tensor *tensors;               /* results of the last run, of each value */
    bool keep_values, timing;
    tv_network_program written;         /* what cmdq_net_programs returns */
    unsigned engines[CMDQ_NET_ENGINES]; /* number of tensor and vector engines, and of DMA channels */
    uint64_t (*busy)[CMDQ_NET_ENGINES]; /* of each node: cycles of these engines */
    uint64_t *layer_ends;               /* of each node: cycle at which its last entry completes */
    cmdq_net_text *texts;               /* of each node: its plan in words; NULL: they are not kept */
} cmdq_network;

static inline cmdq_net_value *cmdq_net_value_at(const cmdq_network *net, uint32_t value) { return &net->values[value]; }

static inline const tv_graph_shape *cmdq_net_dims(const cmdq_network *net, uint32_t value)
{
    return &tv_graph_value_at(net->graph, value)->shape;
}

/* Axis `i`, from the outermost, of the order in which a value is stored. */
static inline uint32_t cmdq_net_storage_axis(const cmdq_network *net, uint32_t value, uint32_t i)
{
    if (!net->channels_last[value] || i == 0)
        return i;
    return i + 1 == cmdq_net_dims(net, value)->rank ? 1 : i + 1;
}

/* The value whose storage a value has. */
static inline cmdq_net_value *cmdq_net_storage(const cmdq_network *net, uint32_t value)
{
    return &net->values[net->values[value].storage];
}

static inline uint64_t cmdq_net_bits(const cmdq_network *net, uint32_t value)
{
    return cmdq_net_storage(net, value)->qbits;
}

static inline uint64_t cmdq_net_bytes(const cmdq_network *net, uint32_t value, uint64_t elements)
{
    return elements * cmdq_net_bits(net, value) / 8;
}

/* Of an operand that passes through slots. */
static inline uint64_t cmdq_net_tile_bytes(const cmdq_network *net) { return tv_min_u64(65536, net->l.bank_bytes / 4); }

/* ---- network_images.c ---- */

/* [n][c][h][w] or [n][c][h], whose w is 1. */
typedef struct cmdq_net_image {
    uint64_t images, channels, h, w;
} cmdq_net_image;

cmdq_net_image cmdq_net_image_of(const tv_graph_shape *shape);

/* The windows of a node whose output has rank 3 or 4, by height and width. */
typedef struct cmdq_net_window {
    uint64_t kernel[2], stride[2], dilation[2], pad_begin[2], pad_end[2];
} cmdq_net_window;

cmdq_net_window cmdq_net_window_of(const tv_graph_lists *lists, uint32_t rank);

/* By height and width: a transposed convolution is `count` convolutions of stride 1 with `taps` elements of the kernel.
 */
typedef struct cmdq_net_phases {
    uint64_t count[2], taps[2];
} cmdq_net_phases;

cmdq_net_phases cmdq_net_phases_of(const tv_graph_lists *lists, uint32_t rank);

/* ---- network_layouts.c ---- */

typedef enum cmdq_net_order { CMDQ_NET_ORDER_ANY, CMDQ_NET_ORDER_ROWS, CMDQ_NET_ORDER_IMAGE } cmdq_net_order;

/* The order in which a node reads its input `k`, if `last` says which values have their channels last. */
cmdq_net_order cmdq_net_order_of_input(const tv_graph *graph, const tv_graph_node *n, unsigned k, const bool *last);

/* Transposes between [n][h][w][c] or [n][h][c] and an image: one whose channels are last has the order of the former.
 */
bool cmdq_net_is_to_image(const tv_graph *graph, const tv_graph_node *n);
bool cmdq_net_is_from_image(const tv_graph *graph, const tv_graph_node *n);

/* Chooses which values have their channels last; `last` has zeros. */
void cmdq_net_choose_orders(const tv_graph *graph, bool *last);

/* False: the node reads a value in another order than it has, which cmdq_net_legalize prevents. */
bool cmdq_net_reads_order(const tv_graph *graph, const tv_graph_node *n, const bool *last);

/* ---- network_legalize.c ---- */

/* As tv_network_backend describes it. */
tv_status cmdq_net_legalize(tv_graph *graph, const tv_diag_sink *sink);

/* ---- network_formats.c ---- */

/* Sets formats and layouts, and gives each storage its memory in DRAM. TV_ERR_INPUT: an operator is not supported. */
tv_status cmdq_net_choose_formats(cmdq_network *net, const tv_network_options *options);

/* ---- network_values.c ---- */

/* Where element `i` of a value, in row-major order, is in its storage. */
uint64_t cmdq_net_storage_index(const cmdq_network *net, uint32_t value, uint64_t i);

uint64_t cmdq_net_allocate_dram(cmdq_network *net, uint64_t bytes);

/* A buffer of SPM; evicts values that the current node does not use, then weights that are loaded ahead. TV_NO_VALUE:
 * net->status is TV_ERR_INPUT. */
uint32_t cmdq_net_buffer(cmdq_network *net, uint64_t bytes);
uint32_t cmdq_net_try_buffer(cmdq_network *net, uint64_t bytes); /* TV_NO_VALUE: there is no space; evicts nothing */
void cmdq_net_release(cmdq_network *net, uint32_t buffer);       /* TV_NO_VALUE is allowed */

void cmdq_net_release_block(cmdq_network *net, const cmdq_net_block *block);

/* Drops what is loaded ahead. False: nothing is. */
bool cmdq_net_drop_ahead(cmdq_network *net);

/* Makes the output of the current node resident, if there is space for it, in segments of whole rows. */
void cmdq_net_make_resident(cmdq_network *net, uint32_t value);

/* Lets the output of the current node have the memory of a resident value of the same size and format that it reads
 * last and element by element. False: it cannot. */
bool cmdq_net_take_memory(cmdq_network *net, uint32_t output, uint32_t from);

/* Windows of `span` rows, `stride` apart, of a value whose rows have `row_elements`: how many of at most `count`, the
 * first at row `begin`, which may be padding, are one tile. These are all that are in one segment, or those that are in
 * two, or `count` if the value is not resident. */
uint64_t cmdq_net_windows(const cmdq_network *net, uint32_t value, uint64_t row_elements, int64_t begin, uint64_t span,
                          uint64_t stride, uint64_t count);

/* Rows that such a tile reads of two segments, at most; 0: none does. */
uint64_t cmdq_net_crossing_rows(const cmdq_network *net, uint32_t value, uint64_t span, uint64_t stride);

/* Loads a value into SPM as a whole, if there is space and it is only in DRAM. */
void cmdq_net_fetch(cmdq_network *net, uint32_t value);

/* Stores a resident value to DRAM, if it is not there. */
void cmdq_net_store(cmdq_network *net, uint32_t value);

/* Frees the memory of a value that nothing has written. */
void cmdq_net_drop_output(cmdq_network *net, uint32_t value);

/* Moves a resident value to DRAM. */
void cmdq_net_evict(cmdq_network *net, uint32_t value);

/* True when elements [first, first + count) are in one segment. */
bool cmdq_net_is_resident(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count);

/* Two buffers for an operand that passes through SPM tile by tile, used in alternation. */
typedef struct cmdq_net_slots {
    uint32_t buffers[CMDQ_NET_SLOTS]; /* TV_NO_VALUE: the operand needs none */
    unsigned next;
} cmdq_net_slots;

cmdq_net_slots cmdq_net_no_slots(void);
cmdq_net_slots cmdq_net_allocate_slots(cmdq_network *net, uint64_t bytes);
void cmdq_net_release_slots(cmdq_network *net, const cmdq_net_slots *slots);
uint32_t cmdq_net_next_slot(cmdq_net_slots *slots);

/* Elements of a value for reading: from its segment, or brought into `slot`, a buffer that has space for them. */
cmdq_lower_operand cmdq_net_read(cmdq_network *net, uint32_t value, uint64_t first, uint64_t count, uint32_t slot);

/* Likewise `rows` rows of `count` elements that are `stride` elements apart, from DRAM. */
cmdq_lower_operand cmdq_net_read_rows(cmdq_network *net, uint32_t value, uint64_t first, uint64_t rows, uint64_t count,
                                      uint64_t stride, uint32_t slot);

/* Elements of a value for writing: its segment, which has all of them, or `slot`. cmdq_net_written completes it. */
cmdq_lower_operand cmdq_net_write(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count,
                                  uint32_t slot);
/* Call them after cmdq_lower_add_write and cmdq_lower_add_read of an operand of `count` elements: tiles of a resident
 * value do not wait for each other, and readers only for those that they read. */
void cmdq_net_share_output(cmdq_network *net, uint32_t value, cmdq_lower_operand operand, uint64_t count);
void cmdq_net_share_input(cmdq_network *net, cmdq_lower_operand operand, uint64_t count);

/* Likewise of `rows` rows of `count` elements, `stride` bytes apart. */
void cmdq_net_share_rows_of_output(cmdq_network *net, uint32_t value, cmdq_lower_operand operand, uint64_t rows,
                                   uint64_t count, uint64_t stride);
void cmdq_net_share_rows_of_input(cmdq_network *net, cmdq_lower_operand operand, uint64_t rows, uint64_t count,
                                  uint64_t stride);
void cmdq_net_written(cmdq_network *net, uint32_t value, uint64_t first, uint64_t count, cmdq_lower_operand from);

/* Stores `rows` rows of `count` elements to DRAM, `stride` elements apart. */
void cmdq_net_written_rows(cmdq_network *net, uint32_t value, uint64_t first, uint64_t rows, uint64_t count,
                           uint64_t stride, cmdq_lower_operand from);

/* Largest number of elements from `first` on, at limit `count`, that are in one segment of a resident value, or `count`
 * if it is not resident. */
uint64_t cmdq_net_run_length(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count);

/* Slots for tiles of a value that is not in one segment. */
cmdq_net_slots cmdq_net_slots_for(cmdq_network *net, uint32_t value, uint64_t elements);

/* Slots for tiles that are in one segment, if the value is resident. */
cmdq_net_slots cmdq_net_slots_of_runs(cmdq_network *net, uint32_t value, uint64_t elements);

/* Writes a constant of binary32 to DRAM, once. */
void cmdq_net_upload_constant(cmdq_network *net, uint32_t value);

/* Loads a constant of binary32 into a buffer, which the caller releases. */
cmdq_lower_operand cmdq_net_load_constant(cmdq_network *net, uint32_t value);

/* A whole value, or a constant as binary32, in SPM; in slots that the caller releases. */
cmdq_lower_operand cmdq_net_load_operand(cmdq_network *net, uint32_t value, cmdq_net_slots *slots);

/* ---- network_views.c ---- */

/* True for a Gather of a computed value by one constant index. */
bool cmdq_net_selects_index(const cmdq_network *net, const tv_graph_node *n);

/* Likewise by any constant indices. */
bool cmdq_net_selects_elements(const cmdq_network *net, const tv_graph_node *n);

/* Chooses what is a view of what. Call it after layouts are chosen. */
void cmdq_net_choose_views(cmdq_network *net);

/* Where element i of a view is in its storage. */
uint64_t cmdq_net_view_index(const cmdq_network *net, uint32_t value, uint64_t i);

/* ---- network_matmul.c ---- */

const char *cmdq_net_matmul_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_matmul(cmdq_network *net, const tv_graph_node *n);

/* Sets net->in_attention. */
void cmdq_net_find_attention(cmdq_network *net);

/* ---- network_explain.c ---- */

/* Allocates net->texts. TV_ERR_MEMORY. */
tv_status cmdq_net_keep_texts(cmdq_network *net);

/* Adds to the text of the current node, if texts are kept. */
void cmdq_net_explain(cmdq_network *net, const char *format, ...) TV_PRINTF(2, 3);

/* Adds that `node` executes the current one. */
void cmdq_net_explain_with(cmdq_network *net, uint32_t node);

/* Adds where the first input and the output of the current node are. */
void cmdq_net_explain_values(cmdq_network *net, const tv_graph_node *n);

/* Adds to the first node what the plans for the whole network take. */
void cmdq_net_explain_search(cmdq_network *net, size_t plans, uint64_t best, uint64_t worst);

/* Sets layers[node].plan, with the cycles of the engines in the last run. */
void cmdq_net_explain_run(cmdq_network *net, uint32_t node);

/* ---- network_products.c ---- */

void cmdq_net_emit_product(cmdq_network *net, const tv_graph_node *n); /* Conv, Linear */

/* The limits of a clip: alpha and beta, of which the first may be above the second. */
void cmdq_net_set_limits(cmdq_network *net, const tv_graph_attrs *a);

/* ---- network_weights.c ---- */

tv_status cmdq_net_upload(cmdq_network *net, const tv_network_options *options);

/* Sets net->needs. Call it after cmdq_net_choose_formats. */
tv_status cmdq_net_measure_needs(cmdq_network *net);

/* How the weights of a Conv or Linear are divided. */
cmdq_net_blocks cmdq_net_divide(const cmdq_network *net, uint32_t node);

/* The weights of block `index` of the current node, which the caller releases: loaded ahead, or now. TV_ERR_INPUT in
 * net->status: there is no space. */
cmdq_net_block cmdq_net_take_block(cmdq_network *net, uint64_t index);

/* Loads the blocks that follow those that are loaded, from block `index` of `node` on if there are none, as far as
 * there is space. */
void cmdq_net_load_ahead(cmdq_network *net, uint32_t node, uint64_t index);

/* Loads rows of weights, and after them their scales and their bias to `params`. */
void cmdq_net_load_weights(cmdq_network *net, const cmdq_net_weights *w, uint64_t row, uint64_t rows, uint32_t weights,
                           uint32_t params);

/* ---- network_transposed.c ---- */

/* What the machine lacks for a ConvTranspose, or NULL. */
const char *cmdq_net_transposed_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_transposed(cmdq_network *net, const tv_graph_node *n);

/* ---- network_pools.c ---- */

void cmdq_net_emit_pool(cmdq_network *net, const tv_graph_node *n);

/* ---- network_resize.c ---- */

/* What the machine lacks for a Resize, or NULL. */
const char *cmdq_net_resize_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_resize(cmdq_network *net, const tv_graph_node *n);

/* ---- network_moves.c ---- */

/* What the machine lacks for a node, or NULL; and its entries. */
const char *cmdq_net_transpose_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_transpose(cmdq_network *net, const tv_graph_node *n);
const char *cmdq_net_selection_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_selection(cmdq_network *net, const tv_graph_node *n); /* Gather, Slice */

/* True for a Gather of a constant by an input of the network: the host stores the rows, as it does for tokens of
 * language models. */
bool cmdq_net_is_host_gather(const cmdq_network *net, const tv_graph_node *n);

/* ---- network_elements.c ---- */

/* An operand of an operator of two whose elements are repeated as no instruction does it, or TV_NO_VALUE. */
uint32_t cmdq_net_unrepeatable(const tv_graph *graph, const bool *channels_last, const tv_graph_node *n);

const char *cmdq_net_binary_lacks(const cmdq_network *net, const tv_graph_node *n);

/* The opcode of an extension that computes the operator of the node from one input; -1: there is none. */
int cmdq_net_extension(const tv_graph_node *n);

void cmdq_net_emit_unary(cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_binary(cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_rows(cmdq_network *net, const tv_graph_node *n); /* along the last axis */
void cmdq_net_emit_concat(cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_reorder(cmdq_network *net, const tv_graph_node *n); /* Reshape */

/* ---- network_nodes.c ---- */

/* What the machine lacks for a node, or NULL. */
const char *cmdq_net_lacks(const cmdq_network *net, const tv_graph_node *n);
void cmdq_net_emit_node(cmdq_network *net, const tv_graph_node *n);

/* ---- network_emit.c ---- */

/* Writes the queue and the contents of DRAM to options->emit; `metadata` are those of the queue. */
tv_status cmdq_net_save(const cmdq_network *net, const tv_network_options *options, tv_sv metadata,
                        const tv_diag_sink *sink);

/* Writes the tables whose rows inputs select, for programs that run without this state; notes the steps that do it. */
tv_status cmdq_net_write_tables(cmdq_network *net);

/* Stores a number as element `at` of a value. */
void cmdq_net_store_element(const cmdq_net_value *v, uint8_t *data, uint64_t at, double x);

/* As tv_network_backend describes them. */
unsigned cmdq_net_steps(const void *state, const tv_network_step **list);
tv_status cmdq_net_run_step(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink);
unsigned cmdq_net_programs(const void *state, const tv_network_program **list);
bool cmdq_net_port(const void *state, uint32_t value, tv_network_port *out);

extern const tv_network_backend tv_network_cmdq;

#endif
