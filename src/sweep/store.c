/* SPDX-License-Identifier: Apache-2.0 */
/* The database of results. With a write-ahead log a row is there, or not, whenever the process is killed; several
 * processes may share the file. */
#include "sweep/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"

enum { SCHEMA_VERSION = 2, APPLICATION_ID = 0x54725677, BUSY_MS = 60000 };

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS result(key TEXT PRIMARY KEY, version TEXT NOT NULL, target TEXT NOT NULL,"
    " workload TEXT NOT NULL, configuration TEXT NOT NULL, outcome INTEGER NOT NULL, reason TEXT NOT NULL,"
    " cycles INTEGER NOT NULL, clock_hz REAL NOT NULL, bytes INTEGER NOT NULL, macs INTEGER NOT NULL,"
    " instructions INTEGER NOT NULL, tokens INTEGER NOT NULL, token_cycles INTEGER NOT NULL, bound_by TEXT NOT NULL,"
    " stats TEXT, energy_low REAL NOT NULL, energy REAL NOT NULL, energy_high REAL NOT NULL) WITHOUT ROWID;";

struct sweep_store {
    sqlite3 *database;
    sqlite3_stmt *find, *add;
    pthread_mutex_t lock;
    char *path;
};

static tv_status fail_database(const sweep_store *s, const char *what, const tv_diag_sink *sink)
{
    int code = sqlite3_errcode(s->database);
    if (code == SQLITE_NOMEM)
        return tv_fail_memory(sink);
    bool is_other = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
    return tv_fail(sink, is_other ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(SWEEP_STORE),
                   is_other ? "name a file that trivet sweep has made, or a new one" : NULL, "%s '%.200s': %.200s",
                   what, s->path, sqlite3_errmsg(s->database));
}

static tv_status run_sql(sweep_store *s, const char *sql, const tv_diag_sink *sink)
{
    return sqlite3_exec(s->database, sql, NULL, NULL, NULL) == SQLITE_OK
               ? TV_OK
               : fail_database(s, "cannot use the results in", sink);
}

static int read_integer(sweep_store *s, const char *sql)
{
    sqlite3_stmt *statement;
    int value = -1;
    if (sqlite3_prepare_v2(s->database, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* A new database gets the table; another one must be of this kind and version. */
static tv_status prepare_schema(sweep_store *s, const tv_diag_sink *sink)
{
    char sql[96];
    TV_TRY(run_sql(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", sink));
    int tables = read_integer(s, "SELECT count(*) FROM sqlite_master"), id = read_integer(s, "PRAGMA application_id"),
        version = read_integer(s, "PRAGMA user_version");
    if (tables < 0)
        return fail_database(s, "cannot read", sink);
    if (tables > 0 && (id != APPLICATION_ID || version != SCHEMA_VERSION))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(SWEEP_STORE), "name a file that trivet sweep has made, or a new one",
                       id == APPLICATION_ID ? "'%.200s' has results in the form of another version"
                                            : "'%.200s' is a database of something else",
                       s->path);
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d;", APPLICATION_ID, SCHEMA_VERSION);
    TV_TRY(run_sql(s, "BEGIN IMMEDIATE", sink));
    tv_status status = run_sql(s, schema, sink);
    if (status == TV_OK)
        status = run_sql(s, sql, sink);
    if (status == TV_OK)
        return run_sql(s, "COMMIT", sink);
    sqlite3_exec(s->database, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static tv_status prepare_statements(sweep_store *s, const tv_diag_sink *sink)
{
    static const char find[] =
        "SELECT outcome, reason, cycles, clock_hz, bytes, macs, instructions, tokens, "
        "token_cycles, bound_by, stats, energy_low, energy, energy_high FROM result WHERE key = ?1";
    static const char add[] =
        "INSERT OR IGNORE INTO result VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
        "?17, ?18, ?19)";
    bool good = sqlite3_prepare_v2(s->database, find, -1, &s->find, NULL) == SQLITE_OK &&
                sqlite3_prepare_v2(s->database, add, -1, &s->add, NULL) == SQLITE_OK;
    return good ? TV_OK : fail_database(s, "cannot read", sink);
}

tv_status tv_store_open(const char *path, const tv_diag_sink *sink, sweep_store **out)
{
    sweep_store *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    pthread_mutex_init(&s->lock, NULL);
    s->path = strdup(path ? path : "memory");
    tv_status status = s->path ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && sqlite3_open_v2(path ? path : ":memory:", &s->database,
                                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        status = fail_database(s, "cannot open", sink);
    if (status == TV_OK) {
        sqlite3_busy_timeout(s->database, BUSY_MS);
        status = prepare_schema(s, sink);
    }
    if (status == TV_OK)
        status = prepare_statements(s, sink);
    if (status != TV_OK) {
        tv_store_close(s);
        return status;
    }
    *out = s;
    return TV_OK;
}

void tv_store_close(sweep_store *s)
{
    if (!s)
        return;
    sqlite3_finalize(s->find);
    sqlite3_finalize(s->add);
    sqlite3_close(s->database);
    pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}

/* ---- Rows ---- */

static void copy_column(sqlite3_stmt *statement, int column, char *to, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    snprintf(to, size, "%s", text ? (const char *)text : "");
}

static uint64_t read_count(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

static tv_status read_row(sqlite3_stmt *row, sweep_result *out)
{
    int outcome = sqlite3_column_int(row, 0);
    *out = (sweep_result){.outcome = outcome >= 0 && outcome < OUTCOMES ? (sweep_outcome)outcome : OUTCOME_INVALID,
                          .cycles = read_count(row, 2),
                          .clock_hz = sqlite3_column_double(row, 3),
                          .bytes = read_count(row, 4),
                          .macs = read_count(row, 5),
                          .instructions = read_count(row, 6),
                          .tokens = read_count(row, 7),
                          .token_cycles = read_count(row, 8),
                          .energy_low = sqlite3_column_double(row, 11),
                          .energy = sqlite3_column_double(row, 12),
                          .energy_high = sqlite3_column_double(row, 13)};
    copy_column(row, 1, out->reason, sizeof out->reason);
    copy_column(row, 9, out->bound_by, sizeof out->bound_by);
    const unsigned char *stats = sqlite3_column_text(row, 10);
    out->stats = stats ? strdup((const char *)stats) : NULL;
    return !stats || out->stats ? TV_OK : TV_ERR_MEMORY;
}

tv_status tv_store_find(sweep_store *s, const char *key, const tv_diag_sink *sink, bool *found, sweep_result *out)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_bind_text(s->find, 1, key, -1, SQLITE_STATIC);
    int step = sqlite3_step(s->find);
    *found = step == SQLITE_ROW;
    tv_status status = *found                ? read_row(s->find, out)
                       : step == SQLITE_DONE ? TV_OK
                                             : fail_database(s, "cannot read", sink);
    sqlite3_reset(s->find);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void bind_text(sqlite3_stmt *statement, int i, const char *text)
{
    sqlite3_bind_text(statement, i, text, -1, SQLITE_STATIC);
}

static void bind_count(sqlite3_stmt *statement, int i, uint64_t value)
{
    sqlite3_bind_int64(statement, i, (sqlite3_int64)value);
}

static void bind_row(sqlite3_stmt *add, const store_row *row, const sweep_result *r)
{
    bind_text(add, 1, row->key);
    bind_text(add, 2, tv_version());
    bind_text(add, 3, row->target);
    bind_text(add, 4, row->workload);
    bind_text(add, 5, row->configuration);
    sqlite3_bind_int(add, 6, (int)r->outcome);
    bind_text(add, 7, r->reason);
    bind_count(add, 8, r->cycles);
    sqlite3_bind_double(add, 9, r->clock_hz);
    bind_count(add, 10, r->bytes);
    bind_count(add, 11, r->macs);
    bind_count(add, 12, r->instructions);
    bind_count(add, 13, r->tokens);
    bind_count(add, 14, r->token_cycles);
    bind_text(add, 15, r->bound_by);
    bind_text(add, 16, r->stats);
    sqlite3_bind_double(add, 17, r->energy_low);
    sqlite3_bind_double(add, 18, r->energy);
    sqlite3_bind_double(add, 19, r->energy_high);
}

tv_status tv_store_add(sweep_store *s, const store_row *row, const sweep_result *result, const tv_diag_sink *sink)
{
    pthread_mutex_lock(&s->lock);
    bind_row(s->add, row, result);
    tv_status status = sqlite3_step(s->add) == SQLITE_DONE ? TV_OK : fail_database(s, "cannot write", sink);
    sqlite3_reset(s->add);
    sqlite3_clear_bindings(s->add);
    pthread_mutex_unlock(&s->lock);
    return status;
}
