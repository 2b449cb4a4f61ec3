/* ONNX files: whatever is imported is a program that has types; whatever is not has been said. */
#include "exchange/onnx_import.h"
#include "interp/interp.h"
#include "parser/parser.h"
#include "stdlib/prelude.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Module *import_prelude(void *data, Str path, Span span)
{
    (void)span;
    for (const PreludeFile *f = prelude_files; f->name; f++) {
        if (!str_eq(path, str_of(f->name)))
            continue;
        uint32_t source = sources_add(&((Ctx *)data)->sources, f->name, f->text, f->len);
        Module *m = parse_text(data, source, &(ParseEnv){0});
        return m && typecheck_module(data, m, NULL) ? m : NULL;
    }
    return NULL;
}

/* What the importer writes is read by everybody else. */
static void read_again(Ctx *cx, const Imported *im)
{
    ParseEnv env = {.import = import_prelude, .data = cx};
    uint32_t source = sources_add(&cx->sources, "imported", im->text.at, im->text.n);
    Module *m = source ? parse_text(cx, source, &env) : NULL;
    bool ok = m && typecheck_module(cx, m, NULL);
    if (!ok && !limit_hit(&cx->limits)) {
        fprintf(stderr, "%s\n", im->text.at);
        abort();
    }
    module_release(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    Ctx cx;
    snprintf(path, sizeof path, "/dev/shm/relay_fuzz_%ld.onnx", (long)getpid());
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    if (!ctx_init(&cx, &stdlib_ops))
        return 0;
    cx.limits.memory_most = (size_t)256 << 20;
    Interp *in = interp_new(&cx);
    Imported out;
    ImportWish wish = {.path = path};
    bool ok = in && onnx_import(&cx, in, &wish, &out);
    if (in && !ok && cx.diags->errors == 0 && cx.limits.hit == LIMIT_NONE)
        abort();
    if (ok)
        read_again(&cx, &out);
    if (in) {
        for (size_t i = 0; i < out.arrays.n; i++)
            tensor_release(out.arrays.at[i].value);
        buf_deinit(&out.text);
        arena_deinit(&out.arena);
        interp_free(in);
    }
    ctx_deinit(&cx);
    return 0;
}
