/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of coverage: the rules of a model, its bins, and what is kept between instructions. */
#ifndef TV_COSIM_COVERAGE_H
#define TV_COSIM_COVERAGE_H

#include "base/arena.h"
#include "base/vec.h"
#include "isa/isa.h"
#include "trivet/commit.h"
#include "trivet/cover.h"

#define COVER_NONE UINT32_MAX
enum { COVER_HISTORY = 32, COVER_RANGES = 16, COVER_FIELDS_MAX = 8 };

typedef enum cover_kind {
    COVER_INSTRUCTIONS, /* each instruction */
    COVER_FIELDS,       /* of each field 0, 1, the largest two values, one bit; of up to 3 bits each value */
    COVER_CROSS,        /* combinations of the values of `what`, fields of an instruction; "field:fifo": whether it
                           names a FIFO; "field:given": whether an entry has it */
    COVER_ROUTES,       /* each route of an instruction */
    COVER_REMAINDERS,   /* the field `what` modulo `size` */
    COVER_SIZES,        /* classes of the numbers of a constant that is read, at `from` or later; `size`: bit of each */
    COVER_TAILS,        /* these numbers modulo 8 */
    COVER_VALUES,       /* classes of elements of `type` that are read or written */
    COVER_DEPENDENCES,  /* RAW, WAR and WAW between each two of the engines `what`; "none=MEMSET": bins name
                           the engine none MEMSET */
    COVER_STALLS,       /* stalls of the engines `insns` for the reasons `what` */
    COVER_FAULTS,       /* the codes `what` */
    COVER_REASON,       /* bins of `group` that match `insns` cannot be hit because of `what` */
    COVER_NEVER,        /* … and are left out: the machine has no such thing, or a fault has a bin for it */
} cover_kind;

typedef enum cover_type {
    COVER_INT4, /* each value */
    COVER_INT8,
    COVER_INT16,
    COVER_INT32,
    COVER_BF16,
    COVER_F16,
    COVER_F32,
    COVER_TYPES
} cover_type;

/* A row of cover_*.def. Lists are separated by spaces; instructions and bins are patterns as of file names. */
typedef struct cover_rule {
    cover_kind kind;
    const char *group, *insns, *what;
    const char *space; /* of accesses; a pattern */
    bool write;
    uint8_t type;  /* cover_type */
    uint32_t size; /* VALUES: units of a register, each with one byte of all elements; 0: elements one
                      after the other */
    uint32_t from;
} cover_rule;

/* A field of a CROSS: its values are numbered from 0. */
typedef struct cover_axis {
    uint16_t field; /* index in the fields of a format, or parameter of an opcode */
    enum { AXIS_VALUE, AXIS_FIFO, AXIS_GIVEN } form;
    uint32_t values;
} cover_axis;

/* The bins of a rule for an instruction; of rules without instructions there is one. */
typedef struct cover_block {
    const cover_rule *rule;
    uint32_t insn;  /* row; COVER_NONE: all */
    uint32_t first; /* bin */
    uint32_t count;
    uint32_t axes; /* index of the first axis, of CROSS and FIELDS */
    uint32_t axis_count;
} cover_block;

typedef struct cover_list {
    uint32_t first, count;
} cover_list;

/* Bytes of a space that an instruction accessed. */
typedef struct cover_range {
    const char *space;
    uint64_t first, end;
    bool write, queue;
} cover_range;

typedef struct cover_step {
    uint32_t engine; /* position in the list of engines; COVER_NONE: not in it */
    uint32_t count;
    cover_range ranges[COVER_RANGES];
} cover_step;

struct tv_cover {
    const tv_isa *isa;
    tv_codec *codec;
    tv_arena arena;             /* names */
    TV_VEC(tv_cover_bin) bins;  /* a goal of 0: left out */
    TV_VEC(uint32_t) shown;     /* the others */
    TV_VEC(cover_block) blocks; /* of instructions first, in their order, then the others */
    TV_VEC(cover_axis) axes;
    TV_VEC(cover_list) lists; /* blocks of each instruction */
    cover_list others;
    uint32_t *engines; /* of each instruction: position in the list of DEPENDENCES */
    uint32_t engine_count;
    uint64_t instructions;
    bool ignores_faults;
    tv_machine *machine; /* attached */
    cover_step history[COVER_HISTORY];
    unsigned steps; /* of the history */
    unsigned next;
};

/* tv_cover_new of an instruction set. */
tv_status tv_cover_new_for(const tv_isa *isa, const tv_diag_sink *sink, tv_cover **out);

/* The rules of a target, or NULL. */
const cover_rule *tv_cover_rules(const char *target, unsigned *count);

/* Makes the bins of the rules. `cover` has its instruction set. */
tv_status tv_cover_build(tv_cover *cover, const tv_diag_sink *sink);

/* True if `name` is in a list of patterns, which spaces separate. */
bool tv_cover_matches(const char *patterns, const char *name);

static inline void tv_cover_hit(tv_cover *cover, uint32_t bin) { cover->bins.data[bin].hits++; }

/* ---- cover_fields.c ---- */

/* Number of bins of a field of the instruction set, and the name of each. The largest value of a register is that of
 * its class in a word. */
uint32_t tv_cover_corners(const tv_isa *isa, uint16_t field);
void tv_cover_corner_name(const tv_isa *isa, uint16_t field, uint32_t corner, char name[32]);

/* A value that is a corner in `word`; `random` selects among several. */
uint64_t tv_cover_corner_value(const tv_isa *isa, const tv_insn *insn, uint16_t field, uint32_t corner, uint64_t word,
                               uint64_t random);

/* The values of an axis. */
uint32_t tv_cover_axis_values(const tv_isa *isa, const cover_axis *axis);
void tv_cover_axis_name(const tv_isa *isa, const cover_axis *axis, uint32_t value, char name[48]);

/* Counts the fields of an instruction word, or of entry `index` of the queue that `program` is. */
void tv_cover_count_word(tv_cover *cover, uint32_t insn, uint64_t word);
void tv_cover_count_entry(tv_cover *cover, const struct tv_program *program, uint32_t index);

/* ---- cover_values.c ---- */

extern const char *const tv_cover_int_classes[], *const tv_cover_real_classes[], *const tv_cover_size_classes[];
enum { COVER_INT_CLASSES = 7, COVER_REAL_CLASSES = 8, COVER_SIZE_CLASSES = 9, COVER_TAIL = 8 };

/* Counts elements, their remainders, and numbers of constants in the accesses of a record. */
void tv_cover_count_accesses(tv_cover *cover, uint32_t insn, const tv_commit *commit);

/* Counts the dependences of a record on earlier ones, and remembers its accesses. */
void tv_cover_count_dependences(tv_cover *cover, uint32_t insn, const tv_commit *commit);

#endif
