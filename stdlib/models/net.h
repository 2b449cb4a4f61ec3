/* Writing the Relay text of a network, layer by layer.
 *
 *     Out x = net_input(net, "data", "Tensor[(1, 3, 224, 224), float32]", FILL_U);
 *     x = net_relu(net, net_conv(net, "conv1", x, (Conv){.out = 64, .k = {7, 7}, .stride = 2, .pad = {3, 3}}));
 *     net_return(net, x);
 *
 * Types of weights are left to inference wherever a relation finds them (types.md, section 9), so that a layer says its sizes once. */
#ifndef STDLIB_MODELS_NET_H
#define STDLIB_MODELS_NET_H

#include "stdlib/models/models.h"

/* A value of the program: its text, `%12`, `%12.0` or `%data`. */
typedef struct Out {
    char text[64];
} Out;

/* How parameters of layers are called and filled. */
typedef struct NetStyle {
    const char *weight, *bias, *gamma, *beta, *mean, *var; /* what comes behind the layer's name */
    Fill active; /* weights of a layer that an activation follows */
    Fill linear; /* other weights */
    Fill bias_fill, gamma_fill, beta_fill, mean_fill, var_fill;
} NetStyle;

/* As the benchmark's workloads name and fill them, and as the original's own builders do. */
extern const NetStyle style_workload, style_testing;

typedef struct Net {
    Model *model;
    const NetStyle *style;
    Buf params, body, functions;
    uint32_t lines; /* numbers %0, %1, … that are taken */
} Net;

/* The functions of models.def. */
#define MODEL(name, doc, fn, workload, ...) void fn(Net *net, const int *args);
#include "stdlib/models/models.def"
#undef MODEL

/* A parameter; its type may be NULL when inference finds it. In the program `_` stands for each dot of the name. */
Out net_input(Net *net, const char *name, const char *type, Fill fill);
Out net_weight(Net *net, const char *layer, const char *suffix, const char *type, Fill fill);
/* The next line, `%N = …;`. */
Out net_line(Net *net, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A field of a tuple. */
Out net_field(Out tuple, int i);
/* The result of @main. */
void net_return(Net *net, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

typedef struct Conv {
    int out;
    int k[2], pad[2]; /* height, width; on each side */
    int stride; /* 0 means 1 */
    int depthwise; /* its channels, in and out, when it has a filter for each */
    bool linear; /* nothing non-linear behind it */
} Conv;

Out net_conv(Net *net, const char *layer, Out x, Conv c);
Out net_bias(Net *net, const char *layer, Out x, int axis);
typedef struct BatchNorm {
    const char *epsilon; /* NULL: the default */
    bool no_scale;
} BatchNorm;
Out net_batch_norm(Net *net, const char *layer, Out x, BatchNorm bn);
/* nn.dense and its bias. */
Out net_linear(Net *net, const char *layer, Out x, int units, bool linear, int axis);
Out net_relu(Net *net, Out x);
/* nn.conv2d, its bias and nn.relu. */
Out net_conv_relu(Net *net, const char *layer, Out x, Conv c);
Out net_max_pool(Net *net, Out x, int k, int stride, int pad);
/* global_avg_pool2d, batch_flatten. */
Out net_pool_flat(Net *net, Out x);
Out net_softmax(Net *net, Out x);
Out net_dropout(Net *net, Out x);
/* The concatenation of `n` values along the channels. */
Out net_concat(Net *net, int n, const Out *x);

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

/* What a template names: a number, or a text. */
typedef struct Slot {
    const char *name;
    int value;
    const char *text; /* NULL: the number */
} Slot;

/* The text of a file of this folder onto net->functions or net->body; `$NAME` in it stands for a slot. */
void net_template(Buf *out, const char *file, size_t n, const Slot *slots);

#endif
