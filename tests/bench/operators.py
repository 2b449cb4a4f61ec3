"""Single operators and blocks of networks, each timed beside ONNX Runtime and PyTorch on one core: where a workload is slow, what is slow in it.

    RELAY=build/release/relay PYTHON tests/bench/operators.py [--seconds S] [--below RATIO] [PATTERN…]

PYTHON has torch, onnx and onnxruntime; without them the script says so and ends with 77. Each case is a module that PyTorch exports as
ONNX, `relay import` reads and all three run: the values must agree. Prints a line for each: milliseconds (the least of many), and the
faster peer's divided by ours. With LD_PRELOAD of ../shared/bench/cpuclock.c's library, other work on the machine counts less. Ends with
1 where a value differs."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
    import onnxruntime
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as x:
    print(f"skipped: {x}")
    sys.exit(77)

RELAY = os.environ.get("RELAY", "build/release/relay")
CASES = {}


class Of(nn.Module):
    """A function of tensors, and of modules before them, as a module."""

    def __init__(self, f, *modules):
        super().__init__()
        self.f, self.parts = f, nn.ModuleList(modules)

    def forward(self, *x):
        return self.f(*self.parts, *x)


def case(name, module, *inputs):
    CASES[name] = (module.eval(), [i if isinstance(i, torch.Tensor) else torch.randn(*i) for i in inputs])


def op(name, f, *inputs):
    case(name, Of(f), *inputs)


def places(high, *shape):
    return torch.randint(0, high, shape)


def products():
    for n in (63, 257, 1000):
        op(f"matmul_{n}", lambda a, b: a @ b, (n, n), (n, n))
    op("matmul_tall", lambda a, b: a @ b, (4096, 64), (64, 64))
    op("matmul_row", lambda a, b: a @ b, (1, 1024), (1024, 1000))
    op("matmul_batch", lambda a, b: a @ b, (8, 128, 64), (8, 64, 128))
    op("matmul_turned", lambda a, b: a @ b.transpose(1, 2), (12, 128, 64), (12, 128, 64))
    op("matmul_float64", lambda a, b: a @ b, torch.randn(200, 200).double(), torch.randn(200, 200).double())
    op("einsum_heads", lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), (2, 64, 8, 32), (2, 64, 8, 32))
    op("matmul_batch_float64", lambda a, b: a @ b, *2 * [torch.randn(6, 64, 64).double()])
    op("einsum_values", lambda a, b: torch.einsum("bhqk,bkhd->bqhd", a, b), (2, 8, 64, 64), (2, 64, 8, 32))
    op("matmul_int32", lambda a, b: a @ b, *2 * [places(10, 128, 128).int()])
    op("matmul_float16", lambda a, b: a @ b, *2 * [torch.randn(128, 128).half()])
    case("dense_gelu", nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)), (64, 512))
    case("dense_row", nn.Sequential(nn.Linear(768, 3072), nn.ReLU(), nn.Linear(3072, 768)), (1, 768))
    case("dense_odd", nn.Sequential(nn.Linear(77, 131), nn.Tanh(), nn.Linear(131, 19)), (33, 77))
    case("dense_short", nn.Linear(3, 32), (1000, 3))
    op("attention", lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v, *3 * [(1, 8, 256, 64)])


    for m, n, k in [(3, 333, 1000), (17, 1000, 333)]:
        op(f"matmul_rows_{m}", lambda a, b: a @ b.t(), (m, k), (n, k))
    op("matmul_narrow", lambda a, b: a @ b, (333, 1000), (1000, 7))
    op("matmul_deep", lambda a, b: a @ b, (100, 4000), (4000, 100))
    op("matmul_float64_odd", lambda a, b: a @ b, torch.randn(100, 333).double(), torch.randn(333, 77).double())
    op("attention_step", lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v, (1, 8, 1, 64), *2 * [(1, 8, 512, 64)])


def convolutions():
    for i, o, k, s, h, g in [(3, 32, 3, 2, 224, 1), (64, 64, 3, 1, 56, 1), (64, 128, 1, 1, 56, 1), (128, 128, 5, 1, 28, 1),
                             (32, 32, 3, 1, 112, 32), (96, 96, 5, 2, 56, 96), (64, 64, 7, 1, 28, 64), (48, 48, 3, 1, 30, 3),
                             (20, 30, 3, 1, 33, 1), (256, 256, 3, 2, 14, 1), (1, 16, 5, 1, 28, 1), (512, 512, 1, 1, 7, 1),
                             (64, 128, 3, 2, 56, 1), (3, 64, 7, 2, 112, 1)]:
        case(f"conv_{i}_{o}_k{k}_s{s}_h{h}_g{g}", nn.Conv2d(i, o, k, s, k // 2, groups=g), (1, i, h, h))
    case("conv_dilated", nn.Conv2d(64, 64, 3, 1, 2, dilation=2), (1, 64, 40, 40))
    case("conv_batch", nn.Conv2d(32, 64, 3, 1, 1), (8, 32, 32, 32))
    case("conv_1x7", nn.Conv2d(64, 64, (1, 7), 1, (0, 3)), (1, 64, 17, 17))
    case("conv_transposed", nn.ConvTranspose2d(64, 32, 4, 2, 1), (1, 64, 28, 28))
    case("conv_transposed_2", nn.ConvTranspose2d(64, 32, 2, 2), (1, 64, 32, 32))
    case("conv_transposed_3", nn.ConvTranspose2d(64, 32, 3, 2, 1, 1), (1, 64, 28, 28))
    case("conv_transposed_holes", nn.ConvTranspose2d(32, 32, 3, 1, 2, dilation=2), (1, 32, 28, 28))
    case("conv_transposed_groups", nn.ConvTranspose2d(64, 64, 4, 2, 1, groups=8), (1, 64, 28, 28))
    case("conv1d", nn.Conv1d(64, 128, 5, 1, 2), (1, 64, 400))
    case("conv1d_depthwise", nn.Conv1d(128, 128, 7, 1, 3, groups=128), (1, 128, 400))
    case("conv3d", nn.Conv3d(8, 16, 3, 1, 1), (1, 8, 16, 32, 32))
    case("conv3d_s2", nn.Conv3d(3, 16, 3, 2, 1), (1, 3, 16, 56, 56))
    case("max_pool", nn.MaxPool2d(3, 2, 1), (1, 64, 112, 112))
    op("max_pool_places", lambda x: F.max_pool2d(x, 2, 2, return_indices=True), (1, 64, 56, 56))
    case("max_pool_2", nn.MaxPool2d(2), (1, 64, 56, 56))
    case("avg_pool", nn.AvgPool2d(3, 1, 1), (1, 64, 56, 56))
    case("global_pool", nn.AdaptiveAvgPool2d(1), (8, 256, 14, 14))
    case("upsample_nearest", nn.Upsample(scale_factor=2, mode="nearest"), (1, 64, 28, 28))
    case("upsample_bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), (1, 64, 28, 28))
    case("pixel_shuffle", nn.PixelShuffle(2), (1, 64, 32, 32))


def reductions():
    case("group_norm", nn.GroupNorm(8, 64), (2, 64, 32, 32))
    case("instance_norm", nn.InstanceNorm2d(32, affine=True), (1, 32, 64, 64))
    case("layer_norm", nn.LayerNorm(768), (128, 768))
    op("softmax", lambda x: F.softmax(x, -1), (512, 512))
    op("softmax_short", lambda x: F.softmax(x, -1), (5000, 5))
    op("softmax_middle", lambda x: F.softmax(x, 1), (8, 128, 64))
    op("softmax_masked", lambda x, m: F.softmax(x.masked_fill(m, float("-inf")), -1), (8, 128, 128), torch.ones(128, 128).triu(1) > 0)
    op("residual_norm", lambda x, y, w, b: F.layer_norm(x + y, (256,), w, b), (128, 256), (128, 256), (256,), (256,))
    op("log_softmax", lambda x: F.log_softmax(x, -1), (256, 1000))
    op("logsumexp", lambda x: torch.logsumexp(x, -1), (256, 512))
    op("sum_last", lambda x: x.sum(-1), (1000, 1000))
    op("sum_first", lambda x: x.sum(0), (1000, 1000))
    op("mean_middle", lambda x: x.mean(1), (16, 256, 64))
    op("variance", lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1), (256, 1024))
    op("argmax_last", lambda x: x.argmax(-1), (512, 1000))
    op("argmax_middle", lambda x: x.argmax(1), (1, 21, 128, 128))
    op("cumsum_last", lambda x: x.cumsum(-1), (256, 512))
    op("cumsum_first", lambda x: x.cumsum(0), (512, 256))
    op("cumsum_middle", lambda x: x.cumsum(1), (16, 100, 33))
    op("cumsum_int", lambda x: x.cumsum(-1), places(10, 256, 512))
    op("top_k", lambda x: torch.topk(x, 10, -1), (64, 1000))
    op("sort", lambda x: torch.sort(x, -1).values, (64, 1000))
    op("sort_first", lambda x: torch.sort(x, 0).values, (500, 64))
    op("top_k_first", lambda x: torch.topk(x, 5, 0), (200, 300))
    op("argmax_short", lambda x: x.argmax(-1), (5000, 10))
    op("softmax_hundred", lambda x, m: F.softmax(x + m, -1), (16, 49, 49), (torch.rand(16, 49, 49) > 0.5).float() * -100)


def elements():
    for name, f in [("exp", torch.exp), ("sin", torch.sin), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("erf", torch.erf),
                    ("log", lambda x: torch.log(x.abs() + 1)), ("gelu", F.gelu), ("silu", F.silu), ("hardswish", F.hardswish),
                    ("elu", F.elu), ("softplus", F.softplus), ("mish", F.mish), ("power", lambda x: x.abs() ** 1.7),
                    ("cube", lambda x: x**3), ("atan", torch.atan), ("asin", lambda x: torch.asin(x.clamp(-1, 1))),
                    ("tan", torch.tan), ("celu", F.celu), ("selu", F.selu), ("round", torch.round),
                    ("where", lambda x: torch.where(x > 0, x, x * 0.1)), ("fmod", lambda x: torch.fmod(x, 0.7))]:
        op(f"map_{name}", f, (300, 333))
    op("add_row", lambda a, b: a + b, (512, 777), (777,))
    op("add_column", lambda a, b: a + b, (512, 777), (512, 1))
    for name, f in [("exp", torch.exp), ("tanh", torch.tanh), ("log", lambda x: torch.log(x.abs() + 1))]:
        op(f"map_{name}_float64", f, torch.randn(300, 333).double())
    for name, f in [("sqrt", lambda x: x.abs().sqrt()), ("rsqrt", lambda x: (x.abs() + 1).rsqrt())]:
        op(f"map_{name}_float64", f, torch.randn(300, 333).double())
    op("map_gelu_float16", F.gelu, torch.randn(300, 333).half())
    op("quantize", lambda x: torch.round(x / 0.05).clamp(-128, 127).to(torch.int8), (300, 333))
    op("colours", lambda x: torch.where(x[0] > x[1], x[0] - x[2], torch.where(x[1] > x[2], x[1] - x[0], x[2] * 2)), (3, 224, 224))
    for t in (torch.int32, torch.int64):
        of = [places(100, 300, 333).to(t), places(9, 300, 333).to(t) + 1]
        op(f"remainder_{str(t)[6:]}", torch.remainder, *of)
        op(f"divide_down_{str(t)[6:]}", lambda a, b: torch.div(a, b, rounding_mode="floor"), *of)
    op("divide_int", lambda a, b: a // b, places(100, 300, 300), places(9, 300, 300) + 1)


def moves():
    op("transpose", lambda x: x.t().contiguous(), (1000, 1000))
    op("permute_channels", lambda x: x.permute(0, 2, 3, 1).contiguous(), (1, 64, 56, 56))
    op("permute_colours", lambda x: x.permute(0, 2, 3, 1).contiguous(), (1, 3, 224, 224))
    op("permute_heads", lambda x: x.permute(0, 2, 1, 3).contiguous(), (4, 128, 12, 64))
    op("permute_reversed", lambda x: x.permute(3, 2, 1, 0).contiguous(), (17, 19, 23, 29))
    op("transpose_bytes", lambda x: x.t().contiguous(), places(255, 1000, 1000).to(torch.uint8))
    op("colours_of_bytes", lambda x: (x.permute(2, 0, 1).float() / 255 - 0.5) / 0.2, places(255, 224, 224, 3).to(torch.uint8))
    op("concatenate", lambda a, b: torch.cat([a, b], -1), (1000, 60), (1000, 68))
    op("split", lambda x: [y.clone() for y in torch.split(x, [10, 20, 34], 1)], (32, 64, 100))
    op("stack", lambda a, b: torch.stack([a, b], -1), (300, 300), (300, 300))
    op("slice", lambda x: x[:, ::2, 1:-1].contiguous(), (16, 128, 200))
    op("flip", lambda x: x.flip(-1), (512, 512))
    op("pad_zeros", lambda x: F.pad(x, (1, 1, 1, 1)), (1, 64, 56, 56))
    op("pad_reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), (1, 16, 64, 64))
    op("tile", lambda x: x.repeat(4, 3), (100, 100))
    op("gather", lambda x, i: torch.gather(x, 1, i), (256, 1000), places(1000, 256, 100))
    op("take_rows", lambda x, i: torch.index_select(x, 0, i), (1000, 512), places(1000, 500))
    op("take_pairs", lambda x, i, j: x[i, j], (300, 400), places(300, 20000), places(400, 20000))
    op("permute_1302", lambda x: x.permute(1, 3, 0, 2).contiguous(), (13, 24, 35, 46))
    op("take_columns", lambda x, i: torch.index_select(x, 1, i), (200, 1000), places(1000, 500))
    op("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), (1000, 64), places(1000, 500, 64), (500, 64))
    op("scatter_add_int", lambda x, i, s: x.scatter_add(0, i, s), places(9, 1000, 64), places(1000, 500, 64), places(9, 500, 64))
    op("mask", lambda x: x[x > 0], (300, 333))
    op("unstack", lambda x: torch.unbind(x * 2, 0), (4, 100, 300))
    op("nonzero", lambda x: torch.nonzero(x > 0), (100, 100))
    case("embedding", nn.Embedding(30000, 256), places(30000, 1, 128))


def recurrences():
    case("gru", Of(lambda m, x: m(x)[0], nn.GRU(64, 64)), (30, 1, 64))
    case("lstm_256", Of(lambda m, x: m(x)[0], nn.LSTM(256, 256)), (20, 1, 256))
    case("lstm", Of(lambda m, x: m(x)[0], nn.LSTM(128, 128)), (30, 1, 128))
    case("lstm_both_ways", Of(lambda m, x: m(x)[0], nn.LSTM(64, 64, bidirectional=True, batch_first=True)), (4, 30, 64))


def cbr(i, o, k=3, s=1, g=1, act=nn.ReLU):
    """A convolution, its norm, and what is applied to each element."""
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), act())


class Dense(nn.Module):
    def __init__(self, n, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(n + i * growth), nn.ReLU(), nn.Conv2d(n + i * growth, 4 * growth, 1, bias=False),
                                                  nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))
                                    for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class Squeeze(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Conv2d(n, n // 4, 1), nn.Conv2d(n // 4, n, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.b(F.silu(self.a(x.mean((2, 3), keepdim=True)))))


class Causal(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(n, 3 * n), nn.Linear(n, n), heads
        self.n1, self.n2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (y.reshape(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).split(n, -1))
        s = q @ k.transpose(-1, -2) / (n // self.heads) ** 0.5
        s = s.masked_fill(torch.ones(t, t).tril() == 0, float("-inf")).softmax(-1)
        x = x + self.out((s @ v).transpose(1, 2).reshape(b, t, n))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Swiglu(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b, self.c, self.g = nn.Linear(n, 2 * n, bias=False), nn.Linear(n, 2 * n, bias=False), nn.Linear(2 * n, n, bias=False), \
            nn.Parameter(torch.ones(n))

    def forward(self, x):
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.g
        return x + self.c(F.silu(self.a(y)) * self.b(y))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = cbr(8, 16), cbr(16, 32), cbr(32, 32)
        self.up, self.u1 = nn.ConvTranspose2d(32, 16, 2, 2), cbr(32, 16)

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(F.max_pool2d(a, 2)))
        return self.u1(torch.cat([a, self.up(b)], 1))


class Next(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.dw, self.norm, self.a, self.b = nn.Conv2d(n, n, 7, padding=3, groups=n), nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(self.dw(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)


class Wave(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.f = nn.ModuleList(nn.Conv1d(n, 2 * n, 2, dilation=2 ** i) for i in range(5))
        self.o = nn.ModuleList(nn.Conv1d(n, n, 1) for i in range(5))

    def forward(self, x):
        for i, (f, o) in enumerate(zip(self.f, self.o)):
            a, b = f(F.pad(x, (2 ** i, 0))).chunk(2, 1)
            x = x + o(torch.tanh(a) * torch.sigmoid(b))
        return x


class Inception(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.d = cbr(n, 64, 1), cbr(n, 32, 1)
        self.b, self.c = nn.Sequential(cbr(n, 96, 1), cbr(96, 128)), nn.Sequential(cbr(n, 16, 1), cbr(16, 32, 5))

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(F.max_pool2d(x, 3, 1, 1))], 1)


class Shuffle(nn.Module):
    def __init__(self, n):
        super().__init__()
        m = n // 2
        self.b = nn.Sequential(cbr(m, m, 1), nn.Conv2d(m, m, 3, 1, 1, groups=m, bias=False), nn.BatchNorm2d(m), cbr(m, m, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        x = torch.cat([a, self.b(b)], 1)
        n, c, h, w = x.shape
        return x.reshape(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def blocks():
    case("block_dense", Dense(64, 32, 6), (1, 64, 28, 28))
    narrow = nn.Sequential(nn.Conv2d(240, 40, 1, bias=False), nn.BatchNorm2d(40))
    case("block_mbconv", nn.Sequential(cbr(40, 240, 1, act=nn.SiLU), cbr(240, 240, 5, 1, 240, nn.SiLU), Squeeze(240), narrow), (1, 40, 28, 28))
    case("block_hard", nn.Sequential(cbr(40, 120, 1, act=nn.Hardswish), cbr(120, 120, 5, 1, 120, nn.Hardswish), nn.Conv2d(120, 40, 1)),
         (1, 40, 28, 28))
    case("block_causal", Causal(256, 8), (1, 128, 256))
    case("block_causal_long", Causal(128, 4), (1, 512, 128))
    case("block_swiglu", Swiglu(256), (1, 64, 256))
    case("block_unet", Unet(), (1, 8, 64, 64))
    case("block_convnext", Next(96), (1, 96, 28, 28))
    case("block_wavenet", Wave(32), (1, 32, 512))
    case("block_inception", Inception(192), (1, 192, 28, 28))
    case("block_shuffle", Shuffle(116), (1, 116, 28, 28))
    case("block_patch", nn.Sequential(nn.Conv2d(3, 192, 16, 16), nn.Flatten(2)), (1, 3, 224, 224))
    case("block_resnext", nn.Sequential(cbr(256, 128, 1), cbr(128, 128, 3, 1, 32), nn.Conv2d(128, 256, 1)), (1, 256, 14, 14))
    case("block_bottleneck", nn.Sequential(cbr(256, 64, 1), cbr(64, 64), nn.Conv2d(64, 256, 1)), (1, 256, 56, 56))
    case("block_gan", nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1),
                                    nn.Tanh()), (1, 64, 16, 16))
    mixed = nn.Sequential(nn.Linear(196, 384), nn.GELU(), nn.Linear(384, 196))
    case("block_mixer", Of(lambda m, x: x + m(x.transpose(1, 2)).transpose(1, 2), mixed), (1, 196, 256))
    case("block_stem", nn.Sequential(cbr(3, 32, 3, 2), cbr(32, 64), nn.MaxPool2d(3, 2, 1)), (1, 3, 112, 112))
    case("block_batch8", nn.Sequential(cbr(64, 64), cbr(64, 64)), (8, 64, 28, 28))
    case("block_gru_batch", Of(lambda m, x: m(x)[0], nn.GRU(128, 256, 2)), (20, 8, 128))
    case("block_rnn", Of(lambda m, x: m(x)[0], nn.RNN(64, 128)), (50, 1, 64))


def least_ms(call, seconds):
    call()
    least, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least * 1e3


def relay(*words):
    ran = subprocess.run([RELAY, *words], capture_output=True, text=True, timeout=300)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip()[:300])
    return ran.stdout


def differs(wanted, got):
    for w, g in zip(wanted, got, strict=True):
        unit = 1e-3 if w.dtype == np.float16 else 2e-4  # some round halves after each function, some after several
        if w.shape != g.shape or w.dtype != g.dtype or not np.allclose(w, g, rtol=max(2e-3, 4 * unit), atol=unit, equal_nan=True):
            return True
    return False


def measure(name, folder, seconds):
    module, inputs = CASES[name]
    path, program, weights = (os.path.join(folder, f"m.{e}") for e in ["onnx", "rly", "npz"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs), path, input_names=[f"x{i}" for i in range(len(inputs))], opset_version=17, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: inputs[int(i.name[1:])].numpy() for i in session.get_inputs()}
    relay("import", path, "-o", folder)
    text, given = open(program).read(), ["--params", weights] if os.path.exists(weights) else []
    for key, value in feeds.items():
        np.save(f"{folder}/{key}.npy", value)
        if re.search(rf"%{key}\b", text):
            given += ["--arg", f"{key}={folder}/{key}.npy"]
    relay("run", program, *given, "--exec", "jit", "-o", f"{folder}/out.npz")
    with np.load(f"{folder}/out.npz") as out:
        wrong = differs(session.run(None, feeds), [out[k] for k in out.files])
    with torch.no_grad():
        peers = [least_ms(lambda: session.run(None, feeds), seconds), least_ms(lambda: module(*inputs), seconds)]
    ours = json.loads(relay("bench", program, *given, "--json", "--seconds", str(seconds)))["min_ms"]
    return peers, ours, wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=0.25)
    p.add_argument("--below", type=float, default=float("inf"), help="show those under this ratio only")
    p.add_argument("patterns", nargs="*")
    options = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for group in (products, convolutions, reductions, elements, moves, recurrences, blocks):
        group()
    failed, ratios = 0, []
    for name in CASES:
        if options.patterns and not any(re.search(x, name) for x in options.patterns):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                peers, ours, wrong = measure(name, folder, options.seconds)
            except Exception as x:
                failed += 1
                print(f"{name:26} {type(x).__name__}: {str(x)[:200]}", flush=True)
                continue
        failed += wrong
        ratios.append(min(peers) / ours)
        if wrong or ratios[-1] < options.below:
            print(f"{name:26} onnxruntime {peers[0]:9.4f}  torch {peers[1]:9.4f}  relay {ours:9.4f}  {ratios[-1]:6.2f}"
                  f"{'  the values differ' if wrong else ''}", flush=True)
    if ratios:
        print(f"{len(ratios)} cases, geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
