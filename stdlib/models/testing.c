/* Vision models as the original's own test builders make them: same layers, same names of parameters, in the same order. */
#include "stdlib/models/net.h"

#include <stdio.h>
#include <string.h>

static const Fill pixels = {FILL_UNIFORM, 1, 0};
static const char image[] = "Tensor[(1, 3, 224, 224), float32]";

typedef char LayerName[48];

#define LAYER(name, ...) (snprintf(name, sizeof(LayerName), __VA_ARGS__), (name))

static Out flatten(Net *net, Out x)
{
    return net_line(net, "nn.batch_flatten(%s)", x.text);
}

/* ---- perceptron ------------------------------------------------------------------------------------------------------- */

void testing_mlp(Net *net, const int *args)
{
    (void)args;
    Out x = flatten(net, net_input(net, "data", "Tensor[(1, 1, 28, 28), float32]", pixels));
    x = net_relu(net, net_linear(net, "fc1", x, 128, false, -1));
    x = net_relu(net, net_linear(net, "fc2", x, 64, false, -1));
    net_return(net, "nn.softmax(%s)", net_linear(net, "fc3", x, 10, true, -1).text);
}

/* ---- ResNet, K. He et al. 2016 ----------------------------------------------------------------------------------------------- */

/* How a residual network convolves: in two dimensions or in three. */
typedef struct ResNet {
    Net *net;
    bool bottleneck, cube;
} ResNet;

static Out res_conv(const ResNet *r, const char *layer, Out x, int out, int k, int stride, int pad)
{
    if (!r->cube)
        return net_conv(r->net, layer, x,
                        (Conv){.out = out, .k = {k, k}, .stride = stride, .pad = {pad, pad}});
    Out w = net_weight(r->net, layer, "_weight", NULL, r->net->style->active);
    return net_line(r->net,
                    "nn.conv3d(%s, %s, strides=[%d, %d, %d], padding=[%d, %d, %d, %d, %d, %d], "
                    "channels=%d, kernel_size=[%d, %d, %d])",
                    x.text, w.text, stride, stride, stride, pad, pad, pad, pad, pad, pad, out, k, k,
                    k);
}

static Out norm_relu(Net *net, const char *layer, Out x)
{
    return net_relu(net, net_batch_norm(net, layer, x, (BatchNorm){.epsilon = "2e-05f"}));
}

static Out res_unit(const ResNet *r, const char *unit, Out x, int filters, int stride, bool project)
{
    LayerName n;
    Out a = norm_relu(r->net, LAYER(n, "%.30s_bn1", unit), x), y = a;
    if (r->bottleneck) {
        y = res_conv(r, LAYER(n, "%.30s_conv1", unit), y, filters / 4, 1, stride, 0);
        y = norm_relu(r->net, LAYER(n, "%.30s_bn2", unit), y);
        y = res_conv(r, LAYER(n, "%.30s_conv2", unit), y, filters / 4, 3, 1, 1);
        y = norm_relu(r->net, LAYER(n, "%.30s_bn3", unit), y);
        y = res_conv(r, LAYER(n, "%.30s_conv3", unit), y, filters, 1, 1, 0);
    } else {
        y = res_conv(r, LAYER(n, "%.30s_conv1", unit), y, filters, 3, stride, 1);
        y = norm_relu(r->net, LAYER(n, "%.30s_bn2", unit), y);
        y = res_conv(r, LAYER(n, "%.30s_conv2", unit), y, filters, 3, 1, 1);
    }
    Out around = project ? res_conv(r, LAYER(n, "%.30s_sc", unit), a, filters, 1, stride, 0) : x;
    return net_line(r->net, "add(%s, %s)", y.text, around.text);
}

static Out res_stages(const ResNet *r, Out x, int stages, const int *units, const int *filters)
{
    LayerName n;
    for (int i = 0; i < stages; i++)
        for (int j = 0; j < units[i]; j++)
            x = res_unit(r, LAYER(n, "stage%d_unit%d", i + 1, j + 1), x, filters[i],
                         i && !j ? 2 : 1, j == 0);
    return norm_relu(r->net, "bn1", x);
}

static Out res_data(Net *net, Out x)
{
    return net_batch_norm(net, "bn_data", x, (BatchNorm){.epsilon = "2e-05f", .no_scale = true});
}

static void res_head(Net *net, Out x, int classes)
{
    net_return(net, "nn.softmax(%s)", net_linear(net, "fc1", x, classes, true, -1).text);
}

void testing_resnet(Net *net, const int *args)
{
    static const int filters[2][4] = {{64, 128, 256, 512}, {256, 512, 1024, 2048}};
    static const int units[][5] = {{18, 2, 2, 2, 2},
                                   {34, 3, 4, 6, 3},
                                   {50, 3, 4, 6, 3},
                                   {101, 3, 4, 23, 3},
                                   {152, 3, 8, 36, 3}};
    ResNet r = {net, args[0] >= 50, false};
    size_t row = 0;
    while (units[row][0] != args[0])
        row++;
    Out x = res_data(net, net_input(net, "data", image, pixels));
    x = net_conv(net, "conv0", x, (Conv){.out = 64, .k = {7, 7}, .stride = 2, .pad = {3, 3}});
    x = net_max_pool(net, norm_relu(net, "bn0", x), 3, 2, 1);
    x = res_stages(&r, x, 4, units[row] + 1, filters[r.bottleneck]);
    res_head(net, net_pool_flat(net, x), 1000);
}

/* For images of up to 28 by 28 pixels: 6n + 2 layers in three stages. */
void testing_resnet_small(Net *net, const int *args)
{
    static const int filters[] = {16, 32, 64};
    int n = (args[0] - 2) / 6, units[] = {n, n, n};
    ResNet r = {net, false, false};
    Out x = res_data(net, net_input(net, "data", "Tensor[(1, 3, 28, 28), float32]", pixels));
    x = res_conv(&r, "conv0", x, 16, 3, 1, 1);
    x = res_stages(&r, x, 3, units, filters);
    res_head(net, net_pool_flat(net, x), 10);
}

void testing_resnet_3d(Net *net, const int *args)
{
    static const int filters[] = {64, 128, 256, 512}, units[] = {2, 2, 2, 2};
    ResNet r = {net, false, true};
    (void)args;
    Out x = res_data(net, net_input(net, "data", "Tensor[(1, 3, 16, 112, 112), float32]", pixels));
    Out w = net_weight(net, "conv0", "_weight", NULL, net->style->active);
    x = net_line(net,
                 "nn.conv3d(%s, %s, strides=[1, 2, 2], padding=[1, 3, 3, 1, 3, 3], channels=64, "
                 "kernel_size=[3, 7, 7])",
                 x.text, w.text);
    x = res_stages(&r, norm_relu(net, "bn0", x), 4, units, filters);
    x = net_line(net, "nn.adaptive_avg_pool3d(%s, output_size=[1, 1, 1])", x.text);
    res_head(net, flatten(net, x), 1000);
}

/* ---- MobileNet --------------------------------------------------------------------------------------------------------------- */

static Out norm(Net *net, const char *layer, Out x)
{
    return net_batch_norm(net, layer, x, (BatchNorm){0});
}

void testing_mobilenet(Net *net, const int *args)
{
    static const int rows[][2] = {/* channels out, stride */
                                  {64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                                  {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                                  {512, 1}, {1024, 2}, {1024, 1}};
    LayerName n;
    int in = 32;
    (void)args;
    Out x = net_input(net, "data", image, pixels);
    x = net_conv(net, "conv_block_1_conv", x,
                 (Conv){.out = in, .k = {3, 3}, .stride = 2, .pad = {1, 1}});
    x = net_relu(net, norm(net, "conv_block_1_bn", x));
    for (int i = 0; i < 13; i++) {
        x = net_conv(net, LAYER(n, "separable_conv_block_%d", i + 1), x,
                     (Conv){.depthwise = in, .k = {3, 3}, .stride = rows[i][1], .pad = {1, 1}});
        x = net_relu(net, norm(net, LAYER(n, "separable_conv_block_%d_bn1", i + 1), x));
        in = rows[i][0];
        x = net_conv(net, LAYER(n, "separable_conv_block_%d_conv2", i + 1), x,
                     (Conv){.out = in, .k = {1, 1}});
        x = net_relu(net, norm(net, LAYER(n, "separable_conv_block_%d_bn2", i + 1), x));
    }
    x = net_linear(net, "fc", net_pool_flat(net, x), 1000, true, 1);
    net_return(net, "nn.softmax(%s)", x.text);
}

/* ---- VGG --------------------------------------------------------------------------------------------------------------------- */

void testing_vgg(Net *net, const int *args)
{
    static const int filters[] = {64, 128, 256, 512, 512};
    static const int convs[][6] = {
        {11, 1, 1, 2, 2, 2}, {13, 2, 2, 2, 2, 2}, {16, 2, 2, 3, 3, 3}, {19, 2, 2, 4, 4, 4}};
    LayerName n;
    size_t row = 0;
    while (convs[row][0] != args[0])
        row++;
    Out x = net_input(net, "data", image, pixels);
    for (int g = 1; g <= 5; g++) {
        for (int k = 1; k <= convs[row][g]; k++) {
            LAYER(n, "conv%d_%d", g, k);
            x = net_conv(net, n, x, (Conv){.out = filters[g - 1], .k = {3, 3}, .pad = {1, 1}});
            x = net_bias(net, n, x, 1);
            x = args[1] ? norm(net, LAYER(n, "bn%d_%d", g, k), x) : x;
            x = net_relu(net, x);
        }
        x = net_max_pool(net, x, 2, 2, 0);
    }
    x = net_relu(net, net_linear(net, "fc6", flatten(net, x), 4096, false, -1));
    x = net_relu(net, net_linear(net, "fc7", net_dropout(net, x), 4096, false, -1));
    x = net_linear(net, "fc8", net_dropout(net, x), 1000, true, -1);
    net_return(net, "nn.softmax(%s)", x.text);
}

/* ---- DCGAN ------------------------------------------------------------------------------------------------------------------- */

static Out deconv(Net *net, const char *layer, Out x, int out)
{
    Out w = net_weight(net, layer, "_weight", NULL, net->style->active);
    return net_line(net,
                    "nn.conv2d_transpose(%s, %s, channels=%d, kernel_size=[4, 4], strides=[2, 2], "
                    "padding=[1, 1, 1, 1])",
                    x.text, w.text, out);
}

void testing_dcgan(Net *net, const int *args)
{
    LayerName n;
    (void)args;
    Out x = net_input(net, "data", "Tensor[(1, 100), float32]", pixels);
    Out w = net_weight(net, "dense", "_weight", NULL, net->style->active);
    x = net_relu(net, net_line(net, "nn.dense(%s, %s, units=16384)", x.text, w.text));
    x = net_line(net, "reshape(%s, newshape=[-1, 1024, 4, 4])", x.text);
    for (int g = 2, out = 512; g <= 4; g++, out /= 2) {
        x = deconv(net, LAYER(n, "g%d_deconv", g), x, out);
        x = net_relu(net, net_batch_norm(net, LAYER(n, "g%d_batch_norm", g), x,
                                         (BatchNorm){.epsilon = "1e-05f", .no_scale = true}));
    }
    net_return(net, "tanh(%s)", deconv(net, "g5_deconv", x, 3).text);
}

/* ---- SqueezeNet -------------------------------------------------------------------------------------------------------------- */

/* Weights are named by the layer alone, as `fire1_input`, their biases `fire1_input_bias`. */
static Out squeeze_conv(Net *net, const char *layer, Out x, int out, int k, int stride, int pad)
{
    LayerName bias;
    snprintf(bias, sizeof bias, "%.40s_bias", layer);
    Out w = net_weight(net, layer, "_weight", NULL, net->style->active);
    x = net_line(net,
                 "nn.conv2d(%s, %s, strides=[%d, %d], padding=[%d, %d, %d, %d], channels=%d, "
                 "kernel_size=[%d, %d])",
                 x.text, w.text, stride, stride, pad, pad, pad, pad, out, k, k);
    Out b = net_weight(net, bias, "", NULL, net->style->bias_fill);
    return net_relu(net, net_line(net, "nn.bias_add(%s, %s)", x.text, b.text));
}

static Out fire(Net *net, int i, Out x, int squeeze, int expand)
{
    LayerName n;
    x = squeeze_conv(net, LAYER(n, "fire%d_input", i), x, squeeze, 1, 1, 0);
    Out sides[2];
    sides[0] = squeeze_conv(net, LAYER(n, "fire%d_left", i), x, expand, 1, 1, 0);
    sides[1] = squeeze_conv(net, LAYER(n, "fire%d_right", i), x, expand, 3, 1, 1);
    return net_concat(net, 2, sides);
}

void testing_squeezenet(Net *net, const int *args)
{
    static const int squeeze[] = {16, 16, 32, 32, 48, 48, 64, 64};
    static const bool pool_before[2][8] = {{1, 0, 0, 1, 0, 0, 0, 1}, {1, 0, 1, 0, 1, 0, 0, 0}};
    int small = args[0];
    Out x = net_input(net, "data", image, pixels);
    x = squeeze_conv(net, "conv1", x, small ? 64 : 96, small ? 3 : 7, 2, small ? 1 : 3);
    for (int i = 0; i < 8; i++) {
        x = pool_before[small][i] ? net_max_pool(net, x, 3, 2, 0) : x;
        x = fire(net, i + 1, x, squeeze[i], squeeze[i] * 4);
    }
    x = squeeze_conv(net, "conv_final", net_dropout(net, x), 1000, 1, 1, 0);
    net_return(net, "nn.softmax(%s)", net_pool_flat(net, x).text);
}

/* ---- DenseNet ---------------------------------------------------------------------------------------------------------------- */

static Out dense_layer(Net *net, const char *name, Out x, int growth)
{
    LayerName n;
    x = net_relu(net, norm(net, LAYER(n, "%.30s_bn1", name), x));
    x = net_conv(net, LAYER(n, "%.30s_conv1", name), x, (Conv){.out = 4 * growth, .k = {1, 1}});
    x = net_relu(net, norm(net, LAYER(n, "%.30s_bn2", name), x));
    return net_conv(net, LAYER(n, "%.30s_conv2", name), x,
                    (Conv){.out = growth, .k = {3, 3}, .pad = {1, 1}});
}

/* Each layer sees only the one before it; what they give is put together at the end. */
static Out dense_block(Net *net, int block, Out x, int layers, int growth)
{
    Out all[64];
    LayerName n;
    for (int i = 0; i < layers; i++)
        all[i] = x = dense_layer(net, LAYER(n, "block%d_layer%d", block, i + 1), x, growth);
    return net_concat(net, layers, all);
}

void testing_densenet(Net *net, const int *args)
{
    static const int rows[][7] = {/* depth, first features, growth, layers of the blocks */
                                  {121, 64, 32, 6, 12, 24, 16},
                                  {161, 96, 48, 6, 12, 36, 24},
                                  {169, 69, 32, 6, 12, 32, 32},
                                  {201, 64, 32, 6, 12, 48, 32}};
    const int *row = rows[0];
    LayerName n;
    while (row[0] != args[0])
        row += 7;
    int features = row[1], growth = row[2];
    Out x = net_input(net, "data", image, pixels);
    x = net_conv(net, "conv1", x, (Conv){.out = features, .k = {7, 7}, .stride = 2, .pad = {3, 3}});
    x = net_max_pool(net, net_relu(net, norm(net, "batch_norm1", x)), 3, 2, 1);
    for (int b = 1; b <= 4; b++) {
        x = dense_block(net, b, x, row[b + 2], growth);
        features += row[b + 2] * growth;
        if (b == 4)
            break;
        features /= 2;
        x = net_relu(net, norm(net, LAYER(n, "transition%d_bn", b), x));
        x = net_conv(net, LAYER(n, "transition%d_conv", b), x,
                     (Conv){.out = features, .k = {1, 1}});
        x = net_line(net, "nn.avg_pool2d(%s, pool_size=[2, 2], strides=[2, 2])", x.text);
    }
    x = net_relu(net, norm(net, "batch_norm2", x));
    x = net_line(net, "nn.avg_pool2d(%s, pool_size=[7, 7])", x.text);
    net_return(net, "%s", net_linear(net, "dense", flatten(net, x), 1000, true, -1).text);
}
