/* Transformer and recurrent models as the benchmark's workloads build them. */
#include "base/random.h"
#include "base/memory.h"
#include "stdlib/models/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Fill numbers = {FILL_UNIFORM, 1, 0}, small = {FILL_UNIFORM, 0.1, 0};

/* ---- transformer ------------------------------------------------------------------------------------------------------------- */

typedef struct Encoder {
    Net *net;
    int block, tokens, width, heads, hidden;
} Encoder;

static Out sublayer(const Encoder *e, const char *name, Out x, int units)
{
    char layer[16];
    snprintf(layer, sizeof layer, "l%d.%s", e->block, name);
    return net_linear(e->net, layer, x, units, true, -1);
}

/* One of query, key and value, split into heads. */
static Out heads(const Encoder *e, const char *name, Out x, const char *axes)
{
    Out y = sublayer(e, name, x, e->width);
    y = net_line(e->net, "reshape(%s, newshape=[%d, %d, %d])", y.text, e->tokens, e->heads,
                 e->width / e->heads);
    return net_line(e->net, "transpose(%s, axes=%s)", y.text, axes);
}

static Out layer_norm(const Encoder *e, const char *name, Out x)
{
    const NetStyle *style = e->net->style;
    char layer[16];
    snprintf(layer, sizeof layer, "l%d.%s", e->block, name);
    Out gamma = net_weight(e->net, layer, style->gamma, NULL, style->gamma_fill);
    Out beta = net_weight(e->net, layer, style->beta, NULL, style->beta_fill);
    return net_line(e->net, "nn.layer_norm(%s, %s, %s)", x.text, gamma.text, beta.text);
}

/* x (1 + erf(x / sqrt 2)) / 2: D. Hendrycks, K. Gimpel 2016. */
static Out gelu(Net *net, Out x)
{
    Out y = net_line(net, "divide(%s, 1.4142135f)", x.text);
    y = net_line(net, "erf(%s)", y.text);
    y = net_line(net, "add(%s, 1f)", y.text);
    y = net_line(net, "multiply(%s, %s)", x.text, y.text);
    return net_line(net, "multiply(%s, 0.5f)", y.text);
}

/* A. Vaswani et al. 2017, with the norms behind the additions. */
static Out encoder(const Encoder *e, Out x)
{
    Net *net = e->net;
    Out q = heads(e, "q", x, "[1, 0, 2]"), k = heads(e, "k", x, "[1, 0, 2]");
    Out v = heads(e, "v", x, "[1, 2, 0]");
    Out p = net_line(net, "nn.batch_matmul(%s, %s, transpose_b=True)", q.text, k.text);
    p = net_line(net, "divide(%s, %.9gf)", p.text,
                 (double)sqrtf((float)e->width / (float)e->heads));
    p = net_line(net, "nn.softmax(%s)", p.text);
    Out c = net_line(net, "nn.batch_matmul(%s, %s, transpose_b=True)", p.text, v.text);
    c = net_line(net, "transpose(%s, axes=[1, 0, 2])", c.text);
    c = net_line(net, "reshape(%s, newshape=[%d, %d])", c.text, e->tokens, e->width);
    c = sublayer(e, "o", c, e->width);
    x = layer_norm(e, "ln1", net_line(net, "add(%s, %s)", x.text, c.text));
    Out f = gelu(net, sublayer(e, "f1", x, e->hidden));
    f = sublayer(e, "f2", f, e->width);
    return layer_norm(e, "ln2", net_line(net, "add(%s, %s)", x.text, f.text));
}

void workload_encoders(Net *net, const int *args)
{
    Encoder e = {net, 1, 128, args[1], args[2], args[3]};
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, %d), float32]", e.tokens, e.width);
    Out x = net_input(net, "data", type, numbers);
    for (; e.block <= args[0]; e.block++)
        x = encoder(&e, x);
    net_return(net, "%s", x.text);
}

/* ---- recurrent --------------------------------------------------------------------------------------------------------------- */

/* Weight and bias of a layer inside a function that a template has. */
static void layer_params(Net *net, const char *layer, int out, int in, Fill fill)
{
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, %d), float32]", out, in);
    net_weight(net, layer, net->style->weight, type, fill);
    snprintf(type, sizeof type, "Tensor[(%d), float32]", out);
    net_weight(net, layer, net->style->bias, type, net->style->bias_fill);
}

static void tensor_input(Net *net, const char *name, const char *shape, int width, Fill fill)
{
    char type[64];
    snprintf(type, sizeof type, "Tensor[(%s%d), float32]", shape, width);
    net_input(net, name, type, fill);
}

static void sequence_input(Net *net, int steps, int width)
{
    char shape[16];
    snprintf(shape, sizeof shape, "%d, 1, ", steps);
    tensor_input(net, "xs", shape, width, numbers);
    tensor_input(net, "h0", "1, ", width, small);
}

void workload_lstm(Net *net, const int *args)
{
    int steps = args[0], n = args[1];
    sequence_input(net, steps, n);
    tensor_input(net, "c0", "1, ", n, small);
    layer_params(net, "x", 4 * n, n, net->style->linear);
    layer_params(net, "h", 4 * n, n, net->style->linear);
    net_template(&net->functions, "lstm.rly", 3,
                 (Slot[]){{"STEPS", steps, NULL}, {"N", n, NULL}, {"4N", 4 * n, NULL}});
    net_return(net, "@steps(0, %%h0, %%c0, %%xs, %%x_w, %%x_b, %%h_w, %%h_b)");
}

void workload_gru(Net *net, const int *args)
{
    int steps = args[0], n = args[1];
    sequence_input(net, steps, n);
    layer_params(net, "x", 3 * n, n, net->style->linear);
    layer_params(net, "h", 3 * n, n, net->style->linear);
    net_template(&net->functions, "gru.rly", 3,
                 (Slot[]){{"STEPS", steps, NULL}, {"N", n, NULL}, {"3N", 3 * n, NULL}});
    net_return(net, "@steps(0, %%h0, %%xs, %%x_w, %%x_b, %%h_w, %%h_b)");
}

void workload_charrnn(Net *net, const int *args)
{
    enum { LETTERS = 59, CATEGORIES = 18, HIDDEN = 128, ALL = CATEGORIES + LETTERS + HIDDEN };
    net_input(net, "category", "Tensor[(1), int32]", (Fill){FILL_INT, 0, CATEGORIES});
    tensor_input(net, "h0", "1, ", HIDDEN, small);
    net_input(net, "letter0", "int32", (Fill){FILL_VALUE, 0, 0});
    net_input(net, "acc0", "int32", (Fill){FILL_VALUE, 0, 0});
    layer_params(net, "i2h", HIDDEN, ALL, net->style->linear);
    layer_params(net, "i2o", LETTERS, ALL, net->style->linear);
    layer_params(net, "o2o", LETTERS, HIDDEN + LETTERS, net->style->active);
    net_template(&net->functions, "charrnn.rly", 1, (Slot[]){{"STEPS", args[0], NULL}});
    net_return(net, "@steps(0, %%h0, %%letter0, %%acc0, %%category, %%i2h_w, %%i2h_b, %%i2o_w, "
                    "%%i2o_b, %%o2o_w, %%o2o_b)");
}

/* A binary tree over the words of a sentence: neighbouring subtrees, picked by the stream of `name`, are joined until one is left. */
static void random_tree(Buf *out, const char *name, int leaves, int words)
{
    char **items = memory_zeroed((size_t)leaves, sizeof *items);
    uint64_t seed = random_seed(name);
    int n = leaves;
    for (int i = 0; items && i < leaves; i++) {
        Buf leaf = {0};
        buf_printf(&leaf, "Leaf(%d)", (int)(random_at(seed, (uint64_t)i) % (uint64_t)words));
        items[i] = buf_take(&leaf);
    }
    for (int i = leaves; items && n > 1; i++) {
        int at = (int)((random_at(seed, (uint64_t)i) >> 33) % (uint64_t)(n - 1));
        Buf node = {0};
        buf_printf(&node, "Node(%s, %s)", items[at], items[at + 1]);
        free(items[at]);
        free(items[at + 1]);
        items[at] = buf_take(&node);
        memmove(items + at + 1, items + at + 2, (size_t)(n - at - 2) * sizeof *items);
        n--;
    }
    if (items && items[0])
        buf_str(out, items[0]);
    free(items ? items[0] : NULL);
    free(items);
}

void workload_treelstm(Net *net, const int *args)
{
    enum { WIDTH = 128, WORDS = 1000 };
    char name[32];
    snprintf(name, sizeof name, "treelstm_%d/tree", args[0]);
    net_template(&net->functions, "treelstm.rly", 0, NULL);
    buf_str(&net->functions, "\ndef @tree() -> Tree {\n  ");
    random_tree(&net->functions, name, args[0], WORDS);
    buf_str(&net->functions, "\n}\n");
    net_input(net, "tree", "Tree", (Fill){FILL_EXPR, 0, 0});
    net_weight(net, "embedding", "", "Tensor[(1000, 128), float32]", numbers);
    layer_params(net, "leaf", 3 * WIDTH, WIDTH, net->style->linear);
    layer_params(net, "node", 5 * WIDTH, 2 * WIDTH, net->style->linear);
    net_return(net, "@fold(%%tree, %%embedding, %%leaf_w, %%leaf_b, %%node_w, %%node_b)");
}
