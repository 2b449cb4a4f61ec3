/* Refusals are counted, end the work that they happened in, and leave a guard when nothing is left. */
#include "base/buf.h"
#include "base/diag.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/source.h"
#include "check.h"
#include "runtime/tensor.h"

#include <dlfcn.h>
#include <errno.h>

/* More than there is. */
#define TOO_MUCH (SIZE_MAX / 4)

static void want(void *data)
{
    int *reached = data;
    *reached = 1;
    memory_must(TOO_MUCH);
    *reached = 2;
}

static void want_within(void *data)
{
    CHECK(!memory_guard(want, data));
    *(int *)data += 10;
}

static void test_guards(void)
{
    int reached = 0;
    CHECK(!memory_guard(want, &reached) && reached == 1);
    CHECK(memory_guard(want_within, &reached) && reached == 11);
}

static void test_count(void)
{
    Limits limits;
    Diags diags;
    diags_init(&diags, NULL);
    limits_init(&limits, &diags);
    CHECK(!limit_hit(&limits) && !limit_refused(&limits));
    CHECK(!memory_try(TOO_MUCH) && !limit_hit(&limits));
    CHECK(!memory_alloc(TOO_MUCH) && limit_hit(&limits) && limits.hit == LIMIT_MEMORY);
    CHECK(diags.errors == 1 && strstr(diags.first->message, "system"));
    limits_start(&limits);
    CHECK(!limit_hit(&limits));
    /* A text that stopped growing need not be looked at by whoever made it. */
    Buf b = {0};
    buf_str(&b, "some");
    CHECK(!buf_reserve(&b, TOO_MUCH) && b.failed && limit_refused(&limits));
    buf_deinit(&b);
    limits_deinit(&limits);
    diags_deinit(&diags);
}

/* The calls until one is refused; 0: none is. */
static int refuse;

void *__real_memory_alloc(size_t n);
void *__wrap_memory_alloc(size_t n);

void *__wrap_memory_alloc(size_t n)
{
    return refuse > 0 && --refuse == 0 ? NULL : __real_memory_alloc(n);
}

static void let_go(void *owner)
{
    ++*(int *)owner;
}

/* What was there before the refusal is given back, or the sanitizers tell. */
static void test_losses(void)
{
    static const int64_t shape[1] = {2};
    static const float data[32];
    SourceMap m;
    int gone = 0;
    sources_init(&m);
    for (int k = 1; k <= 3; k++) {
        refuse = k;
        CHECK((sources_add(&m, "name", "text", 4) == 0) == (k < 3));
        refuse = k;
        Tensor *t = tensor_over(dtype_of(DT_FLOAT32), 1, shape, data, let_go, &gone);
        CHECK((t == NULL) == (k < 3));
        refuse = 0;
        tensor_release(t);
    }
    CHECK(gone == 1);
    sources_deinit(&m);
}

/* What the loader meets; 0: it does as it always does. */
static int trouble;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
    void *found = __real_dlopen(name, flags);
    errno = trouble ? trouble : errno;
    return found;
}

/* A library that is not there is no refusal; one for which the loader has no memory is, whatever its text says. */
static void test_loader(void)
{
    const char *name = "no-such-library.so";
    for (int i = 0; i < 2; i++) {
        Buf why = {0};
        uint64_t before = memory_refusals();
        trouble = i ? ENOMEM : ENOENT;
        CHECK(!library_open(&name, 1, RTLD_LAZY | RTLD_LOCAL, &why) &&
              strstr(buf_text(&why), name));
        CHECK(memory_refusals() == before + (uint64_t)i);
        trouble = 0;
        buf_deinit(&why);
    }
}

int main(void)
{
    test_guards();
    test_count();
    test_losses();
    test_loader();
    return check_done();
}
