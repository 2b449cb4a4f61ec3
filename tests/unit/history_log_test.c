/* What a killed process left of its history is taken over by the next, as far as it is whole. */
#include "base/history_log.h"

#include "base/buf.h"
#include "base/file.h"
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/relay-log-XXXXXX";
static char database[64];

typedef struct Taken {
    Buf text;
    int64_t refuses; /* this line */
} Taken;

static int64_t take(void *data, HistoryEntry e)
{
    Taken *t = data;
    if (e.line == t->refuses)
        return 0;
    buf_printf(&t->text, "%d.%d %.*s=%.*s;", (int)e.session, (int)e.line, (int)e.input.len,
               e.input.ptr, (int)e.output.len, e.output.ptr);
    return e.session ? e.session : 70;
}

static void check_taken(const char *want, int64_t refuses)
{
    Taken t = {.refuses = refuses};
    history_logs_take(database, take, &t);
    CHECK_TEXT(buf_text(&t.text), want);
    buf_deinit(&t.text);
}

static void add(HistoryLog *log, int64_t session, int64_t line, const char *in, const char *out)
{
    history_log_add(log, database, (HistoryEntry){session, line, str_of(in), str_of(out)});
}

static void die(bool clear)
{
    pid_t child = fork();
    if (child == 0) {
        HistoryLog log = {0};
        add(&log, 0, 1, "a", "1");
        if (clear)
            history_log_clear(&log);
        add(&log, 0, 2, "b\n", "");
        add(&log, 5, 3, "", "3");
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    snprintf(database, sizeof database, "%s/h.sqlite", folder);
    HistoryLog log = {0};
    add(&log, 1, 1, "mine", "");
    check_taken("", 0); /* its process lives */
    history_log_end(&log);
    check_taken("", 0);
    die(true);
    check_taken("0.2 b\n=;5.3 =3;", 0);
    check_taken("", 0);
    die(false);
    check_taken("0.1 a=1;70.2 b\n=;", 3); /* not all were taken: they stay */
    check_taken("0.1 a=1;70.2 b\n=;5.3 =3;", 0);
    /* A file that ends anywhere, or says anything. */
    char name[96], whole[24 + 3] = {9, [8] = 7, [16] = 1, [20] = 2, [24] = 'x', 'y', 'z'};
    snprintf(name, sizeof name, "%s-waiting-1", database);
    for (size_t n = 0; n < sizeof whole; n++) {
        CHECK(file_store(name, whole, n, FILE_OURS));
        check_taken("", 0);
        CHECK(access(name, F_OK) != 0);
    }
    CHECK(file_store(name, whole, sizeof whole, FILE_OURS));
    check_taken("9.7 x=yz;", 0);
    memset(whole + 16, 0xff, 8);
    CHECK(file_store(name, whole, sizeof whole, FILE_OURS));
    check_taken("", 0);
    CHECK(rmdir(folder) == 0);
    return check_done();
}
