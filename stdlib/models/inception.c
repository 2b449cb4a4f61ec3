/* Inception v3 (C. Szegedy et al. 2015), as the original builds it. */
#include "stdlib/models/net.h"

#include <stdio.h>

/* A branch or a whole network: where it stands, and how many convolutions have been named. */
typedef struct Inception {
    Net *net;
    int convs;
} Inception;

static Out norm_conv(Inception *in, Out x, Conv c)
{
    char layer[24];
    snprintf(layer, sizeof layer, "conv%d", in->convs);
    x = net_conv(in->net, layer, x, c);
    snprintf(layer, sizeof layer, "bn%d", in->convs++);
    return net_relu(in->net, net_batch_norm(in->net, layer, x,
                                            (BatchNorm){.epsilon = "2e-05f", .no_scale = true}));
}

/* A square kernel; one that is high or wide keeps the size. */
static Out square(Inception *in, Out x, int out, int k, int stride, int pad)
{
    return norm_conv(in, x, (Conv){.out = out, .k = {k, k}, .stride = stride, .pad = {pad, pad}});
}

static Out wide(Inception *in, Out x, int out, int k)
{
    return norm_conv(in, x, (Conv){.out = out, .k = {1, k}, .pad = {0, k / 2}});
}

static Out high(Inception *in, Out x, int out, int k)
{
    return norm_conv(in, x, (Conv){.out = out, .k = {k, 1}, .pad = {k / 2, 0}});
}

static Out average(Inception *in, Out x)
{
    return net_line(in->net,
                    "nn.avg_pool2d(%s, pool_size=[3, 3], strides=[1, 1], padding=[1, 1, 1, 1], "
                    "count_include_pad=True)",
                    x.text);
}

static Out block_a(Inception *in, Out x, int pool)
{
    Out b[4];
    b[0] = square(in, x, 64, 1, 1, 0);
    b[1] = square(in, square(in, x, 48, 1, 1, 0), 64, 5, 1, 2);
    b[2] = square(in, x, 64, 1, 1, 0);
    b[2] = square(in, square(in, b[2], 96, 3, 1, 1), 96, 3, 1, 1);
    b[3] = square(in, average(in, x), pool, 1, 1, 0);
    return net_concat(in->net, 4, b);
}

static Out block_b(Inception *in, Out x)
{
    Out b[3];
    b[0] = square(in, x, 384, 3, 2, 0);
    b[1] = square(in, square(in, x, 64, 1, 1, 0), 96, 3, 1, 1);
    b[1] = square(in, b[1], 96, 3, 2, 0);
    b[2] = net_max_pool(in->net, x, 3, 2, 0);
    return net_concat(in->net, 3, b);
}

static Out block_c(Inception *in, Out x, int m)
{
    Out b[4];
    b[0] = square(in, x, 192, 1, 1, 0);
    b[1] = high(in, wide(in, square(in, x, m, 1, 1, 0), m, 7), 192, 7);
    b[2] = wide(in, high(in, square(in, x, m, 1, 1, 0), m, 7), m, 7);
    b[2] = wide(in, high(in, b[2], m, 7), 192, 7);
    b[3] = square(in, average(in, x), 192, 1, 1, 0);
    return net_concat(in->net, 4, b);
}

static Out block_d(Inception *in, Out x)
{
    Out b[3];
    b[0] = square(in, square(in, x, 192, 1, 1, 0), 320, 3, 2, 0);
    b[1] = high(in, wide(in, square(in, x, 192, 1, 1, 0), 192, 7), 192, 7);
    b[1] = square(in, b[1], 192, 3, 2, 0);
    b[2] = net_max_pool(in->net, x, 3, 2, 0);
    return net_concat(in->net, 3, b);
}

static Out block_e(Inception *in, Out x, bool max)
{
    Out b[6];
    b[0] = square(in, x, 320, 1, 1, 0);
    Out y = square(in, x, 384, 1, 1, 0);
    b[1] = wide(in, y, 384, 3);
    b[2] = high(in, y, 384, 3);
    y = square(in, square(in, x, 448, 1, 1, 0), 384, 3, 1, 1);
    b[3] = wide(in, y, 384, 3);
    b[4] = high(in, y, 384, 3);
    y = max ? net_max_pool(in->net, x, 3, 1, 1) : average(in, x);
    b[5] = square(in, y, 192, 1, 1, 0);
    return net_concat(in->net, 6, b);
}

static Out stem(Inception *in, Out x)
{
    x = square(in, x, 32, 3, 2, 0);
    x = square(in, square(in, x, 32, 3, 1, 0), 64, 3, 1, 1);
    x = net_max_pool(in->net, x, 3, 2, 0);
    x = square(in, square(in, x, 80, 1, 1, 0), 192, 3, 1, 0);
    return net_max_pool(in->net, x, 3, 2, 0);
}

void testing_inception(Net *net, const int *args)
{
    static const int pools[] = {32, 64, 64}, middle[] = {128, 160, 160, 192};
    Inception in = {net, 0};
    (void)args;
    Out x = stem(&in, net_input(net, "data", "Tensor[(1, 3, 299, 299), float32]",
                                (Fill){FILL_UNIFORM, 1, 0}));
    for (int i = 0; i < 3; i++)
        x = block_a(&in, x, pools[i]);
    x = block_b(&in, x);
    for (int i = 0; i < 4; i++)
        x = block_c(&in, x, middle[i]);
    x = block_e(&in, block_e(&in, block_d(&in, x), false), true);
    x = net_line(net, "nn.avg_pool2d(%s, pool_size=[8, 8], count_include_pad=True)", x.text);
    x = net_line(net, "nn.batch_flatten(%s)", x.text);
    net_return(net, "nn.softmax(%s)", net_linear(net, "fc1", x, 1000, true, -1).text);
}
