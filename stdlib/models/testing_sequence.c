/* Recurrent models, trees and the test of compile time, as the original's own builders and the Relay paper (J. Roesch et al. 2018) have
 * them. */
#include "stdlib/models/net.h"

#include <stdio.h>

static const Fill numbers = {FILL_UNIFORM, 1, 0};

static void input(Net *net, const char *name, int a, int b)
{
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, %d), float32]", a, b);
    net_input(net, name, type, numbers);
}

/* Weight and bias of a layer. */
static void layer_params(Net *net, const char *weight, const char *bias, int out, int in)
{
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, %d), float32]", out, in);
    net_weight(net, weight, "", type, net->style->active);
    snprintf(type, sizeof type, "Tensor[(%d), float32]", out);
    net_weight(net, bias, "", type, net->style->bias_fill);
}

/* ---- LSTM, unrolled ---------------------------------------------------------------------------------------------------------- */

/* One step: its own copy of the cell, on its own input and weights. */
static void unrolled_step(Net *net, int i, int n)
{
    char data[24] = "data", states[24] = "init_states", weight[32], bias[32];
    if (i) {
        snprintf(data, sizeof data, "data%d", i);
        snprintf(states, sizeof states, "states_%d", i - 1);
    }
    input(net, data, 1, n);
    for (int side = 0; side < 2; side++) {
        snprintf(weight, sizeof weight, "%s_%d_weight", side ? "h2h" : "i2h", i);
        snprintf(bias, sizeof bias, "%s_%d_bias", side ? "h2h" : "i2h", i);
        layer_params(net, weight, bias, 4 * n, n);
    }
    net_template(&net->body, "lstm_step.rly", 5,
                 (Slot[]){{"I", i, NULL},
                          {"N", n, NULL},
                          {"4N", 4 * n, NULL},
                          {"DATA", 0, data},
                          {"STATES", 0, states}});
}

void testing_lstm(Net *net, const int *args)
{
    int steps = args[0], n = args[1];
    buf_printf(&net->body,
               "  let %%zeros = zeros(shape=[1, %d], dtype=\"float32\");\n"
               "  let %%init_states = (%%zeros, %%zeros);\n",
               n);
    for (int i = 0; i < steps; i++)
        unrolled_step(net, i, n);
    net_return(net, "%%out_%d", steps - 1);
}

/* ---- the Relay paper --------------------------------------------------------------------------------------------------------- */

enum { WIDTH = 128 };

/* A sequence, and the weights of a cell whose gates are stacked. */
static void cell_params(Net *net, int steps, int gates)
{
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, 1, %d), float32]", steps, WIDTH);
    net_input(net, "data", type, numbers);
    layer_params(net, "i2h_weight", "i2h_bias", gates * WIDTH, WIDTH);
    layer_params(net, "h2h_weight", "h2h_bias", gates * WIDTH, WIDTH);
}

static void paper_cell(Net *net, const char *file, int steps, int gates)
{
    cell_params(net, steps, gates);
    net_template(&net->functions, file, 1, (Slot[]){{"STEPS", steps, NULL}});
    net_return(net,
               "@run(0, zeros(shape=[1, %d], dtype=\"float32\"), %s%%data, %%i2h_weight, "
               "%%i2h_bias, %%h2h_weight, %%h2h_bias)",
               WIDTH, gates == 4 ? "zeros(shape=[1, 128], dtype=\"float32\"), " : "");
}

void testing_rnn(Net *net, const int *args)
{
    paper_cell(net, "paper_rnn.rly", args[0], 1);
}

void testing_gru(Net *net, const int *args)
{
    paper_cell(net, "paper_gru.rly", args[0], 3);
}

void testing_lstm_loop(Net *net, const int *args)
{
    paper_cell(net, "paper_lstm.rly", args[0], 4);
}

void testing_charrnn(Net *net, const int *args)
{
    enum { CATEGORIES = 18, LETTERS = 58, HIDDEN = 16 };
    net_input(net, "category", "int32", (Fill){FILL_INT, 0, CATEGORIES});
    net_input(net, "letter", "int32", (Fill){FILL_INT, 0, LETTERS - 1});
    layer_params(net, "i2h_weight", "i2h_bias", HIDDEN, CATEGORIES + LETTERS + HIDDEN);
    layer_params(net, "i2o_weight", "i2o_bias", LETTERS, CATEGORIES + LETTERS + HIDDEN);
    layer_params(net, "o2o_weight", "o2o_bias", LETTERS, HIDDEN + LETTERS);
    net_template(&net->functions, "paper_charrnn.rly", 0, NULL);
    Out category = net_line(
        net, "one_hot(%%category, 1f, 0f, depth=%d, axis=-1, dtype=\"float32\")", CATEGORIES);
    category = net_line(net, "expand_dims(%s, axis=0)", category.text);
    net_return(net,
               "@generate(%d, %s, @letter(%%letter), zeros(shape=[1, %d], dtype=\"float32\"), "
               "%%i2h_weight, %%i2h_bias, %%i2o_weight, %%i2o_bias, %%o2o_weight, %%o2o_bias)",
               args[0], category.text, HIDDEN);
}

void testing_treelstm(Net *net, const int *args)
{
    enum { INPUT = 300, MEMORY = 150 };
    net_template(&net->functions, "paper_treelstm.rly", 0, NULL);
    input(net, "word", 1, INPUT);
    layer_params(net, "wx_weight", "wx_bias", 3 * MEMORY, INPUT);
    layer_params(net, "wh_weight", "wh_bias", 3 * MEMORY, MEMORY);
    layer_params(net, "fx_weight", "fx_bias", MEMORY, INPUT);
    layer_params(net, "fh_weight", "fh_bias", MEMORY, MEMORY);
    net_return(net,
               "@tree(@example(%d, %%word), %%wx_weight, %%wx_bias, %%wh_weight, %%wh_bias, "
               "%%fx_weight, %%fx_bias, %%fh_weight, %%fh_bias)",
               args[0]);
}

/* ---- compile time ------------------------------------------------------------------------------------------------------------ */

/* A dense and a convolution branch on the same value. */
static Out branches(Net *net, Out x, const char *dense, const char *conv)
{
    Out w = net_weight(net, dense, "_weight", "Tensor[(12, 12), float32]", net->style->active);
    Out d = net_line(net, "reshape(%s, newshape=[-1, 12])", x.text);
    d = net_line(net, "nn.dense(%s, %s, units=12)", d.text, w.text);
    d = net_line(net, "reshape_like(%s, %%data)", net_relu(net, d).text);
    Out k = net_weight(net, conv, "_weight", "Tensor[(3, 3, 3, 3), float32]", net->style->active);
    Out c = net_line(net, "nn.conv2d(%s, %s, padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3])",
                     x.text, k.text);
    return net_line(net, "add(%s, %s)", d.text, net_softmax(net, c).text);
}

void testing_synthetic(Net *net, const int *args)
{
    (void)args;
    Out x = net_input(net, "data", "Tensor[(1, 3, 24, 12), float32]", numbers);
    x = net_bias(net, "layer", branches(net, x, "dense", "conv"), 1);
    x = net_batch_norm(net, "bn", x, (BatchNorm){0});
    net_return(net, "%s", branches(net, x, "dense2", "conv2").text);
}
