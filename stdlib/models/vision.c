/* Vision models and the multi-layer perceptron as the benchmark's workloads build them. */
#include "stdlib/models/net.h"

#include <stdio.h>

static const Fill pixels = {FILL_UNIFORM, 1, 0};
static const char image[] = "Tensor[(1, 3, 224, 224), float32]";

void workload_mlp(Net *net, const int *args)
{
    char type[48];
    snprintf(type, sizeof type, "Tensor[(%d, 784), float32]", args[0]);
    Out x = net_input(net, "data", type, pixels);
    x = net_relu(net, net_linear(net, "fc1", x, 128, false, 1));
    x = net_relu(net, net_linear(net, "fc2", x, 64, false, 1));
    net_return(net, "nn.softmax(%s)", net_linear(net, "fc3", x, 10, true, 1).text);
}

void atari(Net *net, const int *args)
{
    static const char *const dense[2][2] = {{"fc1", "fc2"}, {"dense1", "dense2"}};
    Out x = net_input(net, "data", "Tensor[(1, 4, 84, 84), float32]", pixels);
    x = net_conv_relu(net, "conv1", x, (Conv){.out = 32, .k = {8, 8}, .stride = 4});
    x = net_conv_relu(net, "conv2", x, (Conv){.out = 64, .k = {4, 4}, .stride = 2});
    x = net_conv_relu(net, "conv3", x, (Conv){.out = 64, .k = {3, 3}});
    x = net_line(net, "nn.batch_flatten(%s)", x.text);
    x = net_relu(net, net_linear(net, dense[args[0]][0], x, 512, false, 1));
    net_return(net, "%s", net_linear(net, dense[args[0]][1], x, 18, true, 1).text);
}

void workload_vgg16(Net *net, const int *args)
{
    static const int groups[][2] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
    Out x = net_input(net, "data", image, pixels);
    char layer[16];
    (void)args;
    for (int g = 0, n = 0; g < 5; g++) {
        for (int i = 0; i < groups[g][1]; i++) {
            snprintf(layer, sizeof layer, "conv%d", ++n);
            x = net_conv_relu(net, layer, x,
                              (Conv){.out = groups[g][0], .k = {3, 3}, .pad = {1, 1}});
        }
        x = net_max_pool(net, x, 2, 2, 0);
    }
    x = net_line(net, "nn.batch_flatten(%s)", x.text);
    x = net_relu(net, net_linear(net, "fc1", x, 4096, false, 1));
    x = net_relu(net, net_linear(net, "fc2", x, 4096, false, 1));
    net_return(net, "%s", net_linear(net, "fc3", x, 1000, true, 1).text);
}

static Out conv_norm(Net *net, const char *layer, Out x, Conv c)
{
    return net_batch_norm(net, layer, net_conv(net, layer, x, c), (BatchNorm){0});
}

/* Two convolutions and the way around them. */
static Out residual(Net *net, const char *block, Out x, int out, int stride)
{
    char layer[48];
    snprintf(layer, sizeof layer, "%s.c1", block);
    Out y =
        conv_norm(net, layer, x, (Conv){.out = out, .k = {3, 3}, .stride = stride, .pad = {1, 1}});
    y = net_relu(net, y);
    snprintf(layer, sizeof layer, "%s.c2", block);
    y = conv_norm(net, layer, y, (Conv){.out = out, .k = {3, 3}, .pad = {1, 1}, .linear = true});
    if (stride == 2) {
        snprintf(layer, sizeof layer, "%s.down", block);
        x = conv_norm(net, layer, x,
                      (Conv){.out = out, .k = {1, 1}, .stride = stride, .linear = true});
    }
    return net_relu(net, net_line(net, "add(%s, %s)", y.text, x.text));
}

void workload_resnet18(Net *net, const int *args)
{
    Out x = net_input(net, "data", image, pixels);
    char block[32];
    (void)args;
    x = conv_norm(net, "stem", x, (Conv){.out = 64, .k = {7, 7}, .stride = 2, .pad = {3, 3}});
    x = net_max_pool(net, net_relu(net, x), 3, 2, 1);
    for (int stage = 1; stage <= 4; stage++)
        for (int i = 1; i <= 2; i++) {
            snprintf(block, sizeof block, "s%db%d", stage, i);
            x = residual(net, block, x, 32 << stage, stage > 1 && i == 1 ? 2 : 1);
        }
    net_return(net, "%s", net_linear(net, "fc", net_pool_flat(net, x), 1000, true, 1).text);
}

static Out clip6(Net *net, Out x)
{
    return net_line(net, "clip(%s, a_min=0f, a_max=6f)", x.text);
}

static Out inverted_residual(Net *net, const char *block, Out x, int in, int out, int expansion,
                             int stride)
{
    char layer[48];
    int mid = in * expansion;
    Out y = x;
    if (expansion > 1) {
        snprintf(layer, sizeof layer, "%s.expand", block);
        y = clip6(net, conv_norm(net, layer, y, (Conv){.out = mid, .k = {1, 1}}));
    }
    snprintf(layer, sizeof layer, "%s.depth", block);
    y = clip6(net,
              conv_norm(net, layer, y,
                        (Conv){.depthwise = mid, .k = {3, 3}, .stride = stride, .pad = {1, 1}}));
    snprintf(layer, sizeof layer, "%s.project", block);
    y = conv_norm(net, layer, y, (Conv){.out = out, .k = {1, 1}, .linear = true});
    return stride == 1 && in == out ? net_line(net, "add(%s, %s)", x.text, y.text) : y;
}

void workload_mobilenet_v2(Net *net, const int *args)
{
    static const int rows[][4] = {/* expansion, channels, repeats, stride of the first */
                                  {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    Out x = net_input(net, "data", image, pixels);
    int in = 32;
    char block[32];
    (void)args;
    x = clip6(
        net, conv_norm(net, "stem", x, (Conv){.out = 32, .k = {3, 3}, .stride = 2, .pad = {1, 1}}));
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < rows[i][2]; j++) {
            snprintf(block, sizeof block, "b%d_%d", i, j);
            x = inverted_residual(net, block, x, in, rows[i][1], rows[i][0], j ? 1 : rows[i][3]);
            in = rows[i][1];
        }
    x = clip6(net, conv_norm(net, "head", x, (Conv){.out = 1280, .k = {1, 1}}));
    net_return(net, "%s", net_linear(net, "fc", net_pool_flat(net, x), 1000, true, 1).text);
}
