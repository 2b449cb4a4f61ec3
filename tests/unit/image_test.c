/* Objects linked in memory: what they define can be called, and no object that is damaged makes the linker read or write elsewhere. */
#include "jit/image.c"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static const char program[] = "#[version = \"0.0.5\"]\n"
                              "def @main(%x: Tensor[(5, 7), float32], %n: int32) {\n"
                              "  if (greater(%n, 0)) { tan(nn.softmax(add(%x, 1f))) } else { "
                              "divide(%x, cast(%n, dtype=\"float32\")) }\n"
                              "}\n";

/* What the JIT makes of a program; false where none is built in. */
static bool make_object(Buf *out)
{
    const char *relay = getenv("RELAY");
    char source[] = "/tmp/image_test_XXXXXX";
    int fd = mkstemp(source);
    Buf command = {0};
    bool ok = relay && fd >= 0 && write(fd, program, strlen(program)) > 0;
    buf_printf(&command, "%s compile --emit obj - < %s", relay ? relay : "", source);
    FILE *f = ok ? popen(buf_text(&command), "r") : NULL;
    char part[4096];
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_bytes(out, part, n);
    ok = f && pclose(f) == 0 && out->n > 0;
    close(fd);
    unlink(source);
    buf_deinit(&command);
    return ok;
}

static const void *find_anything(void *data, const char *name)
{
    (void)name;
    return data;
}

static const void *find_nothing(void *data, const char *name)
{
    (void)data, (void)name;
    return NULL;
}

static Image *link_one(const char *bytes, size_t n, Buf *why)
{
    static char outside[64];
    Str object = {bytes, n};
    return image_link(&(ImageParts){1, &object, find_anything, outside}, why);
}

static uint32_t dice(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void damage(const char *bytes, size_t n)
{
    uint32_t state = 5;
    char *copy = memory_aligned(64, (n + 63) & ~(size_t)63);
    for (int turn = 0; turn < 4000; turn++) {
        Buf why = {0};
        memcpy(copy, bytes, n);
        size_t len = turn % 8 == 0 ? dice(&state) % n : n;
        for (uint32_t k = dice(&state) % 4 + 1; k > 0; k--) {
            /* Heads and tables are where it matters. */
            size_t at = turn % 2 ? dice(&state) % n : n - 1 - dice(&state) % (n < 2048 ? n : 2048);
            copy[at] = (char)dice(&state);
        }
        Image *im = link_one(copy, len, &why);
        CHECK(im || why.n > 0);
        image_free(im);
        buf_deinit(&why);
    }
    memory_free(copy);
}

int main(void)
{
    Buf object = {0}, why = {0};
    if (!make_object(&object))
        return 77;
    size_t n = object.n;
    char *bytes = memory_aligned(64, (n + 63) & ~(size_t)63);
    memcpy(bytes, object.at, n);
    Image *im = link_one(bytes, n, &why);
    CHECK_TEXT(buf_text(&why), "");
    CHECK(im && !image_find(im, "nothing of this name"));
    image_free(im);
    Str one = {bytes, n};
    im = image_link(&(ImageParts){1, &one, find_nothing, NULL}, &why);
    CHECK(!im && strstr(buf_text(&why), "there is no `"));
    why.n = 0;
    Str twice[2] = {one, one};
    static char outside[64];
    im = image_link(&(ImageParts){2, twice, find_anything, outside}, &why);
    CHECK(!im);
    CHECK_TEXT(buf_text(&why), "two objects define one symbol");
    damage(bytes, n);
    memory_free(bytes);
    buf_deinit(&object);
    buf_deinit(&why);
    return check_done();
}
