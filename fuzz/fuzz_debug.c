/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the console commands and the Debug Adapter Protocol; the first byte selects a console target or the protocol,
 * where a program has already been launched. Commands that read or write files are skipped. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug/debug.h"
#include "mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char pccx_text[] =
    "        .target pccx\nstart:  memset fmap_shape[0], 8, 4, 1\n        memset weight_shape[0], 1, 16, 32\n"
    "copy:   memcpy l2[0], host[x], shape=0, async\n        wstream gemv, w, w_end - w\n        gemv l2[8], l2[0], "
    "size=1, shape=0, findemax\n"
    "        cvo.exp l2[16], l2[8], len=16, sub_emax, async\n        memcpy host[y], l2[16], shape=0\n        .data\n"
    "x:      .zero 64\nw:      .zero 256\nw_end:\n        .balign 16\ny:      .zero 64\n";

static const char opennpu_text[] = "        .target opennpu\n        ld.vr vr0, 0(vr7)\nloop:   .rept 20\n        mma "
                                   "vx0, vx4\n        mma.last vr3\n        st.vr vr3, 64(vr7)\n        .endr\n";

static const char cmdq_text[] = "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"DMA_LOAD_TILE\", "
                                "\"id\": 0, \"tensor_role\": \"activation\", \"qbits\": 8, \"dram_addr\": 0, "
                                "\"spm_bank\": 0, \"spm_offset\": 0, \"num_elements\": 64}, {\"opcode\": "
                                "\"DMA_STORE_TILE\", \"id\": 1, \"deps_before\": [0], "
                                "\"tensor_role\": \"activation\", \"qbits\": 8, \"dram_addr\": 64, \"spm_bank\": 0, "
                                "\"spm_offset\": 0, \"num_elements\": 64}, {\"opcode\": \"END\", \"id\": 2}]}";

static const struct {
    const char *target, *name, *text, *settings[2][2];
} kinds[] = {
    {"pccx", "fuzz.s", pccx_text, {{"host.bytes", "64Ki"}, {"l2.words", "256"}}},
    {"opennpu", "fuzz.s", opennpu_text, {{"vector.k", "8"}, {"mem.bytes", "64Ki"}}},
    {"cmdq", "fuzz.json", cmdq_text, {{"dram.bytes", "64Ki"}, {"spm.bank_bytes", "2Ki"}}},
};

/* Commands that read or write files. */
static bool names_files(const char *line)
{
    line += strspn(line, " \t");
    return strncmp(line, "so", 2) == 0 || strncmp(line, "tr", 2) == 0;
}

static void run_commands(unsigned kind, char *text)
{
    tv_program *program;
    tv_config *config;
    tv_debug *debug;
    tv_debug_options options = {.size = sizeof options, .snapshot_interval = 3, .snapshot_memory = 200000};
    if (tv_program_parse(kinds[kind].name, kinds[kind].text, strlen(kinds[kind].text), NULL, NULL, &program) != TV_OK ||
        tv_config_new(kinds[kind].target, NULL, &config) != TV_OK)
        abort();
    for (unsigned i = 0; i < 2; i++)
        if (tv_config_set(config, kinds[kind].settings[i][0], kinds[kind].settings[i][1], NULL) != TV_OK)
            abort();
    const tv_program *programs[] = {program};
    if (tv_debug_new(config, programs, 1, &options, NULL, &debug) != TV_OK)
        abort();
    unsigned lines = 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line && lines < 60;
         line = strtok_r(NULL, "\n", &save), lines++) {
        tv_debug_answer answer;
        free(tv_debug_complete(debug, line));
        if (names_files(line))
            continue;
        tv_debug_command(debug, line, NULL, &answer);
        if (!answer.text || !answer.json)
            abort();
        tv_debug_answer_free(&answer);
    }
    tv_debug_free(debug);
    tv_config_free(config);
    tv_program_free(program);
}

/* The client's messages: the launch, then the input. */
typedef struct pipe_end {
    tv_buf bytes;
    size_t at;
} pipe_end;

static char folder[] = "/tmp/trivet-fuzz-debug-XXXXXX", path[64];

static void remove_files(void)
{
    unlink(path);
    rmdir(folder);
}

/* Writes the program to launch, once for all inputs. */
static void write_program(void)
{
    if (*path)
        return;
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/fuzz.s", folder);
    FILE *out = fopen(path, "w");
    if (!out || fputs(pccx_text, out) < 0 || fclose(out) != 0)
        abort();
    atexit(remove_files);
}

static void append_message(tv_buf *out, const char *body)
{
    tv_buf_printf(out, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
}

static void ignore_output(void *user, const void *bytes, size_t size) { (void)user, (void)bytes, (void)size; }

static size_t read_input(void *user, void *bytes, size_t size, int wait)
{
    pipe_end *p = user;
    size_t n = p->bytes.len - p->at;
    (void)wait;
    n = n < size ? n : size;
    n = n > 700 ? 700 : n; /* messages arrive in chunks */
    if (n)
        memcpy(bytes, p->bytes.data + p->at, n);
    p->at += n;
    return n;
}

static bool contains(const uint8_t *data, size_t size, const char *word)
{
    return memmem(data, size, word, strlen(word)) != NULL;
}

static void run_session(const uint8_t *data, size_t size)
{
    pipe_end end = {0};
    char launch[256];
    if (contains(data, size, "\\u") ||
        (contains(data, size, "evaluate") && (contains(data, size, "tr") || contains(data, size, "so"))))
        return; /* it could name a file to write */
    write_program();
    snprintf(launch, sizeof launch,
             "{\"seq\":1,\"type\":\"request\",\"command\":\"launch\",\"arguments\":{\"program\":\"%s\",\"parameters\":{"
             "\"host.bytes\":\"64Ki\",\"l2.words\":256}}}",
             path);
    append_message(&end.bytes, launch);
    append_message(&end.bytes, "{\"seq\":2,\"type\":\"request\",\"command\":\"configurationDone\"}");
    tv_buf_append(&end.bytes, data, size);
    tv_dap_serve(&(tv_dap_io){ignore_output, read_input, &end}, NULL);
    tv_buf_fini(&end.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned kind = data[0] % 4;
    if (kind == 3) {
        run_session(data + 1, size - 1);
        return 0;
    }
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    run_commands(kind, text);
    free(text);
    return 0;
}

/* Console: commands, their arguments and what expressions are made of. Protocol: names of requests and arguments. */
static const fuzz_keywords console_words = {{"break",
                                             "tbreak",
                                             "watch",
                                             "rwatch",
                                             "awatch",
                                             "delete",
                                             "disable",
                                             "enable",
                                             "ignore",
                                             "step",
                                             "next",
                                             "continue",
                                             "until",
                                             "run",
                                             "restart",
                                             "back",
                                             "rcontinue",
                                             "where",
                                             "info",
                                             "registers",
                                             "engines",
                                             "queues",
                                             "streams",
                                             "hazards",
                                             "stats",
                                             "x",
                                             "set",
                                             "print",
                                             "display",
                                             "undisplay",
                                             "disas",
                                             "list",
                                             "explain",
                                             "why",
                                             "help",
                                             "if",
                                             "opcode",
                                             "cycle",
                                             "fault",
                                             "host:0:16",
                                             "l2:0",
                                             "const:0",
                                             "mem:0x40",
                                             "dram:0:8:u8",
                                             "spm:0",
                                             "start",
                                             "copy+1",
                                             "loop",
                                             "line:3",
                                             "index",
                                             "bf16",
                                             "s8",
                                             "f32",
                                             "u64",
                                             "x /4 u16 host:0",
                                             "set host:0:u8 = 1 2 3",
                                             "print cycle * 2 + 1"},
                                            57};
static const fuzz_keywords protocol_words = {{"setBreakpoints",
                                              "setFunctionBreakpoints",
                                              "setInstructionBreakpoints",
                                              "dataBreakpointInfo",
                                              "setDataBreakpoints",
                                              "continue",
                                              "stackTrace",
                                              "scopes",
                                              "variables",
                                              "next",
                                              "stepIn",
                                              "stepOut",
                                              "stepBack",
                                              "reverseContinue",
                                              "pause",
                                              "readMemory",
                                              "writeMemory",
                                              "disassemble",
                                              "completions",
                                              "evaluate",
                                              "restart",
                                              "disconnect",
                                              "threads",
                                              "initialize",
                                              "source",
                                              "setVariable",
                                              "exceptionInfo",
                                              "goto",
                                              "gotoTargets",
                                              "breakpointLocations",
                                              "condition",
                                              "hitCondition",
                                              "logMessage",
                                              "memoryReference",
                                              "variablesReference",
                                              "threadId",
                                              "frameId",
                                              "granularity"},
                                             38};

/* Changes the body of one message, and gives it the length that it has then. */
static size_t mutate_message(uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    static const char head[] = "Content-Length: ";
    char length[40];
    uint8_t *start = memmem(data, size, head, sizeof head - 1);
    for (size_t n = fuzz_below(random, 8); start && n > 0; n--) {
        uint8_t *after = memmem(start + 1, size - (size_t)(start + 1 - data), head, sizeof head - 1);
        start = after ? after : start;
    }
    uint8_t *body = start ? memmem(start, size - (size_t)(start - data), "\r\n\r\n", 4) : NULL;
    if (!body)
        return fuzz_mutate_json(data, size, max_size, random, &protocol_words);
    size_t from = (size_t)(body + 4 - data), to = from, header = (size_t)(start - data);
    uint8_t *end = memmem(data + from, size - from, head, sizeof head - 1);
    to = end ? (size_t)(end - data) : size;
    uint8_t *text = malloc(max_size);
    memcpy(text, data + from, to - from);
    size_t len = fuzz_mutate_json(text, to - from, max_size > 64 ? max_size - 64 : to - from, random, &protocol_words);
    size = fuzz_splice(data, size, max_size, from, to, (tv_sv){(const char *)text, len});
    free(text);
    int digits = snprintf(length, sizeof length, "Content-Length: %zu\r\n\r\n", len);
    return fuzz_splice(data, size, max_size, header, from, (tv_sv){length, (size_t)digits});
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    if (size < 2 || fuzz_below(&random, 16) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (data[0] % 4 == 3)
        return 1 + mutate_message(data + 1, size - 1, max_size - 1, &random);
    return 1 + fuzz_mutate_lines(data + 1, size - 1, max_size - 1, &random, &console_words);
}
