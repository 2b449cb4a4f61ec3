#include "kernel/working.h"

#include "base/limit.h"
#include "kernel/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- the line ---- */

static json_t *line_content(const Kernel *k, const char *text, const Buf *html)
{
    char id[64];
    snprintf(id, sizeof id, "relay-progress-%u", k->working.lines);
    json_t *content =
        json_pack("{s:{s:o}, s:{}, s:{s:s}}", "data", "text/plain", json_text(text, strlen(text)),
                  "metadata", "transient", "display_id", id);
    if (html)
        json_object_set_new(json_object_get(content, "data"), "text/html",
                            json_text(buf_text(html), html->n));
    return content;
}

static void print_html(const RelayProgress *p, Buf *html)
{
    buf_str(html, "<span><progress max=\"1\"");
    if (p->share >= 0)
        buf_printf(html, " value=\"%.3f\"", p->share);
    buf_str(html, "></progress> ");
    buf_html(html, p->line, strlen(p->line));
    buf_str(html, "</span>");
}

/* The lock is held. */
static void remove_line(Channel *shell)
{
    Working *w = &shell->kernel->working;
    if (!w->shown)
        return;
    if (w->beside)
        channel_publish(shell, "update_display_data", line_content(shell->kernel, "", NULL));
    else
        channel_publish(shell, "clear_output", json_pack("{s:b}", "wait", 0));
    w->emptied = w->beside;
    w->shown = false;
}

/* ---- the shell thread ---- */

void working_begin(Channel *shell, bool silent)
{
    Working *w = &shell->kernel->working;
    pthread_mutex_lock(&w->lock);
    w->silent = silent;
    w->beside = w->shown = w->emptied = false;
    w->said = clock_seconds();
    pthread_mutex_unlock(&w->lock);
}

void working_yield(Channel *shell, bool busy)
{
    Working *w = &shell->kernel->working;
    pthread_mutex_lock(&w->lock);
    remove_line(shell);
    w->beside = true;
    w->silent = busy;
    w->said = clock_seconds();
    pthread_mutex_unlock(&w->lock);
}

void working_end(Channel *shell)
{
    Working *w = &shell->kernel->working;
    pthread_mutex_lock(&w->lock);
    remove_line(shell);
    w->silent = true;
    pthread_mutex_unlock(&w->lock);
}

/* ---- the aside thread ---- */

static bool stands_still(Debugger *d)
{
    pthread_mutex_lock(&d->lock);
    bool stopped = d->state == DEBUG_STOPPED;
    pthread_mutex_unlock(&d->lock);
    return stopped;
}

void working_tell(Channel *aside)
{
    Kernel *k = aside->kernel;
    Working *w = &k->working;
    RelayProgress p;
    if (stands_still(&k->debugger) || !relay_session_progress(k->session, &p))
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->silent && clock_seconds() - w->said >= RELAY_PROGRESS_SOON) {
        Buf html = {0};
        print_html(&p, &html);
        bool there = w->shown || w->emptied;
        w->lines += !there;
        channel_publish_for(aside, k->aside.shell->request.header_text,
                            there ? "update_display_data" : "display_data",
                            line_content(k, p.line, &html));
        w->shown = true;
        w->emptied = false;
        buf_deinit(&html);
    }
    pthread_mutex_unlock(&w->lock);
}
