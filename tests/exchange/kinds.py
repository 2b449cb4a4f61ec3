"""Networks of further kinds, of random weights: of images, sounds, texts, graphs and tables. `networks.py` and `torch_test.py` try them."""
import math

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {}


def kind(f):
    KINDS[f.__name__] = f
    return f


class Attention(nn.Module):
    def __init__(self, d, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, d))


class VisionBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, heads)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@kind
def vision_transformer():
    class Net(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.patches, self.norm, self.head = nn.Conv2d(3, d, 8, 8), nn.LayerNorm(d), nn.Linear(d, 10)
            self.first, self.places = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(1, 17, d))
            self.blocks = nn.Sequential(*[VisionBlock(d, 4) for _ in range(3)])

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])
    return Net(), [torch.randn(2, 3, 32, 32)], {"x0": {0: "batch"}}


class WindowBlock(nn.Module):
    """Attention in windows that may be shifted, with a table of relative places and a mask."""

    def __init__(self, d, heads, side, window, shift):
        super().__init__()
        self.heads, self.side, self.window, self.shift = heads, side, window, shift
        self.norm1, self.norm2, self.qkv, self.proj = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.table = nn.Parameter(torch.randn((2 * window - 1)**2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        part = torch.zeros(1, side, side, 1)
        edges = [slice(0, -window), slice(-window, -shift), slice(-shift, None)] if shift else []
        for i, a in enumerate(edges):
            for k, b in enumerate(edges):
                part[:, a, b] = 3 * i + k
        rows = self.windows(part).squeeze(-1)
        self.register_buffer("mask", (rows[:, None] != rows[:, :, None]) * -100.0)

    def windows(self, x):
        b, h, w, c = x.shape
        k = self.window
        return x.view(b, h // k, k, w // k, k, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, k * k, c)

    def forward(self, x):
        b, _, d = x.shape
        k, side = self.window, self.side
        y = torch.roll(self.norm1(x).view(b, side, side, d), (-self.shift, -self.shift), (1, 2))
        y = self.windows(y)
        n = y.shape[0]
        q, key, v = self.qkv(y).reshape(n, k * k, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(k * k, k * k, -1).permute(2, 0, 1)
        scores = q @ key.transpose(-2, -1) * (d // self.heads)**-0.5 + bias
        parts = self.mask.shape[0]
        scores = (scores.view(n // parts, parts, self.heads, k * k, k * k) + self.mask[:, None]).view(n, self.heads, k * k, k * k)
        y = self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, k * k, d))
        y = y.view(b, side // k, side // k, k, k, d).permute(0, 1, 3, 2, 4, 5).reshape(b, side, side, d)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2)).view(b, side * side, d)
        return x + self.mlp(self.norm2(x))


@kind
def shifted_windows():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.head = nn.Conv2d(3, 16, 4, 4), nn.Linear(64, 7)
            self.blocks = nn.Sequential(WindowBlock(16, 2, 8, 4, 0), WindowBlock(16, 2, 8, 4, 2))

        def forward(self, x):
            x = self.blocks(self.patches(x).flatten(2).transpose(1, 2)).view(x.shape[0], 8, 8, 16)
            x = torch.cat([x[:, i::2, k::2] for i in (0, 1) for k in (0, 1)], -1)
            return self.head(x.mean((1, 2)))
    return Net(), [torch.randn(2, 3, 32, 32)], {}


@kind
def convolutions_next():
    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.depth, self.norm, self.a, self.b = nn.Conv2d(d, d, 7, padding=3, groups=d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            self.scale = nn.Parameter(torch.full((d,), 0.1))

        def forward(self, x):
            y = self.depth(x).permute(0, 2, 3, 1)
            return x + (self.scale * self.b(F.gelu(self.a(self.norm(y))))).permute(0, 3, 1, 2)
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), Block(16), Block(16), nn.Conv2d(16, 32, 2, 2), Block(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.LayerNorm(32), nn.Linear(32, 5)), [torch.randn(1, 3, 32, 32)], {}


@kind
def diffusion():
    """A step of a denoiser: group norms, times as waves, attention to a text."""
    class Block(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.norm1, self.conv1, self.norm2, self.conv2 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
            self.time, self.skip = nn.Linear(32, 2 * o), nn.Conv2d(i, o, 1)

        def forward(self, x, time):
            scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
            h = self.norm2(self.conv1(F.silu(self.norm1(x)))) * (1 + scale) + shift
            return self.skip(x) + self.conv2(F.silu(h))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
            self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
            self.down, self.smaller, self.up = Block(8, 16), nn.Conv2d(16, 16, 3, 2, 1), Block(32, 8)
            self.norm, self.own, self.other = nn.GroupNorm(4, 16), Attention(16, 2), nn.MultiheadAttention(16, 2, batch_first=True, kdim=12, vdim=12)

        def forward(self, x, t, text):
            waves = t[:, None].float() * torch.exp(-math.log(10000.0) * torch.arange(8) / 8)
            time = self.time(torch.cat([waves.cos(), waves.sin()], -1))
            large = self.down(self.first(x), time)
            h = self.smaller(large)
            y = self.norm(h).flatten(2).transpose(1, 2)
            y = y + self.own(y)
            y = y + self.other(y, text, text, need_weights=False)[0]
            h = F.interpolate(h + y.transpose(1, 2).reshape(h.shape), scale_factor=2.0, mode="nearest")
            return self.last(F.silu(self.up(torch.cat([h, large], 1), time)))
    return Net(), [torch.randn(2, 3, 16, 16), torch.tensor([3, 77]), torch.randn(2, 5, 12)], {}


@kind
def waves():
    """Gated convolutions of growing reach, over a sound of any length."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv1d(1, 8, 1)
            self.gates = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(4)])
            self.keep, self.skip = (nn.ModuleList([nn.Conv1d(8, o, 1) for _ in range(4)]) for o in (8, 12))
            self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(12, 12, 1), nn.ReLU(), nn.Conv1d(12, 20, 1))

        def forward(self, x):
            x, total = self.first(x), 0
            for k, (gate, keep, skip) in enumerate(zip(self.gates, self.keep, self.skip)):
                a, b = gate(F.pad(x, (2**k, 0))).chunk(2, 1)
                g = torch.tanh(a) * torch.sigmoid(b)
                total, x = total + skip(g), x + keep(g)
            return F.log_softmax(self.last(total), 1)
    return Net(), [torch.randn(2, 1, 40)], {"x0": {0: "batch", 2: "time"}}


@kind
def experts():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up, self.down = nn.Linear(8, 4), nn.Parameter(0.3 * torch.randn(4, 8, 16)), nn.Parameter(0.3 * torch.randn(4, 16, 8))

        def forward(self, x):
            p = self.gate(x).softmax(-1)
            v, i = p.topk(2, -1)
            part = torch.zeros_like(p).scatter(-1, i, v / v.sum(-1, keepdim=True))
            y = torch.einsum("teh,ehd->ted", F.silu(torch.einsum("td,edh->teh", x, self.up)), self.down)
            return torch.einsum("ted,te->td", y, part), i, F.one_hot(i, 4).sum((0, 1))
    return Net(), [torch.randn(6, 8)], {}


@kind
def transducer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.sounds, self.words, self.said = nn.LSTM(10, 16, batch_first=True), nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True)
            self.a, self.b, self.out = nn.Linear(16, 20), nn.Linear(16, 20, bias=False), nn.Linear(20, 12)

        def forward(self, x, y):
            said, state = self.said(self.words(y))
            joint = torch.tanh(self.a(self.sounds(x)[0])[:, :, None] + self.b(said)[:, None])
            return F.log_softmax(self.out(joint), -1), state
    return Net(), [torch.randn(2, 7, 10), torch.randint(0, 12, (2, 4))], {}


@kind
def bags():
    """Rows of a table added up in bags of several lengths."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.EmbeddingBag(20, 6, mode="mean"), nn.Linear(6, 3)

        def forward(self, ids, offsets):
            return self.head(self.table(ids, offsets))
    return Net(), [torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 4])], {}


@kind
def graph():
    """What comes over the edges of a graph, weighed and added up at the nodes."""
    class Layer(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.own, self.edge = nn.Linear(i, o), nn.Linear(2 * o, 1)

        def forward(self, x, edges):
            h, a, b = self.own(x), edges[0], edges[1]
            w = F.leaky_relu(self.edge(torch.cat([h[a], h[b]], -1)), 0.2).squeeze(-1).exp()
            total = torch.zeros(x.shape[0]).scatter_add(0, b, w)
            messages = h[a] * (w / total[b].clamp(min=1e-9))[:, None]
            return torch.zeros_like(h).scatter_add(0, b[:, None].expand(-1, h.shape[1]), messages)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Layer(5, 8), Layer(8, 3)

        def forward(self, x, edges):
            return self.b(F.elu(self.a(x, edges)), edges)
    return Net(), [torch.randn(6, 5), torch.tensor([[0, 1, 2, 3, 4, 5, 0, 3], [1, 2, 3, 4, 5, 0, 3, 0]])], {}


@kind
def turned_places():
    """Heads that share keys, places as turns, and a gate in front of the product; any batch and length."""
    class Block(nn.Module):
        def __init__(self, d=32, heads=4, shared=2):
            super().__init__()
            self.heads, self.shared, self.width = heads, shared, d // heads
            self.q, self.kv, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * shared * d // heads, bias=False), nn.Linear(d, d, bias=False)
            self.gate, self.up, self.down = nn.Linear(d, 2 * d, bias=False), nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False)
            self.scales = nn.Parameter(torch.ones(2, d))

        def norm(self, x, k):
            return self.scales[k] * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

        def forward(self, x, cos, sin):
            b, t, d = x.shape
            y = self.norm(x, 0)
            q = self.q(y).view(b, t, self.heads, self.width).transpose(1, 2)
            k, v = self.kv(y).view(b, t, 2 * self.shared, self.width).transpose(1, 2).chunk(2, 1)
            q, k = (z * cos + torch.cat([-z[..., self.width // 2:], z[..., :self.width // 2]], -1) * sin for z in (q, k))
            k, v = (z[:, :, None].expand(b, self.shared, self.heads // self.shared, t, self.width).reshape(b, self.heads, t, self.width) for z in (k, v))
            x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
            y = self.norm(x, 1)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layers = nn.Embedding(40, 32), nn.ModuleList([Block() for _ in range(2)])

        def forward(self, ids):
            angle = torch.outer(torch.arange(ids.shape[1]).float(), 10000 ** -(torch.arange(0, 8, 2).float() / 8))
            angle, x = torch.cat([angle, angle], -1), self.words(ids)
            for layer in self.layers:
                x = layer(x, angle.cos(), angle.sin())
            return x @ self.words.weight.t()
    return Net(), [torch.randint(0, 40, (2, 6))], {"x0": {0: "batch", 1: "length"}}


@kind
def states():
    """A state that every step changes by what it sees."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.conv, self.last = nn.Linear(6, 16), nn.Conv1d(8, 8, 3, padding=2, groups=8), nn.Linear(8, 6)
            self.step, self.into, self.out, self.decay = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4), nn.Parameter(torch.rand(8, 4))

        def forward(self, x):
            u, gate = self.first(x).chunk(2, -1)
            u = F.silu(self.conv(u.transpose(1, 2))[:, :, :x.shape[1]]).transpose(1, 2)
            step = F.softplus(self.step(u))
            keep, new = torch.exp(-step[..., None] * self.decay.exp()), step[..., None] * self.into(u)[:, :, None] * u[..., None]
            h, rows = torch.zeros(x.shape[0], 8, 4), []
            for k in range(x.shape[1]):
                h = keep[:, k] * h + new[:, k]
                rows.append((h * self.out(u)[:, k, None]).sum(-1))
            return self.last(torch.stack(rows, 1) * F.silu(gate))
    return Net(), [torch.randn(2, 5, 6)], {}
