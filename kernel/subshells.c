#include "kernel/subshells.h"

#include "kernel/handlers.h"
#include "kernel/internal.h"

#include <stdio.h>

/* Front ends make one for each of their extensions that talks to the kernel. */
enum { SUBSHELLS_MOST = 1000 };

bool subshells_init(Subshells *s)
{
    pthread_mutex_init(&s->lock, NULL);
    s->counts = json_object();
    s->sessions = json_object();
    return s->counts && s->sessions;
}

void subshells_deinit(Subshells *s)
{
    json_decref(s->counts);
    json_decref(s->sessions);
    pthread_mutex_destroy(&s->lock);
}

json_t *subshell_create(Channel *c)
{
    Subshells *s = &c->kernel->subshells;
    char id[64];
    pthread_mutex_lock(&s->lock);
    snprintf(id, sizeof id, "%s-%u", c->kernel->sender.session, ++s->made);
    bool fits = json_object_size(s->counts) < SUBSHELLS_MOST &&
                json_object_set_new(s->counts, id, json_integer(0)) == 0;
    pthread_mutex_unlock(&s->lock);
    return fits ? json_pack("{s:s, s:s}", "status", "ok", "subshell_id", id)
                : error_content("TooManySubshells", "there are too many subshells already");
}

json_t *subshell_delete(Channel *c)
{
    Subshells *s = &c->kernel->subshells;
    const char *id = json_string_value(json_object_get(c->request.content, "subshell_id"));
    pthread_mutex_lock(&s->lock);
    bool was = json_object_del(s->counts, id) == 0;
    json_object_del(s->sessions, id);
    pthread_mutex_unlock(&s->lock);
    return was ? json_pack("{s:s}", "status", "ok")
               : error_content("NoSuchSubshell", "there is no subshell with this id");
}

json_t *subshell_list(Channel *c)
{
    Subshells *s = &c->kernel->subshells;
    json_t *ids = json_array(), *count;
    const char *id;
    pthread_mutex_lock(&s->lock);
    json_object_foreach(s->counts, id, count)
    {
        json_array_append_new(ids, json_string(id));
    }
    pthread_mutex_unlock(&s->lock);
    return json_pack("{s:s, s:o}", "status", "ok", "subshell_id", ids);
}

const char *subshell_of(const Channel *c)
{
    return json_string_value(json_object_get(c->request.header, "subshell_id"));
}

bool subshell_exists(Subshells *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    bool is = json_object_get(s->counts, id) != NULL;
    pthread_mutex_unlock(&s->lock);
    return is;
}

int64_t subshell_count(Subshells *s, const char *id, int more)
{
    pthread_mutex_lock(&s->lock);
    json_t *at = json_object_get(s->counts, id);
    int64_t count = json_integer_value(at) + more;
    if (at)
        json_integer_set(at, count);
    pthread_mutex_unlock(&s->lock);
    return count;
}

int64_t subshell_session(Subshells *s, const char *id, History *history)
{
    pthread_mutex_lock(&s->lock);
    int64_t session = json_integer_value(json_object_get(s->sessions, id));
    if (!session && json_object_get(s->counts, id)) {
        session = history_another(history);
        json_object_set_new(s->sessions, id, json_integer(session));
    }
    pthread_mutex_unlock(&s->lock);
    return session;
}
