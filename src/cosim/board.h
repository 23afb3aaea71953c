/* SPDX-License-Identifier: Apache-2.0 */
/* The scoreboard: what the model and the design did for each instruction that is in flight.
 *
 * The model executes an instruction when it is issued, and its record is copied, because it is valid only until the
 * next call. Events of the design are stored until the instruction retires; then both are compared
 * (scoreboard_compare.c). Addresses are kept in bytes of the space that has the bytes, so that registers under two
 * names meet. */
#ifndef TV_COSIM_BOARD_H
#define TV_COSIM_BOARD_H

#include "base/buf.h"
#include "base/vec.h"
#include "cosim/rules.h"
#include "trivet/machine.h"

enum {
    OPEN_MAX = 4096,
    RETIRED_MAX = 1024,
    EVENT_BYTES_MAX = 1 << 28, /* of one event */
    STORED_MAX = 1 << 30,      /* of all entries that are open */
    CODE_MAX = 16,
    VALUE_NAME_MAX = 32,
    VALUE_NAMES_MAX = 256,
    INSN_MAX = 48
};

/* A space of the machine. */
typedef struct board_space {
    const char *name;          /* static */
    unsigned base;             /* index of the space that has its bytes */
    uint64_t unit_bytes, size; /* size: units */
    tv_dtype type;
} board_space;

/* A range that the model writes. Ranges of an instruction are ordered by space and address and do not overlap. */
typedef struct board_range {
    unsigned space;
    uint64_t from, bytes; /* in bytes */
    size_t at;            /* of the first byte in `expected`, `actual` and `written` */
} board_range;

/* A write of the design. */
typedef struct board_write {
    unsigned space;
    uint64_t from, bytes;
    size_t at;     /* in `data` and `enabled` */
    bool is_whole; /* all of its bytes are enabled */
} board_write;

/* A name of inner values. */
typedef struct board_name {
    char text[VALUE_NAME_MAX];
} board_name;

/* An inner value. There are many: one for each element of a result. */
typedef struct board_value {
    uint64_t element;
    union {
        int64_t integer; /* of a real number its bits */
        double real;
    };
    uint16_t name; /* index in the scoreboard's list */
    bool is_integer;
    bool is_reported; /* of the model: by the design, too */
} board_value;

typedef TV_VEC(board_value) board_values;

typedef struct board_entry {
    uint64_t tag, number, word, design_word;
    uint64_t order; /* of the model's record */
    bool issued, retired, has_design_word;
    bool has_deferred_end; /* the design reports its end after it has retired */
    uint64_t cycle, end;   /* of the design and of the model */
    char insn[INSN_MAX], fault[CODE_MAX], trap[CODE_MAX];
    char *file; /* or NULL */
    unsigned line;
    TV_VEC(board_range) ranges;
    tv_buf expected, actual, written;
    board_values values;  /* of the model */
    board_values reports; /* of the design */
    TV_VEC(board_write) writes;
    tv_buf data, enabled;
    uint64_t stored; /* bytes of its writes, the model's and the design's */
    bool is_sorted;  /* `values` are in the order of elements and names */
    size_t next;     /* in `values`: after the last one that a report was equal to; unused when they are sorted */
} board_entry;

/* An instruction that has retired, to name it when a write comes late. */
typedef struct board_retired {
    uint64_t tag, number, word, order;
    char insn[INSN_MAX];
} board_retired;

/* An instruction that has retired before both ends were known. */
typedef struct board_waiting {
    board_retired insn;
    uint64_t cycle, end; /* of the design and of the model */
    char *file;          /* owned, or NULL */
    unsigned line;
} board_waiting;

struct tv_scoreboard {
    tv_machine *machine;
    tv_scoreboard_options options;
    unsigned contents;
    TV_VEC(board_space) spaces;
    TV_VEC(board_name) names; /* VALUE_NAMES_MAX at most */
    unsigned last_name;       /* that was looked up */
    TV_VEC(board_entry *) open;
    TV_VEC(board_entry *) unused;
    TV_VEC(board_waiting) waiting;
    board_retired retired[RETIRED_MAX]; /* a ring: number n at n % RETIRED_MAX */
    uint64_t retired_count, issued_count;
    uint64_t stored;      /* of open entries */
    bool has_completions; /* ends may become known after an instruction has retired */
    bool is_hooked;       /* the machine reports them to the scoreboard */
    bool failed;          /* a comparison ran out of memory */
    tv_scoreboard_counts counts;
};

/* The entry of `tag`, or NULL. */
board_entry *tv_board_find(tv_scoreboard *board, uint64_t tag);

/* The same; makes one that is not issued. NULL: out of memory, or too many. */
board_entry *tv_board_open(tv_scoreboard *board, uint64_t tag);

/* Copies `commit` into the entry, which is then issued. */
tv_status tv_board_issue(tv_scoreboard *board, board_entry *entry, const tv_commit *commit);

/* Adds the effects of another record of the same instruction to an issued entry. */
tv_status tv_board_extend(tv_scoreboard *board, board_entry *entry, const tv_commit *commit);

/* Compares the entry, counts it, and removes it. */
void tv_board_close(tv_scoreboard *board, board_entry *entry);

/* Reports an entry that has not ended, and removes it. `text` says why. */
void tv_board_drop(tv_scoreboard *board, board_entry *entry, const char *text);

/* Makes a scoreboard; `executes`: its machine does what is issued. */
tv_status tv_board_new(tv_machine *machine, const tv_scoreboard_options *options, bool executes, tv_scoreboard **out);

/* Lets the machine report the ends that it does not know when it executes an instruction. TV_ERR_INPUT: it does so to
 * another scoreboard. */
tv_status tv_board_hook(tv_scoreboard *board);
void tv_board_flush(tv_scoreboard *board);  /* reports those of instructions in flight, as if the run ended here */
void tv_board_unhook(tv_scoreboard *board); /* frees what waits, too */

/* Keeps an entry that retires, if the comparison of its cycles must wait for an end. */
void tv_board_wait(tv_scoreboard *board, board_entry *entry, const board_retired *insn);

/* The ends of the instruction whose record has `order`, the model's and the design's, are known now. One of them may be
 * TV_CYCLE_UNKNOWN. */
void tv_board_complete(tv_scoreboard *board, uint64_t order, uint64_t end, uint64_t cycle);

/* Compares the cycles in which an instruction has ended. */
void tv_board_compare_cycles(tv_scoreboard *board, tv_mismatch *m, uint64_t expected, uint64_t actual);

/* The comparison of a retired entry. */
void tv_board_compare(tv_scoreboard *board, board_entry *entry);

/* Completes the class of `m`, counts it, and reports it. */
void tv_board_report(tv_scoreboard *board, tv_mismatch *m);

/* A mismatch of the entry with its source location. */
tv_mismatch tv_board_mismatch(const board_entry *entry, tv_mismatch_kind kind);

/* Two copies of a range, from byte `from` of `space` on. */
typedef struct board_bytes {
    unsigned space;
    uint64_t from, bytes;
    const uint8_t *expected, *actual;
} board_bytes;

/* The type of elements of `space`, and the tolerance for them. */
tv_dtype tv_board_type(const tv_scoreboard *board, const char *insn, unsigned space, tolerance *out);

/* True if element `i` of both copies counts as equal. */
bool tv_board_accepts(const board_bytes *range, uint64_t i, tv_dtype type, const tolerance *t);

/* Describes element `i` in `m`. */
void tv_board_describe(const tv_scoreboard *board, const board_bytes *range, uint64_t i, tv_dtype type, tv_mismatch *m);

#endif
