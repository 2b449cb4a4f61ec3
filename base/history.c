#include "base/history.h"

#include "base/buf.h"
#include "base/document.h"
#include "base/file.h"
#include "base/history_log.h"
#include "base/memory.h"
#include "base/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

/* SQLite is opened when there is something to ask: a start does without it. */
#define SQLITE_FUNCTIONS(M) \
    M(sqlite3_open_v2)      \
    M(sqlite3_close_v2)     \
    M(sqlite3_busy_timeout) \
    M(sqlite3_exec)         \
    M(sqlite3_prepare_v2)   \
    M(sqlite3_bind_int64)   \
    M(sqlite3_bind_text)    \
    M(sqlite3_step)         \
    M(sqlite3_reset)        \
    M(sqlite3_finalize)     \
    M(sqlite3_column_int64) \
    M(sqlite3_column_blob)  \
    M(sqlite3_column_bytes) \
    M(sqlite3_column_text)  \
    M(sqlite3_errmsg)       \
    M(sqlite3_last_insert_rowid)

static const char *const names[] = {"libsqlite3.so.0", "libsqlite3.so"};

/* What may be kept; the oldest entries go when there are more. */
enum { ENTRIES_MOST = 200000, BUSY_MS = 5000 };

/* An entry that is still to be written. */
typedef struct Waiting Waiting;
struct Waiting {
    Waiting *next;
    int64_t session, line;
    size_t input, output; /* bytes */
    char text[]; /* both */
};

struct History {
    Waiting *first, *last;
    HistoryLog log; /* of these */
    char *path; /* NULL: in memory alone */
    bool tried;
    const char *why; /* there is none */
    Buf trouble; /* why it is in memory though there is a place for it, until that was asked */
    void *library;
    sqlite3 *db;
    sqlite3_stmt *insert;
    int64_t session;
    int64_t known; /* the newest entry when this run began */
#define MEMBER(name) __typeof__(name) *name;
    SQLITE_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* ---- the library ------------------------------------------------------------------------------------------------ */

static bool open_library(History *h)
{
    h->library = library_open(names, sizeof names / sizeof *names, RTLD_NOW | RTLD_LOCAL, NULL);
    bool good = h->library != NULL;
    void *symbol;
    /* POSIX lets a data pointer from dlsym hold a function; ISO C has no conversion for it. */
#define FIND(name)                                   \
    symbol = good ? dlsym(h->library, #name) : NULL; \
    good = good && symbol;                           \
    memcpy(&h->name, &symbol, sizeof symbol);
    SQLITE_FUNCTIONS(FIND)
#undef FIND
    if (!good)
        h->why = "SQLite is missing, so there is no history: install libsqlite3-0";
    return good;
}

static bool run(History *h, const char *sql)
{
    return h->sqlite3_exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static sqlite3_stmt *prepare(History *h, const char *sql)
{
    sqlite3_stmt *s = NULL;
    return h->sqlite3_prepare_v2(h->db, sql, -1, &s, NULL) == SQLITE_OK ? s : NULL;
}

/* The number that a question without parameters answers; 0 for none. */
static int64_t number(History *h, const char *sql)
{
    sqlite3_stmt *s = prepare(h, sql);
    int64_t n = s && h->sqlite3_step(s) == SQLITE_ROW ? h->sqlite3_column_int64(s, 0) : 0;
    h->sqlite3_finalize(s);
    return n;
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

/* Text with a NUL is cut there by whoever reads the database. */
static Str without_nul(Str text, Buf *b)
{
    if (!text.len || !memchr(text.ptr, 0, text.len))
        return text;
    for (size_t i = 0; i < text.len; i++)
        buf_bytes(b, text.ptr[i] ? text.ptr + i : "\xef\xbf\xbd", text.ptr[i] ? 1 : 3);
    return (Str){buf_text(b), b->n};
}

static bool insert(History *h, int64_t session, int64_t line, Str input, Str output)
{
    if (!h->insert)
        h->insert = prepare(h, "INSERT INTO entries (session, line, input, output) "
                               "VALUES (?, ?, ?, ?)");
    if (!h->insert)
        return false;
    Buf whole[2] = {0};
    input = without_nul(input, &whole[0]);
    output = without_nul(output, &whole[1]);
    h->sqlite3_bind_int64(h->insert, 1, session);
    h->sqlite3_bind_int64(h->insert, 2, line);
    h->sqlite3_bind_text(h->insert, 3, input.ptr, (int)input.len, SQLITE_STATIC);
    h->sqlite3_bind_text(h->insert, 4, output.len ? output.ptr : NULL, (int)output.len,
                         SQLITE_STATIC);
    bool ok = h->sqlite3_step(h->insert) == SQLITE_DONE;
    h->sqlite3_reset(h->insert);
    buf_deinit(&whole[0]);
    buf_deinit(&whole[1]);
    return ok;
}

static int64_t claim_session(History *h)
{
    return run(h, "INSERT INTO sessions DEFAULT VALUES") ? h->sqlite3_last_insert_rowid(h->db) : 0;
}

/* ---- files of earlier versions ------------------------------------------------------------------------------------ */

/* Beside the database. */
static bool load_beside(const History *h, const char *name, Buf *out)
{
    const char *slash = strrchr(h->path, '/');
    Buf path = {0};
    buf_bytes(&path, h->path, slash ? (size_t)(slash - h->path) + 1 : 0);
    buf_str(&path, name);
    bool there =
        !path.failed && access(buf_text(&path), R_OK) == 0 && file_load(buf_text(&path), NULL, out);
    buf_deinit(&path);
    return there;
}

typedef bool TakeLine(History *h, const char *line, size_t n, int64_t *session);

static void take_lines(History *h, const char *name, TakeLine *take)
{
    int64_t session = 0;
    Buf text = {0};
    if (load_beside(h, name, &text))
        for (size_t at = 0; at < text.n;) {
            const char *end = memchr(text.at + at, '\n', text.n - at);
            size_t n = end ? (size_t)(end - text.at) - at : text.n - at;
            take(h, text.at + at, n, &session);
            at += n + 1;
        }
    buf_deinit(&text);
}

/* `[session, line, input, output]`; lines that are none of ours are passed over, and one without input claimed a session. */
static bool take_cell(History *h, const char *line, size_t n, int64_t *session)
{
    Arena arena;
    Document d;
    DocumentError error;
    int64_t number_of = 0, at = 0;
    (void)session;
    arena_init(&arena, NULL);
    bool ok = document_read(&d, &arena, (Str){line, n}, &error) &&
              document_is(d.at, DOCUMENT_LIST) && document_count(d.at) == 4;
    const DocumentValue *first = ok ? d.at + 1 : NULL,
                        *second = ok ? document_next(&d, first) : NULL,
                        *input = ok ? document_next(&d, second) : NULL,
                        *output = ok ? document_next(&d, input) : NULL;
    ok = ok && document_int(&d, first, &number_of) && document_int(&d, second, &at) &&
         number_of > 0 && document_is(input, DOCUMENT_STRING);
    if (ok)
        ok = insert(h, number_of, at, document_str(&d, input),
                    document_is(output, DOCUMENT_STRING) ? document_str(&d, output) : (Str){"", 0});
    arena_deinit(&arena);
    return ok;
}

/* An entry a line, in which a line end is written `\n` and a backslash `\\`. */
static bool take_entry(History *h, const char *line, size_t n, int64_t *session)
{
    Buf entry = {0};
    for (size_t i = 0; i < n; i++)
        if (line[i] != '\\' || i + 1 == n)
            buf_char(&entry, line[i]);
        else
            buf_char(&entry, line[++i] == 'n' ? '\n' : line[i]);
    if (entry.n > 0 && !*session)
        *session = claim_session(h);
    bool ok = entry.n > 0 && insert(h, *session, 0, (Str){buf_text(&entry), entry.n}, (Str){"", 0});
    buf_deinit(&entry);
    return ok;
}

/* What is made is made by one of those that come first at the same time, whole. */
static bool make_tables(History *h)
{
    bool ok = run(h, "BEGIN IMMEDIATE");
    bool new = ok &&number(h, "PRAGMA user_version") == 0;
    if (new) {
        ok = run(h, "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                    " began INTEGER DEFAULT (strftime('%s', 'now')));"
                    "CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT,"
                    " session INTEGER, line INTEGER, input TEXT, output TEXT);"
                    "CREATE INDEX by_session ON entries (session, line);"
                    "PRAGMA user_version = 1");
        if (ok && h->path) {
            /* The entries of the terminal have no sessions: they were one. */
            take_lines(h, "kernel-history.jsonl", take_cell);
            run(h, "INSERT INTO sessions (id) SELECT DISTINCT session FROM entries");
            take_lines(h, "history", take_entry);
        }
    }
    return run(h, ok ? "COMMIT" : "ROLLBACK") && ok;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static char *default_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    Buf b = {0};
    if (state && *state == '/')
        buf_printf(&b, "%s/relay/history.sqlite", state);
    else if (home && *home)
        buf_printf(&b, "%s/.local/state/relay/history.sqlite", home);
    return b.n ? buf_take(&b) : NULL;
}

static void close_database(History *h)
{
    if (h->insert)
        h->sqlite3_finalize(h->insert);
    if (h->db)
        h->sqlite3_close_v2(h->db);
    h->insert = NULL;
    h->db = NULL;
}

/* A log beside it lets readers and a writer pass each other, and an entry is not waited for until it is on the disk. */
static bool open_database(History *h, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    bool ok = h->sqlite3_open_v2(path, &h->db, flags, NULL) == SQLITE_OK &&
              h->sqlite3_busy_timeout(h->db, BUSY_MS) == SQLITE_OK;
    if (ok) {
        run(h, "PRAGMA synchronous = OFF");
        run(h, "PRAGMA journal_mode = WAL");
        /* Read where it lies, not copied page by page. */
        run(h, "PRAGMA mmap_size = 268435456");
        ok = make_tables(h);
        run(h, "PRAGMA synchronous = NORMAL");
    }
    if (!ok)
        close_database(h);
    return ok;
}

/* A name alone; others may read no entry. */
static bool make_file(char *path)
{
    if (access(path, F_OK) == 0)
        return true;
    if (!file_make_folders(path, FILE_OURS))
        return false;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno == EEXIST;
}

/* What the file has comes along as far as it can be read, with the numbers that it has there. */
static void take_file(History *h, const char *path)
{
    sqlite3_stmt *attach = prepare(h, "ATTACH ? AS file");
    bool there = attach && h->sqlite3_bind_text(attach, 1, path, -1, SQLITE_STATIC) == SQLITE_OK &&
                 h->sqlite3_step(attach) == SQLITE_DONE;
    h->sqlite3_finalize(attach);
    if (there) {
        run(h, "INSERT INTO sessions SELECT * FROM file.sessions");
        run(h, "INSERT INTO entries SELECT * FROM file.entries");
        run(h, "DETACH file");
    }
}

/* The file cannot be made or read, or takes no more: the history goes on in memory. False where it was there already. */
static bool leave_file(History *h, const char *why)
{
    char *path = h->path;
    if (!path)
        return false;
    buf_printf(&h->trouble, "what is entered from now on is not kept for later: %s: %s", path, why);
    bool was_open = h->db != NULL;
    close_database(h);
    h->path = NULL;
    bool good = open_database(h, ":memory:");
    if (good && was_open)
        take_file(h, path);
    free(path);
    return good;
}

static bool leave_database(History *h)
{
    return h->db && leave_file(h, h->sqlite3_errmsg(h->db));
}

static int64_t take_left(void *data, HistoryEntry e)
{
    History *h = data;
    int64_t session = e.session ? e.session : claim_session(h);
    return session && insert(h, session, e.line, e.input, e.output) ? session : 0;
}

static bool is_open(History *h)
{
    if (h->tried)
        return h->db != NULL;
    h->tried = true;
    if (!h->library && !open_library(h))
        return false;
    bool good = h->path ? make_file(h->path) : open_database(h, ":memory:");
    if (h->path && !good)
        good = leave_file(h, strerror(errno));
    else if (h->path)
        good = open_database(h, h->path) || leave_file(h, "no database can be made or read there");
    if (!good)
        return false;
    if (h->path)
        history_logs_take(h->path, take_left, h);
    int64_t count = number(h, "SELECT count(*) FROM entries");
    if (count > ENTRIES_MOST + ENTRIES_MOST / 10)
        run(h, "DELETE FROM entries WHERE id NOT IN "
               "(SELECT id FROM entries ORDER BY id DESC LIMIT 200000)");
    h->known = number(h, "SELECT max(id) FROM entries");
    return true;
}

History *history_new(const char *path)
{
    History *h = memory_zeroed(1, sizeof *h);
    if (h)
        h->path = !path ? default_path() : *path ? memory_text(path, strlen(path)) : NULL;
    return h;
}

void history_free(History *h)
{
    if (!h)
        return;
    history_write(h);
    history_log_end(&h->log);
    close_database(h);
    if (h->library)
        dlclose(h->library);
    buf_deinit(&h->trouble);
    free(h->path);
    free(h);
}

const char *history_ready(History *h)
{
    if (!h->library)
        open_library(h);
    return h->why;
}

const char *history_trouble(History *h)
{
    if (h->trouble.n == 0)
        return NULL;
    h->trouble.n = 0; /* the text stays where it is */
    return h->trouble.at;
}

static int64_t another(History *h)
{
    int64_t session = claim_session(h);
    return session || !leave_database(h) ? session : claim_session(h);
}

int64_t history_session(History *h)
{
    if (is_open(h) && !h->session)
        h->session = another(h);
    return h->session;
}

int64_t history_another(History *h)
{
    return is_open(h) ? another(h) : 0;
}

static bool fits(Str input, Str output)
{
    return input.len <= INT32_MAX && output.len <= INT32_MAX;
}

void history_add_to(History *h, int64_t session, int64_t line, Str input, Str output)
{
    if (session && fits(input, output) && !insert(h, session, line, input, output) &&
        leave_database(h))
        insert(h, session, line, input, output);
}

void history_add(History *h, int64_t line, Str input, Str output)
{
    history_add_to(h, history_session(h), line, input, output);
}

void history_note(History *h, bool other, int64_t line, Str input, Str output)
{
    if (h->path)
        history_log_add(&h->log, h->path,
                        (HistoryEntry){other ? 0 : h->session, line, input, output});
}

void history_add_soon(History *h, int64_t session, int64_t line, Str input, Str output)
{
    Waiting *w =
        session && fits(input, output) ? memory_alloc(sizeof *w + input.len + output.len) : NULL;
    if (!w) {
        history_add_to(h, session, line, input, output);
        return;
    }
    *w = (Waiting){NULL, session, line, input.len, output.len};
    if (input.len)
        memcpy(w->text, input.ptr, input.len);
    if (output.len)
        memcpy(w->text + input.len, output.ptr, output.len);
    if (h->last)
        h->last->next = w;
    else
        h->first = w;
    h->last = w;
}

bool history_waits(const History *h)
{
    return h->first != NULL;
}

/* All that waits, or nothing. */
static bool write_waiting(History *h)
{
    bool together = h->first->next != NULL, ok = !together || run(h, "BEGIN IMMEDIATE");
    for (const Waiting *w = h->first; w && ok; w = w->next)
        ok = insert(h, w->session, w->line, (Str){w->text, w->input},
                    (Str){w->text + w->input, w->output});
    if (together)
        ok = run(h, ok ? "COMMIT" : "ROLLBACK") && ok;
    return ok;
}

void history_write(History *h)
{
    if (h->first && !write_waiting(h) && leave_database(h))
        write_waiting(h);
    for (Waiting *w = h->first; w; w = h->first) {
        h->first = w->next;
        free(w);
    }
    h->last = NULL;
    history_log_clear(&h->log);
}

/* ---- questions -------------------------------------------------------------------------------------------------- */

static bool read_entry(History *h, sqlite3_stmt *entry, int64_t id, HistoryRow *row)
{
    h->sqlite3_reset(entry);
    h->sqlite3_bind_int64(entry, 1, id);
    if (h->sqlite3_step(entry) != SQLITE_ROW)
        return false;
    *row = (HistoryRow){
        .id = id,
        .session = h->sqlite3_column_int64(entry, 0),
        .line = h->sqlite3_column_int64(entry, 1),
        .input = (const char *)h->sqlite3_column_text(entry, 2),
        .output = (const char *)h->sqlite3_column_text(entry, 3),
    };
    return row->input != NULL;
}

void history_each(History *h, HistoryRange range, bool (*row)(void *data, const HistoryRow *row),
                  void *data)
{
    if (!is_open(h))
        return;
    history_write(h);
    Buf sql = {0};
    buf_str(&sql, "SELECT id, input FROM entries WHERE 1");
    if (range.from)
        buf_printf(&sql, " AND id %c %lld", range.step > 0 ? '>' : '<', (long long)range.from);
    if (range.session)
        buf_printf(&sql, " AND session = %lld", (long long)range.session);
    if (range.known)
        buf_printf(&sql, " AND (id <= %lld OR session = %lld)", (long long)h->known,
                   (long long)h->session);
    /* Those of a session are found by the index and put in order; without the sign all entries would be gone through. */
    buf_printf(&sql, " ORDER BY %sid %s", range.session ? "+" : "",
               range.step > 0 ? "ASC" : "DESC");
    sqlite3_stmt *s = prepare(h, buf_text(&sql));
    sqlite3_stmt *entry =
        prepare(h, "SELECT session, line, input, output FROM entries WHERE id = ?");
    buf_deinit(&sql);
    for (bool more = s && entry; more && h->sqlite3_step(s) == SQLITE_ROW;) {
        /* Lent from the page that it lies in; as text it would be copied. */
        const char *input = h->sqlite3_column_blob(s, 1);
        Str text = {input ? input : "", (size_t)h->sqlite3_column_bytes(s, 1)};
        HistoryRow found;
        if ((!range.wants || range.wants(data, text)) &&
            read_entry(h, entry, h->sqlite3_column_int64(s, 0), &found))
            more = row(data, &found);
    }
    h->sqlite3_finalize(s);
    h->sqlite3_finalize(entry);
}
