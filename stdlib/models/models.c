#include "stdlib/models/models.h"

#include "stdlib/models/net.h"

#include <stdio.h>
#include <string.h>

const ModelRow model_rows[] = {
#define MODEL(name, doc, fn, workload, ...) {name, doc, fn, workload, {__VA_ARGS__}},
#include "stdlib/models/models.def"
#undef MODEL
};

const size_t n_model_rows = sizeof model_rows / sizeof *model_rows;

const ModelRow *model_find(const char *name)
{
    static const char testing[] = "testing.";
    for (int prefix = 0; prefix < 2; prefix++)
        for (size_t i = 0; i < n_model_rows; i++) {
            const char *row = model_rows[i].name;
            if (prefix && strncmp(row, testing, sizeof testing - 1) == 0)
                row += sizeof testing - 1;
            if (strcmp(row, name) == 0)
                return &model_rows[i];
        }
    return NULL;
}

void model_build(const ModelRow *row, Model *out)
{
    Net net = {.model = out, .style = row->workload ? &style_workload : &style_testing};
    row->build(&net, row->args);
    buf_str(&out->text, "#[version = \"0.0.5\"]\n\n");
    buf_str(&out->text, buf_text(&net.functions));
    buf_str(&out->text, net.functions.n ? "\n" : "");
    buf_printf(&out->text, "def @main(%s) {\n", buf_text(&net.params));
    buf_str(&out->text, buf_text(&net.body));
    buf_str(&out->text, "}\n");
    buf_deinit(&net.functions);
    buf_deinit(&net.params);
    buf_deinit(&net.body);
}
