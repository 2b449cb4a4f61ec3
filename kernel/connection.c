#define _GNU_SOURCE 1
#include "kernel/connection.h"

#include "base/memory.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const port_fields[CHANNEL_KINDS] = {
    [CHANNEL_SHELL] = "shell_port",  [CHANNEL_CONTROL] = "control_port",
    [CHANNEL_STDIN] = "stdin_port",  [CHANNEL_IOPUB] = "iopub_port",
    [CHANNEL_HEARTBEAT] = "hb_port",
};

const char *connection_port_name(ChannelKind kind)
{
    return port_fields[kind];
}

static const char *text_field(const Connection *c, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(c->fields, name));
    return text ? text : otherwise;
}

/* A port as a number or as text; -1 when it is neither. */
static int port_field(const Connection *c, const char *name)
{
    json_t *value = json_object_get(c->fields, name);
    if (!value)
        return 0;
    long long port = json_is_integer(value) ? json_integer_value(value) : -1;
    if (json_is_string(value)) {
        char *end;
        port = strtoll(json_string_value(value), &end, 10);
        if (*end)
            port = -1;
    }
    return port >= 0 && port <= 65535 ? (int)port : -1;
}

static bool read_curve(Connection *c, Buf *why)
{
    c->curve.public_key = text_field(c, "curve_publickey", NULL);
    c->curve.secret_key = text_field(c, "curve_secretkey", NULL);
    if (!c->curve.public_key && !c->curve.secret_key)
        return true;
    c->encrypted = true;
    if (!wire_has_curve())
        buf_str(why, "the connection is to be encrypted, but this ZeroMQ cannot");
    else if (!c->curve.public_key || !c->curve.secret_key || strlen(c->curve.public_key) != 40 ||
             strlen(c->curve.secret_key) != 40)
        buf_str(why, "the keys of the encrypted connection are not 40 characters each");
    return why->n == 0;
}

static bool is_loopback(const char *ip)
{
    return strncmp(ip, "127.", 4) == 0 || strcmp(ip, "localhost") == 0 || strcmp(ip, "::1") == 0 ||
           strcmp(ip, "[::1]") == 0;
}

/* Without a key whoever reaches the ports runs what he likes. */
static bool is_guarded(const Connection *c, Buf *why)
{
    bool here = strcmp(c->transport, "ipc") == 0 || is_loopback(c->ip);
    if (c->key.len == 0 && !c->encrypted && !here)
        buf_printf(why,
                   "the connection has no key, and anybody who reaches %s could run programs; "
                   "give it a `key`, or bind it to 127.0.0.1",
                   c->ip);
    return why->n == 0;
}

/* Who can read the key can run programs as this user. Jupyter's own switch lets such files pass. */
static bool is_private(const char *path, Buf *why)
{
    struct stat info;
    const char *lax = getenv("JUPYTER_ALLOW_INSECURE_WRITES");
    bool allowed = lax && (strcasecmp(lax, "true") == 0 || strcmp(lax, "1") == 0);
    if (allowed || stat(path, &info) != 0 || (info.st_mode & (S_IRGRP | S_IROTH)) == 0)
        return true;
    buf_printf(why,
               "others can read the connection file %s, and with it the key; "
               "`chmod 600` it",
               path);
    return false;
}

static bool read_fields(Connection *c, Buf *why)
{
    c->registration_port = port_field(c, "registration_port");
    c->transport = text_field(c, "transport", "tcp");
    c->ip = text_field(c, c->registration_port > 0 ? "registration_ip" : "ip", "127.0.0.1");
    c->key = str_of(text_field(c, "key", ""));
    const char *scheme = text_field(c, "signature_scheme", "hmac-sha256");
    if (strcmp(scheme, "hmac-sha256") != 0)
        buf_printf(why, "unknown signature scheme `%s`; this kernel signs with hmac-sha256",
                   scheme);
    else if (strcmp(c->transport, "tcp") != 0 && strcmp(c->transport, "ipc") != 0)
        buf_printf(why, "unknown transport `%s`; this kernel knows tcp and ipc", c->transport);
    for (int i = 0; i < CHANNEL_KINDS && why->n == 0; i++) {
        c->ports[i] = port_field(c, port_fields[i]);
        if (c->ports[i] < 0)
            buf_printf(why, "`%s` is not a port", port_fields[i]);
    }
    if (why->n == 0 && c->registration_port < 0)
        buf_str(why, "`registration_port` is not a port");
    return why->n == 0 && read_curve(c, why) && is_guarded(c, why);
}

/* ---- a connection of our own ---- */

/* `kernel-PID.json` in Jupyter's runtime folder; NULL without a home. */
static char *runtime_path(void)
{
    const struct {
        const char *variable, *below;
    } places[] = {{"JUPYTER_RUNTIME_DIR", ""},
                  {"JUPYTER_DATA_DIR", "/runtime"},
                  {"XDG_DATA_HOME", "/jupyter/runtime"},
                  {"HOME", "/.local/share/jupyter/runtime"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *root = getenv(places[i].variable);
        if (!root || !*root)
            continue;
        Buf path = {0};
        buf_printf(&path, "%s%s/kernel-%ld.json", root, places[i].below, (long)getpid());
        char *text = buf_take(&path);
        if (text)
            file_make_folders(text, FILE_OURS);
        return text;
    }
    return NULL;
}

static bool make_fields(Connection *c, Buf *why)
{
    unsigned char random[16];
    char key[33] = "";
    bool ok = getrandom(random, sizeof random, 0) == (ssize_t)sizeof random;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(key + 2 * i, 3, "%02x", random[i]);
    c->path = runtime_path();
    c->fields = json_pack("{s:s, s:s, s:s, s:s, s:s}", "transport", "tcp", "ip", "127.0.0.1", "key",
                          key, "signature_scheme", "hmac-sha256", "kernel_name", "relay");
    c->ours = true;
    if (ok && c->path && c->fields)
        return true;
    buf_str(why, "cannot make a connection file: there is no home folder");
    return false;
}

bool connection_load(Connection *c, const char *path, Buf *why)
{
    *c = (Connection){0};
    if (!path)
        return make_fields(c, why) && read_fields(c, why);
    json_error_t error;
    c->fields = json_load_file(path, 0, &error);
    if (!json_is_object(c->fields)) {
        buf_printf(why, "cannot read the connection file %s: %s", path,
                   c->fields ? "it is not a JSON object" : error.text);
        return false;
    }
    if (!is_private(path, why) || !read_fields(c, why))
        return false;
    c->ours = c->registration_port > 0;
    c->path = c->ours ? runtime_path() : memory_text(path, strlen(path));
    return true;
}

void connection_deinit(Connection *c)
{
    if (c->ours && c->path && !c->changed)
        unlink(c->path);
    json_decref(c->fields);
    free(c->path);
    *c = (Connection){0};
}

/* ---- endpoints ---- */

/* The first number whose file does not exist yet: the port of a channel over ipc is part of a
 * path. */
static int free_path(const char *prefix)
{
    for (int port = 1; port < 65536; port++) {
        Buf path = {0};
        buf_printf(&path, "%s-%d", prefix, port);
        bool taken = access(buf_text(&path), F_OK) == 0;
        buf_deinit(&path);
        if (!taken)
            return port;
    }
    return 0;
}

void connection_endpoint(const Connection *c, ChannelKind kind, Buf *out)
{
    int port = c->ports[kind];
    if (strcmp(c->transport, "ipc") == 0) {
        buf_printf(out, "ipc://%s-%d", c->ip, port > 0 ? port : free_path(c->ip));
        return;
    }
    bool bracket = strchr(c->ip, ':') && c->ip[0] != '[';
    buf_printf(out, bracket ? "tcp://[%s]:" : "tcp://%s:", c->ip);
    if (port > 0)
        buf_int(out, port);
    else
        buf_char(out, '*');
}

void connection_bound(Connection *c, ChannelKind kind, const char *endpoint)
{
    const char *separator = strrchr(endpoint, strcmp(c->transport, "ipc") == 0 ? '-' : ':');
    int port = separator ? atoi(separator + 1) : 0;
    if (port == c->ports[kind])
        return;
    c->ports[kind] = port;
    c->changed = true;
}

bool connection_save(Connection *c, Buf *why)
{
    if (!c->changed)
        return true;
    for (int i = 0; i < CHANNEL_KINDS; i++)
        json_object_set_new(c->fields, port_fields[i], json_integer(c->ports[i]));
    if (c->registration_port > 0)
        json_object_set(c->fields, "ip", json_object_get(c->fields, "registration_ip"));
    char *text = json_dumps(c->fields, JSON_INDENT(2));
    bool ok = text && c->path && file_store(c->path, text, strlen(text), FILE_OURS);
    free(text);
    if (!ok)
        buf_printf(why, "cannot write the connection file %s: %s", c->path ? c->path : "",
                   strerror(errno));
    c->changed = !ok;
    return ok;
}
