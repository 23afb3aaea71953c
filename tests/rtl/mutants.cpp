// SPDX-License-Identifier: Apache-2.0
// Runs mutants of a design in lockstep with the model: mutants INSTRUCTIONS SECONDS SEED FIRST LAST [reduce|products].
// Each mutant runs in a process of its own, so that all begin in the same state; number 0 is the design itself, without
// a limit of time. Prints for each its number and the mismatch.
//
// With "reduce" each mismatch is reduced: the model executes what comes before the last instructions alone, a new
// design is brought to its state, and both execute the last instructions: one, more until the mismatch is of the same
// class, because the design may have a wrong state that no port shows, then fewer as long as it stays so. A line
// "NUMBER REDUCED COUNT MISMATCH" follows. With "products" a line "NUMBER PRODUCTS MISMATCHES COUNT" has the matrix
// products of several runs until their mismatch.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "lockstep.h"

static bool faulted; // the instruction that has retired last

static int retire(lockstep *model, uint32_t fault)
{
    faulted = fault != 0;
    return lockstep_retire(model, fault);
}

#define main bench_main
#define lockstep_retire retire
#include "../../examples/rtl/bench/bench.cpp"
#undef main
#include "design___024root.h"

struct event {
    uint32_t kind, addr, data[4];
};

constexpr unsigned TESTS = 400;    // of a reduction
constexpr unsigned RATE_RUNS = 20; // seeds of a count of products
constexpr unsigned IDLE = 4;       // cycles after the last instruction of a repetition
constexpr unsigned WARM = 500;     // instructions before it, until memories have data

static void reset(design &dut, lockstep *model, int number)
{
    const uint32_t data[4] = {};
    dut.mutant_input = number;
    dut.rst = 1;
    execute(dut, model, 0, 0, data);
    dut.rst = 0;
}

#ifdef STREAM
static bool is_product(uint64_t word) { return word >> 60 == 0; }
#else
static bool is_product(uint64_t) { return false; }
#endif

// Until the mismatch; returns the matrix products until then that did not fault. The first `warm` instructions execute
// without the mutant and do not count.
static uint64_t run(design &dut, int number, uint64_t count, unsigned seed, uint64_t warm)
{
    event e{};
    uint64_t products = 0;
    lockstep *model = lockstep_new(TARGET, seed);
    reset(dut, model, warm ? 0 : number);
    while (lockstep_instructions(model) < count) {
        lockstep_next(model, &e.kind, &e.addr, e.data);
        bool counts = lockstep_instructions(model) >= warm;
        dut.mutant_input = counts ? number : 0;
        faulted = false;
        bool differs = execute(dut, model, e.kind, e.addr, e.data);
        products +=
            counts && e.kind == LOCKSTEP_INSTRUCTION && !faulted && is_product(e.data[0] | uint64_t(e.data[1]) << 32);
        if (differs)
            break;
    }
    lockstep_finish(model);
    return products;
}

// The output of `work`, which runs in a process of its own for at most `seconds`, 0 for no limit.
template <typename Work> static std::string output_of(unsigned seconds, Work work)
{
    int pipes[2];
    std::string text;
    fflush(stdout);
    if (pipe(pipes) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        close(pipes[0]);
        alarm(seconds);
        work();
        fflush(stdout);
        _exit(0);
    }
    close(pipes[1]);
    char block[4096];
    for (ssize_t n; (n = read(pipes[0], block, sizeof block)) > 0;)
        text.append(block, size_t(n));
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        text += WTERMSIG(status) == SIGALRM ? "TIME\n" : "CRASH\n";
    return text;
}

// How often the mutant shows in a product: runs until the mismatch, with one seed after another.
static void count_products(design &dut, int number, uint64_t count, unsigned seconds, unsigned seed)
{
    uint64_t products = 0;
    unsigned found = 0, misses = 0;
    for (unsigned run_seed = seed; run_seed < seed + RATE_RUNS && misses < 2; run_seed++) {
        std::string text =
            output_of(seconds, [&] { printf("%llu\n", (unsigned long long)run(dut, number, count, run_seed, WARM)); });
        bool differs = text.compare(0, 9, "MISMATCH:") == 0;
        size_t line = text.size() > 1 ? text.rfind('\n', text.size() - 2) : std::string::npos;
        found += differs;
        misses += !differs;
        if (line != std::string::npos)
            products += strtoull(text.c_str() + line + 1, nullptr, 10);
    }
    printf("%d PRODUCTS %u %llu\n", number, found, (unsigned long long)products);
}

// ---- The state of the design ----

static void store(CData &to, const uint8_t *from) { to = *from; }
static void store(QData &to, const uint8_t *from) { memcpy(&to, from, sizeof to); }
template <size_t N> static void store(VlWide<N> &to, const uint8_t *from) { memcpy(to.data(), from, N * 4); }

// Stores `bytes` bytes, from byte `at` on, in an array whose elements have them in this order.
template <typename Array> static void store_bytes(Array &to, uint64_t at, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof to[0])
        store(to[(at + i) / sizeof to[0]], data + i);
}

struct seed_state {
    design &dut;
    uint32_t stream_words;
};

#ifdef STREAM
// An entry of the Constant Cache: three values, the first one in the highest bits of the design.
static void store_constant(design &dut, uint64_t entry, const uint8_t *data)
{
    uint16_t v[3];
    memcpy(v, data, sizeof v);
    auto *root = dut.rootp;
    auto &bank = entry < 64 ? root->pccx_core__DOT__fmap_shape : root->pccx_core__DOT__weight_shape;
    bank[entry % 64] = QData(v[0]) << 32 | QData(v[1]) << 16 | v[2];
}

static void store_state(void *user, const char *space, uint64_t addr, const void *from, size_t bytes)
{
    auto *seed = static_cast<seed_state *>(user);
    auto *root = seed->dut.rootp;
    auto *data = static_cast<const uint8_t *>(from);
    if (strcmp(space, "l2") == 0)
        store_bytes(root->pccx_core__DOT__l2, addr * 16, data, bytes);
    else if (strcmp(space, "host") == 0)
        store_bytes(root->pccx_core__DOT__host, addr, data, bytes);
    else if (strcmp(space, "emax") == 0)
        memcpy(&root->pccx_core__DOT__e_max, data, 2);
    else if (strcmp(space, "stream") == 0)
        memcpy(&seed->stream_words, data, 4);
    for (size_t i = 0; i < bytes && strcmp(space, "const") == 0; i += 6)
        store_constant(seed->dut, addr + i / 6, data + i);
}
#else
static void store_state(void *user, const char *space, uint64_t addr, const void *from, size_t bytes)
{
    auto *root = static_cast<seed_state *>(user)->dut.rootp;
    auto *data = static_cast<const uint8_t *>(from);
    if (strcmp(space, "vx") == 0)
        store_bytes(root->opennpu_core__DOT__vx, addr * 8, data, bytes);
    else if (strcmp(space, "mem") == 0)
        store_bytes(root->opennpu_core__DOT__mem, addr, data, bytes);
    else if (strcmp(space, "lut_a") == 0)
        store_bytes(root->opennpu_core__DOT__lut_a, addr, data, bytes);
    else if (strcmp(space, "lut_b") == 0)
        store_bytes(root->opennpu_core__DOT__lut_b, addr, data, bytes);
    else if (strcmp(space, "acc") == 0)
        store_bytes(root->opennpu_core__DOT__acc, addr * 4, data, bytes);
    else if (strcmp(space, "column") == 0)
        root->opennpu_core__DOT__column = *data;
}
#endif

// The descriptors of the last `words` words that were appended before event `end`.
static void append_descriptors(design &dut, lockstep *model, const std::vector<event> &events, size_t end,
                               uint32_t words)
{
    std::vector<event> left;
    for (size_t i = end; i-- > 0 && words;) {
        event e = events[i];
        if (e.kind != LOCKSTEP_STREAM)
            continue;
        uint32_t taken = std::min(words, e.data[0]);
        e.addr += e.data[0] - taken;
        e.data[0] = taken;
        words -= taken;
        left.push_back(e);
    }
    for (; !left.empty(); left.pop_back())
        execute(dut, model, LOCKSTEP_STREAM, left.back().addr, left.back().data);
}

// ---- Reduction ----

// The events until instruction `count`, from the model alone.
static std::vector<event> list_events(uint64_t count, unsigned seed)
{
    std::vector<event> events;
    lockstep *model = lockstep_new(TARGET, seed);
    while (lockstep_instructions(model) < count) {
        event e{};
        lockstep_next(model, &e.kind, &e.addr, e.data);
        events.push_back(e);
        if (e.kind == LOCKSTEP_INSTRUCTION)
            lockstep_skip(model);
    }
    lockstep_free(model);
    return events;
}

// Executes the instructions `kept`, numbers in the order of the program, after a seeding of the design with the state
// before the first of the last `window` instructions. Other events of that window stay.
static void repeat(design &dut, int number, unsigned seed, const std::vector<event> &events, uint64_t window,
                   const std::vector<uint64_t> &kept)
{
    lockstep *model = lockstep_new(TARGET, seed);
    seed_state state{dut, 0};
    size_t first = events.size(), next = 0;
    for (uint64_t left = window; left; first--)
        left -= events[first - 1].kind == LOCKSTEP_INSTRUCTION;
    for (size_t i = 0; i < first; i++) {
        lockstep_event(model, events[i].kind, events[i].addr, events[i].data);
        if (events[i].kind == LOCKSTEP_INSTRUCTION)
            lockstep_skip(model);
    }
    uint64_t count = lockstep_instructions(model);
    reset(dut, model, number);
    lockstep_seed(model, store_state, &state);
    append_descriptors(dut, model, events, first, state.stream_words);
    for (size_t i = first; i < events.size(); i++) {
        const event &e = events[i];
        if (e.kind == LOCKSTEP_INSTRUCTION && (next == kept.size() || kept[next] != count++))
            continue;
        next += e.kind == LOCKSTEP_INSTRUCTION;
        lockstep_event(model, e.kind, e.addr, e.data);
        if (execute(dut, model, e.kind, e.addr, e.data))
            return;
    }
    for (unsigned i = 0; i < IDLE; i++) // for late writes
        execute(dut, model, 0, 0, events.back().data);
}

// The class in "MISMATCH: instruction N (WORD) TEXT: CLASS: MESSAGE"; empty if there is no mismatch.
static std::string class_of(const std::string &text)
{
    size_t start = text.find(") "), slash = start == std::string::npos ? start : text.find(": ", start);
    if (text.compare(0, 9, "MISMATCH:") != 0 || slash == std::string::npos)
        return "";
    return text.substr(slash + 2, text.find(": ", slash + 2) - slash - 2);
}

static void reduce(design &dut, int number, unsigned seed, const std::string &found)
{
    std::string name = class_of(found), smallest;
    uint64_t count = strtoull(found.c_str() + sizeof "MISMATCH: instruction" - 1, nullptr, 10) + 1, window = 1;
    unsigned tests = 0;
    std::vector<event> events = list_events(count, seed);
    std::vector<uint64_t> kept;
    auto fails = [&](const std::vector<uint64_t> &chosen) {
        if (++tests > TESTS)
            return false;
        std::string text = output_of(20, [&] { repeat(dut, number, seed, events, window, chosen); });
        bool same = class_of(text) == name;
        if (same)
            smallest = text;
        return same;
    };
    auto last_instructions = [&] {
        kept.clear();
        for (uint64_t i = count - window; i < count; i++)
            kept.push_back(i);
        return kept;
    };
    while (!fails(last_instructions()) && window < count)
        window = std::min(count, window < 4 ? window + 1 : window * 2);
    for (size_t size = kept.size() / 2; size && !smallest.empty(); size /= 2)
        for (size_t end = kept.size(); end > size; end -= std::min(end, size)) { // the last one stays
            std::vector<uint64_t> fewer = kept;
            fewer.erase(fewer.begin() + long(end - size - 1), fewer.begin() + long(end - 1));
            if (fails(fewer))
                kept = fewer;
        }
    if (smallest.empty())
        printf("%d REDUCED 0 not with the state of the model\n", number);
    else
        printf("%d REDUCED %zu %s", number, kept.size(), smallest.c_str());
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    Verilated::randReset(2);
    design dut;
    dut.clk = 0;
    dut.eval(); // loads the table once; registers keep their random bits
    uint64_t count = strtoull(argv[1], nullptr, 0);
    unsigned seed = unsigned(atoi(argv[3]));
    for (int number = atoi(argv[4]); number <= atoi(argv[5]); number++) {
        std::string text = output_of(number ? unsigned(atoi(argv[2])) : 0, [&] { run(dut, number, count, seed, 0); });
        printf("%d %s", number, text.c_str());
        if (argc > 6 && strcmp(argv[6], "reduce") == 0 && text.compare(0, 9, "MISMATCH:") == 0)
            reduce(dut, number, seed, text);
        if (argc > 6 && strcmp(argv[6], "products") == 0 && number)
            count_products(dut, number, count, unsigned(atoi(argv[2])), seed);
    }
    return 0;
}
