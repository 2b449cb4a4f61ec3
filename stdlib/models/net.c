#include "stdlib/models/net.h"

#include <stdio.h>
#include <string.h>

const NetStyle style_workload = {
    ".w",
    ".b",
    ".gamma",
    ".beta",
    ".mean",
    ".var",
    .active = {FILL_FAN_IN, 6, 0}, /* K. He et al. 2015 */
    .linear = {FILL_FAN_IN, 3, 0}, /* Y. LeCun et al. 1998 */
    .bias_fill = {FILL_UNIFORM, 0.1, 0},
    .gamma_fill = {FILL_UNIFORM, 0.2, 1},
    .beta_fill = {FILL_UNIFORM, 0.1, 0},
    .mean_fill = {FILL_UNIFORM, 0.1, 0},
    .var_fill = {FILL_UNIFORM, 0.2, 1},
};

const NetStyle style_testing = {
    "_weight",
    "_bias",
    "_gamma",
    "_beta",
    "_moving_mean",
    "_moving_var",
    .active = {FILL_XAVIER, 0, 0},
    .linear = {FILL_XAVIER, 0, 0},
    .gamma_fill = {FILL_VALUE, 1, 0},
    .var_fill = {FILL_VALUE, 1, 0},
    .bias_fill = {FILL_VALUE, 0, 0},
    .beta_fill = {FILL_VALUE, 0, 0},
    .mean_fill = {FILL_VALUE, 0, 0},
};

/* ---- parameters -------------------------------------------------------------------------------------------------------------- */

static Out add_param(Net *net, const char *name, const char *type, Fill fill, bool weight)
{
    Model *m = net->model;
    size_t n = strlen(name);
    char *var = arena_copy_text(m->arena, name, n);
    for (char *p = var; *p; p++)
        *p = *p == '.' ? '_' : *p;
    vec_push(&m->params, m->arena,
             ((ModelParam){arena_copy_text(m->arena, name, n), var, weight, fill}));
    buf_printf(&net->params, "%s%%%s%s%s", m->params.n > 1 ? ", " : "", var, type ? ": " : "",
               type ? type : "");
    Out out;
    snprintf(out.text, sizeof out.text, "%%%s", var);
    return out;
}

Out net_input(Net *net, const char *name, const char *type, Fill fill)
{
    return add_param(net, name, type, fill, false);
}

Out net_weight(Net *net, const char *layer, const char *suffix, const char *type, Fill fill)
{
    char name[sizeof((Out *)0)->text];
    snprintf(name, sizeof name, "%s%s", layer, suffix);
    return add_param(net, name, type, fill, true);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------- */

Out net_line(Net *net, const char *format, ...)
{
    Out out;
    va_list args;
    snprintf(out.text, sizeof out.text, "%%%u", (unsigned)net->lines++);
    buf_printf(&net->body, "  %s = ", out.text);
    va_start(args, format);
    buf_vprintf(&net->body, format, args);
    va_end(args);
    buf_str(&net->body, ";\n");
    return out;
}

Out net_field(Out tuple, int i)
{
    Out out;
    snprintf(out.text, sizeof out.text, "%.40s.%d", tuple.text, i);
    return out;
}

void net_return(Net *net, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_str(&net->body, "  ");
    buf_vprintf(&net->body, format, args);
    buf_str(&net->body, "\n");
    va_end(args);
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

Out net_conv(Net *net, const char *layer, Out x, Conv c)
{
    const NetStyle *style = net->style;
    int stride = c.stride ? c.stride : 1, out = c.depthwise ? c.depthwise : c.out;
    char type[96] = "", groups[32] = "";
    if (c.depthwise) {
        snprintf(type, sizeof type, "Tensor[(%d, 1, %d, %d), float32]", out, c.k[0], c.k[1]);
        snprintf(groups, sizeof groups, "groups=%d, ", out);
    }
    Out w = net_weight(net, layer, style->weight, c.depthwise ? type : NULL,
                       c.linear ? style->linear : style->active);
    return net_line(net,
                    "nn.conv2d(%s, %s, strides=[%d, %d], padding=[%d, %d, %d, %d], %schannels=%d, "
                    "kernel_size=[%d, %d])",
                    x.text, w.text, stride, stride, c.pad[0], c.pad[1], c.pad[0], c.pad[1], groups,
                    out, c.k[0], c.k[1]);
}

Out net_bias(Net *net, const char *layer, Out x, int axis)
{
    Out b = net_weight(net, layer, net->style->bias, NULL, net->style->bias_fill);
    return net_line(net, "nn.bias_add(%s, %s, axis=%d)", x.text, b.text, axis);
}

Out net_batch_norm(Net *net, const char *layer, Out x, BatchNorm bn)
{
    const NetStyle *style = net->style;
    Out gamma = net_weight(net, layer, style->gamma, NULL, style->gamma_fill);
    Out beta = net_weight(net, layer, style->beta, NULL, style->beta_fill);
    Out mean = net_weight(net, layer, style->mean, NULL, style->mean_fill);
    Out var = net_weight(net, layer, style->var, NULL, style->var_fill);
    Out y = net_line(net, "nn.batch_norm(%s, %s, %s, %s, %s%s%s%s)", x.text, gamma.text, beta.text,
                     mean.text, var.text, bn.epsilon ? ", epsilon=" : "",
                     bn.epsilon ? bn.epsilon : "", bn.no_scale ? ", scale=False" : "");
    return net_line(net, "%s.0", y.text);
}

Out net_linear(Net *net, const char *layer, Out x, int units, bool linear, int axis)
{
    Out w = net_weight(net, layer, net->style->weight, NULL,
                       linear ? net->style->linear : net->style->active);
    Out y = net_line(net, "nn.dense(%s, %s, units=%d)", x.text, w.text, units);
    return net_bias(net, layer, y, axis);
}

Out net_relu(Net *net, Out x)
{
    return net_line(net, "nn.relu(%s)", x.text);
}

Out net_conv_relu(Net *net, const char *layer, Out x, Conv c)
{
    return net_relu(net, net_bias(net, layer, net_conv(net, layer, x, c), 1));
}

Out net_max_pool(Net *net, Out x, int k, int stride, int pad)
{
    return net_line(
        net, "nn.max_pool2d(%s, pool_size=[%d, %d], strides=[%d, %d], padding=[%d, %d, %d, %d])",
        x.text, k, k, stride, stride, pad, pad, pad, pad);
}

Out net_pool_flat(Net *net, Out x)
{
    x = net_line(net, "nn.global_avg_pool2d(%s)", x.text);
    return net_line(net, "nn.batch_flatten(%s)", x.text);
}

Out net_softmax(Net *net, Out x)
{
    return net_line(net, "nn.softmax(%s)", x.text);
}

Out net_dropout(Net *net, Out x)
{
    return net_line(net, "%s.0", net_line(net, "nn.dropout(%s)", x.text).text);
}

Out net_concat(Net *net, int n, const Out *x)
{
    Buf fields = {0};
    for (int i = 0; i < n; i++)
        buf_printf(&fields, "%s%s", i ? ", " : "", x[i].text);
    Out tuple = net_line(net, "(%s)", buf_text(&fields));
    buf_deinit(&fields);
    return net_line(net, "concatenate(%s, axis=1)", tuple.text);
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

static const Slot *slot_at(const char *p, size_t n, const Slot *slots)
{
    const Slot *best = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(slots[i].name);
        if (strncmp(p, slots[i].name, len) == 0 && (!best || len > strlen(best->name)))
            best = &slots[i];
    }
    return best;
}

void net_template(Buf *out, const char *file, size_t n, const Slot *slots)
{
    const ModelFile *f = model_files;
    while (f->name && strcmp(f->name, file) != 0)
        f++;
    for (const char *p = f->name ? f->text : ""; *p; p++) {
        const Slot *slot = *p == '$' ? slot_at(p + 1, n, slots) : NULL;
        if (!slot) {
            buf_char(out, *p);
            continue;
        }
        if (slot->text)
            buf_str(out, slot->text);
        else
            buf_int(out, slot->value);
        p += strlen(slot->name);
    }
}
