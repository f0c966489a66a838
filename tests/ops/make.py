#!/usr/bin/env python3
"""Writes tests/ops/cases.json: one-op networks, random inputs and weights, and results computed here in double
precision with plain loops, from the definitions in ir/ops.def and not from the emitters. Run it again after adding an op:
    python3 tests/ops/make.py > tests/ops/cases.json
"""
import json
import math
import random
import struct

rng = random.Random(20240229)


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def rand(n, scale=1.0):
    """Multiples of scale/512: exact in float, and short to write."""
    return [rng.randint(-512, 512) * scale / 512 for _ in range(n)]


def numel(shape):
    return math.prod(shape)


class T:
    """A dense row-major tensor."""

    def __init__(self, shape, data):
        assert len(data) == numel(shape)
        self.shape, self.data = list(shape), data

    def at(self, *ix):
        k = 0
        for d, i in zip(self.shape, ix):
            assert 0 <= i < d
            k = k * d + i
        return self.data[k]


def build(shape, fn):
    """Tensor whose element at an index is fn(*index)."""
    def rows(prefix):
        if len(prefix) == len(shape):
            yield fn(*prefix)
            return
        for i in range(shape[len(prefix)]):
            yield from rows(prefix + (i,))
    return T(shape, list(rows(())))


def same(fn):
    return lambda x: T(x.shape, [fn(v) for v in x.data])


def sigmoid(v):
    return 1 / (1 + math.exp(-v)) if v > -700 else 0.0


def clamp6(v):
    return min(max(v, 0), 6)


POINTWISE = {
    "silu": lambda v: v * sigmoid(v),
    "relu": lambda v: max(v, 0.0),
    "relu6": clamp6,
    "sigmoid": sigmoid,
    "hardswish": lambda v: v * clamp6(v + 3) / 6,
    "hardsigmoid": lambda v: clamp6(v + 3) / 6,
    "tanh": math.tanh,
    "gelu": lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))),
    "mish": lambda v: v * math.tanh(math.log1p(math.exp(v))) if v < 30 else v,
}


def conv2d(x, w, bias, stride=(1, 1), pad=(0, 0, 0, 0), dil=(1, 1), groups=1):
    n, ci, h, wd = x.shape
    co, cg, kh, kw = w.shape
    oh = (h + pad[0] + pad[2] - dil[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (wd + pad[1] + pad[3] - dil[1] * (kw - 1) - 1) // stride[1] + 1

    def element(b, o, y, q):
        acc = bias[o] if bias else 0.0
        for c in range(cg):
            src = o // (co // groups) * cg + c
            for r in range(kh):
                for t in range(kw):
                    yy, xx = y * stride[0] - pad[0] + r * dil[0], q * stride[1] - pad[1] + t * dil[1]
                    if 0 <= yy < h and 0 <= xx < wd:
                        acc += x.at(b, src, yy, xx) * w.at(o, c, r, t)
        return acc
    return build((n, co, oh, ow), element)


def pool(x, kind, kernel, stride=(1, 1), pad=(0, 0, 0, 0)):
    n, c, h, w = x.shape
    oh = (h + pad[0] + pad[2] - kernel[0]) // stride[0] + 1
    ow = (w + pad[1] + pad[3] - kernel[1]) // stride[1] + 1

    def element(b, ch, y, q):
        seen = []
        for r in range(kernel[0]):
            for t in range(kernel[1]):
                yy, xx = y * stride[0] - pad[0] + r, q * stride[1] - pad[1] + t
                if 0 <= yy < h and 0 <= xx < w:
                    seen.append(x.at(b, ch, yy, xx))
        return max(seen) if kind == "max" else sum(seen) / (kernel[0] * kernel[1])
    return build((n, c, oh, ow), element)


def dfl_box(x, bins, stride, corners=False):
    n, _, h, w = x.shape

    def dist(b, side, y, q):
        v = [x.at(b, side * bins + i, y, q) for i in range(bins)]
        if bins == 1:
            return v[0]
        m = max(v)
        e = [math.exp(a - m) for a in v]
        return sum(i * a for i, a in enumerate(e)) / sum(e)

    def element(b, k, p):
        y, q = divmod(p, w)
        left, top, right, bottom = (dist(b, s, y, q) for s in range(4))
        px, py = q + 0.5, y + 0.5
        x1, y1, x2, y2 = px - left, py - top, px + right, py + bottom
        if corners:
            return (x1, y1, x2, y2)[k] * stride
        return ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)[k] * stride
    return build((n, 4, h * w), element)


def anchor_box(x, anchors, na, stride, plain=0):
    n, ch, h, w = x.shape
    no = ch // na

    def element(b, row, k):
        a, p = divmod(row, h * w)
        y, q = divmod(p, w)
        s = sigmoid(x.at(b, a * no + k, y, q))
        if k == 0:
            return (2 * s + q - 0.5) * stride
        if k == 1:
            return (2 * s + y - 0.5) * stride
        if k in (2, 3):
            return (2 * s) ** 2 * anchors[2 * a + k - 2]
        return s if k < no - plain else x.at(b, a * no + k, y, q)
    return build((n, na * h * w, no), element)


def x_box(x, stride):
    n, ch, h, w = x.shape

    def element(b, row, k):
        y, q = divmod(row, w)
        v = x.at(b, k, y, q)
        return ((v + q) * stride, (v + y) * stride, math.exp(v) * stride, math.exp(v) * stride)[k] if k < 4 else v
    return build((n, h * w, ch), element)


cases = []


def shape_text(s):
    return "f32[" + ",".join(map(str, s)) + "]"


def typed(t):
    return shape_text(t.shape) + (" nchw" if len(t.shape) == 4 else "")


def case(op, note, x, weights, lines, result):
    """lines: op lines after the declarations, with their types; the last one is the output."""
    ir = [f"in %x : {typed(x)}"]
    for name, t in weights.items():
        ir.append(f"w ${name} : {shape_text(t.shape)}" + (" oihw" if len(t.shape) == 4 else ""))
    ir += lines
    ir.append(f"out y = %{len(lines)}")
    cases.append({"op": op, "note": note, "ir": "\n".join(ir) + "\n", "x": x.data,
                  "weights": {k: t.data for k, t in weights.items()}, "y": result.data})


def tensor(shape, scale=1.0):
    return T(shape, rand(numel(shape), scale))


def pointwise():
    for name, fn in POINTWISE.items():
        for shape in ((1, 19, 3, 5), (2, 3, 2, 2)):
            x = tensor(shape, 8.0)
            x.data[:4] = [0.0, -30.0, 30.0, -0.0009765625]
            y = same(fn)(x)
            case(name, f"{shape}", x, {}, [f"%1 = {name} %x : {typed(x)}"], y)
    for name in ("leaky", "elu"):
        x = tensor((1, 17, 2, 3), 4.0)
        slope = 0.1
        fn = (lambda v: v if v > 0 else f32(slope) * v) if name == "leaky" else (lambda v: v if v > 0 else f32(slope) * math.expm1(v))
        case(name, "slope 0.1", x, {}, [f"%1 = {name} %x {{slope=0.100000001}} : {typed(x)}"], same(fn)(x))
    x = tensor((2, 34, 2, 3))
    for name, fn in (("add", lambda a, b: a + b), ("mul", lambda a, b: a * b)):
        y = build((2, 17, 2, 3), lambda b, c, i, j: fn(x.at(b, c, i, j), x.at(b, 17 + c, i, j)))
        part = shape_text(y.shape) + " nchw"
        case(name, "two halves", x, {}, [f"%1 = slice %x {{count=17}} : {part}", f"%2 = slice %x {{start=17 count=17}} : {part}",
                                         f"%3 = {name} %1, %2 : {part}"], y)
    x = tensor((2, 21, 3, 2))
    g, b, m = tensor((21,)), tensor((21,)), tensor((21,))
    v = T((21,), [abs(a) + 0.125 for a in rand(21)])
    eps = f32(1e-3)
    y = build(x.shape, lambda n, c, i, j: (x.at(n, c, i, j) - m.at(c)) / math.sqrt(v.at(c) + eps) * g.at(c) + b.at(c))
    case("batchnorm", "eps 1e-3", x, {"g": g, "b": b, "m": m, "v": v},
         [f"%1 = batchnorm %x, $g, $b, $m, $v {{eps=0.00100000005}} : {typed(x)}"], y)


def contract():
    rows = [  # n, ci, h, w, co, kh, kw, stride, pad, dil, groups, bias
        (1, 3, 7, 9, 16, 3, 3, (2, 2), (1, 1, 1, 1), (1, 1), 1, True),
        (2, 16, 5, 7, 40, 1, 1, (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
        (1, 5, 6, 6, 33, 3, 3, (1, 1), (1, 1, 1, 1), (1, 1), 1, False),
        (1, 32, 4, 13, 48, 3, 3, (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
        (1, 7, 11, 5, 19, 5, 3, (2, 1), (2, 0, 1, 1), (1, 1), 1, True),
        (1, 6, 8, 9, 16, 6, 6, (2, 2), (2, 2, 2, 2), (1, 1), 1, False),
        (1, 8, 9, 9, 17, 3, 3, (1, 1), (2, 2, 2, 2), (2, 2), 1, True),
        (1, 18, 5, 6, 18, 3, 3, (1, 1), (1, 1, 1, 1), (1, 1), 18, True),
        (2, 33, 7, 6, 33, 5, 5, (2, 2), (2, 2, 2, 2), (1, 1), 33, False),
        (1, 12, 5, 5, 8, 3, 3, (1, 1), (1, 1, 1, 1), (1, 1), 4, True),
        (1, 4, 1, 1, 1, 1, 1, (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
    ]
    for n, ci, h, w, co, kh, kw, stride, pad, dil, groups, bias in rows:
        x, k = tensor((n, ci, h, w)), tensor((co, ci // groups, kh, kw))
        b = tensor((co,)) if bias else None
        y = conv2d(x, k, b.data if b else None, stride, pad, dil, groups)
        attr = [f"{a}={','.join(map(str, v))}" for a, v, d in (("stride", stride, (1, 1)), ("pad", pad, (0,) * 4), ("dil", dil, (1, 1)))
                if v != d]
        if groups != 1:
            attr.append(f"groups={groups}")
        text = " {" + " ".join(attr) + "}" if attr else ""
        weights = {"k": k, "b": b} if b else {"k": k}
        case("conv2d", f"{ci}-{co} k{kh}x{kw} s{stride} g{groups}", x, weights,
             [f"%1 = conv2d %x, $k{', $b' if b else ''}{text} : {typed(y)}"], y)
        if groups == 1 and kh == 3 and stride == (1, 1) and dil == (1, 1):
            z = same(POINTWISE["silu"])(y)
            case("conv2d", f"{ci}-{co} with silu", x, weights,
                 [f"%1 = conv2d %x, $k{', $b' if b else ''}{text} : {typed(y)}", f"%2 = silu %1 : {typed(z)}"], z)


def moves():
    x = tensor((2, 20, 4, 6))
    y = build((2, 21, 4, 6), lambda b, c, i, j: x.at(b, 3 + c if c < 17 else c - 17, i, j))
    case("concat", "channels", x, {}, [f"%1 = slice %x {{start=3 count=17}} : f32[2,17,4,6] nchw",
                                       f"%2 = slice %x {{count=4}} : f32[2,4,4,6] nchw", f"%3 = concat %1, %2 : {typed(y)}"], y)
    y = build((2, 20, 8, 6), lambda b, c, i, j: x.at(b, c, i % 4, j))
    case("concat", "rows", x, {}, [f"%1 = concat %x, %x {{axis=2}} : {typed(y)}"], y)
    y = build((2, 20, 2, 6), lambda b, c, i, j: x.at(b, c, i + 1, j))
    case("slice", "rows", x, {}, [f"%1 = slice %x {{axis=2 start=1 count=2}} : {typed(y)}"], y)
    y = build((2, 5, 4, 6), lambda b, c, i, j: x.at(b, c + 7, i, j))
    case("slice", "channels", x, {}, [f"%1 = slice %x {{start=7 count=5}} : {typed(y)}"], y)
    for factor in (2, 3):
        y = build((2, 20, 4 * factor, 6 * factor), lambda b, c, i, j: x.at(b, c, i // factor, j // factor))
        attr = "" if factor == 2 else " {factor=3}"
        case("upsample", f"by {factor}", x, {}, [f"%1 = upsample %x{attr} : {typed(y)}"], y)
    pad, value = (1, 0, 2, 3), 0.5
    y = build((2, 20, 7, 9), lambda b, c, i, j: x.at(b, c, i - 1, j) if 1 <= i < 5 and j < 6 else value)
    case("pad", "value 0.5", x, {}, [f"%1 = pad %x {{pad=1,0,2,3 value=0.5}} : {typed(y)}"], y)
    y = build((2, 80, 2, 3), lambda b, c, i, j: x.at(b, c % 20, 2 * i + c // 20 % 2, 2 * j + c // 40))
    case("s2d", "focus", x, {}, [f"%1 = s2d %x : {typed(y)}"], y)
    y = build((2, 20, 24), lambda b, c, p: x.at(b, c, p // 6, p % 6))
    case("flatten", "map", x, {}, [f"%1 = flatten %x : {typed(y)}"], y)
    case("cast", "layout there and back", x, {}, [f"%1 = cast %x {{layout=nhwc}} : f32[2,20,4,6] nhwc",
                                                  f"%2 = cast %1 {{layout=nchw}} : {typed(x)}"], x)


def edges():
    x = T((2, 4, 5, 3), [float(rng.randint(0, 255)) for _ in range(120)])
    for div, bgr in ((255, 0), (1, 1)):
        y = build((2, 3, 4, 5), lambda b, c, i, j: x.at(b, i, j, 2 - c if bgr else c) / div)
        attr = "{div=1 bgr=1}" if bgr else ""
        case("image", f"div {div} bgr {bgr}", x, {}, [f"%1 = image %x {attr}{' ' if attr else ''}: f32[2,3,4,5] nhwc",
                                                      "%2 = cast %1 {layout=nchw} : f32[2,3,4,5] nchw"], y)
        cases[-1]["ir"] = cases[-1]["ir"].replace("in %x : f32", "in %x : u8")


def windows():
    x = tensor((2, 18, 7, 6))
    for kernel, stride, pad in (((5, 5), (1, 1), (2, 2, 2, 2)), ((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 2), (2, 1), (1, 0, 1, 1))):
        attr = f"kernel={kernel[0]},{kernel[1]}"
        attr += f" stride={stride[0]},{stride[1]}" if stride != (1, 1) else ""
        attr += f" pad={','.join(map(str, pad))}" if any(pad) else ""
        for op, kind in (("maxpool", "max"), ("avgpool", "avg")):
            y = pool(x, kind, kernel, stride, pad)
            case(op, attr, x, {}, [f"%1 = {op} %x {{{attr}}} : {typed(y)}"], y)


def place(t, p):
    return divmod(p, t.shape[3])


def case2(op, note, inputs, weights, lines, result):
    """A case of several operands that come out of one input map: slices of its channels."""
    n, _, h, w = inputs[0].shape
    assert all(t.shape[0] == n and t.shape[2:] == [h, w] for t in inputs)
    channels = [t.shape[1] for t in inputs]
    joined = build((n, sum(channels), h, w), lambda b, c, i, j: inputs[which(channels, c)[0]].at(b, which(channels, c)[1], i, j))
    head, start = [], 0
    for k, c in enumerate(channels):
        head.append(f"%{k + 1} = slice %x {{{f'start={start} ' if start else ''}count={c}}} : {shape_text((n, c, h, w))} nchw")
        start += c
    case(op, note, joined, weights, head + lines, result)


def which(channels, c):
    for k, n in enumerate(channels):
        if c < n:
            return k, c
        c -= n
    raise ValueError


def deconv(x, w, bias, stride, pad, grow, groups):
    """Scatters each input element, as a transposed convolution is defined."""
    n, ci, h, wd = x.shape
    _, cg, kh, kw = w.shape
    oh, ow = (h - 1) * stride[0] + kh - 2 * pad[0] + grow[0], (wd - 1) * stride[1] + kw - 2 * pad[1] + grow[1]
    out = {}
    for b in range(n):
        for c in range(ci):
            for i in range(h):
                for j in range(wd):
                    for o in range(cg):
                        for r in range(kh):
                            for t in range(kw):
                                key = (b, c // (ci // groups) * cg + o, i * stride[0] + r - pad[0], j * stride[1] + t - pad[1])
                                out[key] = out.get(key, 0.0) + x.at(b, c, i, j) * w.at(c, o, r, t)
    return build((n, cg * groups, oh, ow), lambda b, o, i, j: out.get((b, o, i, j), 0.0) + (bias[o] if bias else 0.0))


def attention(q, k, heads, dim, qat=0, kat=0, areas=1, scale=1.0):
    """scores[b][y][x][head][key]"""
    n, cq, h, w = q.shape
    ck, lk = k.shape[1], k.shape[2] * k.shape[3] // areas

    def element(b, y, x, head, j):
        area = (y * w + x) // (h * w // areas)
        ky, kx = place(k, area * lk + j)
        return scale * sum(q.at(b, head * (cq // heads) + qat + d, y, x) * k.at(b, head * (ck // heads) + kat + d, ky, kx)
                           for d in range(dim))
    return build((n, h, w, heads, lk), element)


def mixed(s, v, dim, at=0, areas=1):
    n, h, w, heads, lk = s.shape

    def element(b, c, y, x):
        area = (y * w + x) // (h * w // areas)
        head, d = divmod(c, dim)
        total = 0.0
        for j in range(lk):
            ky, kx = place(v, area * lk + j)
            total += s.at(b, y, x, head, j) * v.at(b, head * (v.shape[1] // heads) + at + d, ky, kx)
        return total
    return build((n, heads * dim, h, w), element)


def softened(s):
    """Softmax over the last of five dimensions."""
    def weight(b, i, j, h, k):
        row = [s.at(b, i, j, h, m) for m in range(s.shape[4])]
        return math.exp(s.at(b, i, j, h, k) - max(row)) / sum(math.exp(v - max(row)) for v in row)
    return build(s.shape, weight)


def whole_attentions():
    q = tensor((2, 10, 4, 3), 3.0)
    t = build((2, 10, 12, 1), lambda b, c, p, _: q.at(b, c, p // 3, p % 3))
    v = mixed(softened(attention(q, q, heads=2, dim=3, qat=1, kat=2, areas=2, scale=0.5)), q, 2, 3, 2)
    case("attention", "two heads, two areas", q, {},
         [f"%1 = attention %x, %x, %x {{heads=2 dim=3 qat=1 kat=2 areas=2 scale=0.5 values=2 vat=3}} : {typed(v)}"], v)
    v = mixed(softened(attention(q, t, 1, 10)), t, 7, 1)
    case("attention", "keys as tokens", q, {}, [f"%1 = tokens %x : {typed(t)}",
                                                f"%2 = attention %x, %1, %1 {{dim=10 values=7 vat=1}} : {typed(v)}"], v)


def attentions():
    q = tensor((2, 10, 4, 3))
    attrs = dict(heads=2, dim=3, qat=1, kat=2, areas=2, scale=0.5)
    y = attention(q, q, **attrs)
    text = "{heads=2 dim=3 qat=1 kat=2 areas=2 scale=0.5}"
    case("attn_scores", "two heads, two areas", q, {}, [f"%1 = attn_scores %x, %x {text} : {typed(y)}"], y)
    peak = build((2, 2, 4, 3), lambda b, head, i, j: max(y.at(b, i, j, head, k) for k in range(6)))
    case("attn_peak", "two heads, two areas", q, {}, [f"%1 = attn_peak %x, %x {text} : {typed(peak)}"], peak)
    t = build((2, 10, 12, 1), lambda b, c, p, _: q.at(b, c, p // 3, p % 3))
    y1 = attention(q, t, 1, 10)
    case("attn_scores", "keys as tokens", q, {}, [f"%1 = tokens %x : {typed(t)}",
                                                  f"%2 = attn_scores %x, %1 {{dim=10}} : {typed(y1)}"], y1)
    v = mixed(y, q, 2, 3, 2)
    case("attn_mix", "two heads, two areas", q, {}, [f"%1 = attn_scores %x, %x {text} : {typed(y)}",
                                                     f"%2 = attn_mix %1, %x {{dim=2 at=3 areas=2}} : {typed(v)}"], v)
    big = tensor((2, 5, 3, 4), 40.0)
    for axis in (1, 3):
        shape = list(big.shape)
        shape[axis] = 1

        def row(b, c, i, j):
            ix = [b, c, i, j]
            return [big.at(*(ix[:axis] + [k] + ix[axis + 1:])) for k in range(big.shape[axis])]
        lse = build(shape, lambda b, c, i, j: max(row(b, c, i, j)) + math.log(sum(math.exp(e - max(row(b, c, i, j))) for e in row(b, c, i, j))))
        attr = f" {{axis={axis}}}" if axis != 1 else ""
        case("lse", f"axis {axis}", big, {}, [f"%1 = lse %x{attr} : {typed(lse)}"], lse)
        soft = build(big.shape, lambda b, c, i, j: math.exp(big.at(b, c, i, j) - max(row(b, c, i, j))) /
                     sum(math.exp(e - max(row(b, c, i, j))) for e in row(b, c, i, j)))
        case("softmax", f"axis {axis}", big, {}, [f"%1 = lse %x{attr} : {typed(lse)}",
                                                  f"%2 = softmax %x, %1{attr} : {typed(soft)}"], soft)
    x, g, b = tensor((2, 9, 2, 3), 3.0), tensor((9,)), tensor((9,))
    eps = f32(1e-5)

    def moment(n, c, i, j):
        row = [x.at(n, k, i, j) for k in range(9)]
        mean = sum(row) / 9
        return mean if c == 0 else 1 / math.sqrt(sum((e - mean) ** 2 for e in row) / 9 + eps)
    m = build((2, 2, 2, 3), moment)
    line = f"%1 = moments %x {{eps=9.99999975e-06}} : {typed(m)}"
    case("moments", "9 channels", x, {}, [line], m)
    y = build(x.shape, lambda n, c, i, j: (x.at(n, c, i, j) - m.at(n, 0, i, j)) * m.at(n, 1, i, j) * g.at(c) + b.at(c))
    case("layernorm", "9 channels", x, {"g": g, "b": b}, [line, f"%2 = layernorm %x, %1, $g, $b : {typed(y)}"], y)
    y = build((2, 1, 2, 3), lambda n, c, i, j: 1 / math.sqrt(sum(x.at(n, k, i, j) ** 2 for k in range(9))))
    case("rnorm", "9 channels", x, {}, [f"%1 = rnorm %x : {typed(y)}"], y)
    y = build((2, 1, 2, 3), lambda n, c, i, j: max(x.at(n, k, i, j) for k in range(9)))
    case("peak", "9 channels", x, {}, [f"%1 = peak %x : {typed(y)}"], y)
    x, s = tensor((2, 6, 3, 3)), tensor((2, 2, 3, 3))
    y = build(x.shape, lambda n, c, i, j: x.at(n, c, i, j) * s.at(n, c // 3, i, j))
    case2("gate", "two groups", [x, s], {}, [f"%3 = gate %1, %2 : {typed(y)}"], y)
    x, a, c0 = tensor((2, 7, 2, 3)), T((1,), [0.75]), T((1,), [-0.25])
    y = build((2, 6, 2, 3), lambda n, k, i, j: math.exp(0.75) * sum(x.at(n, c, i, j) * x.at(n, c, k // 3, k % 3) for c in range(7)) - 0.25)
    case("contrast", "6 texts", x, {"a": a, "b": c0}, [f"%1 = tokens %x : {shape_text((2, 7, 6, 1))} nchw",
                                                       f"%2 = contrast %x, %1, $a, $b : {typed(y)}"], y)


def sequences():
    x = tensor((2, 12, 2, 3))
    y = build((2, 3, 4, 6), lambda b, c, i, j: x.at(b, (i % 2 * 2 + j % 2) * 3 + c, i // 2, j // 2))
    case("d2s", "by 2", x, {}, [f"%1 = d2s %x : {typed(y)}"], y)
    t = build((2, 12, 6, 1), lambda b, c, p, _: x.at(b, c, p // 3, p % 3))
    case("tokens", "map", x, {}, [f"%1 = tokens %x : {typed(t)}"], t)
    r = build((2, 6, 12), lambda b, p, c: x.at(b, c, p // 3, p % 3))
    case("rows", "map", x, {}, [f"%1 = rows %x : {typed(r)}"], r)
    case("from_rows", "there and back", x, {}, [f"%1 = rows %x : {typed(r)}", f"%2 = from_rows %1 : {shape_text(t.shape)} nhwc",
                                                f"%3 = cast %2 {{layout=nchw}} : {typed(t)}"], t)
    y = build((2, 72), lambda b, k: x.data[b * 72 + k])
    case("ravel", "map", x, {}, [f"%1 = ravel %x : {typed(y)}"], y)
    small = pool(x, "max", (1, 2))
    y = build(x.shape, lambda b, c, i, j: small.at(b, c, i, j * 2 // 3))
    case("nearest", "2 columns to 3", x, {}, [f"%1 = maxpool %x {{kernel=1,2}} : {typed(small)}",
                                              f"%2 = nearest %1, %x : {typed(y)}"], y)
    x = tensor((2, 18, 5, 7))
    y = build((2, 18, 1, 1), lambda b, c, i, j: sum(x.at(b, c, r, t) for r in range(5) for t in range(7)) / 35)
    case("avgmap", "5x7", x, {}, [f"%1 = avgmap %x : {typed(y)}"], y)

    def part(i, size):
        return range(i * size // 3, -((i + 1) * size // -3))
    y = build((2, 18, 3, 3), lambda b, c, i, j: max(x.at(b, c, r, t) for r in part(i, 5) for t in part(j, 7)))
    case("maxbins", "3 of 5x7", x, {}, [f"%1 = maxbins %x {{count=3}} : {typed(y)}"], y)
    x = tensor((1, 9, 3, 4))
    for corners in (0, 1):
        def axis(i, size, factor):
            at = i * (size - 1) / (size * factor - 1) if corners else max((i + 0.5) / factor - 0.5, 0)
            lo = min(int(at), size - 1)
            return lo, min(lo + 1, size - 1), at - lo

        def element(b, c, i, j):
            r0, r1, fr = axis(i, 3, 4)
            t0, t1, ft = axis(j, 4, 4)
            return ((x.at(b, c, r0, t0) * (1 - ft) + x.at(b, c, r0, t1) * ft) * (1 - fr) +
                    (x.at(b, c, r1, t0) * (1 - ft) + x.at(b, c, r1, t1) * ft) * fr)
        y = build((1, 9, 12, 16), element)
        case("bilinear", f"by 4, corners {corners}", x, {},
             [f"%1 = bilinear %x {{factor=4{' corners=1' if corners else ''}}} : {typed(y)}"], y)
    x, w = tensor((1, 16, 3, 5)), T((4,), [1.0, 0.25, 0.0625, 2.0])

    def code(c, i, j):
        which_part, k = divmod(c, 4)
        angle = (i if which_part < 2 else j) * w.data[k]
        return math.cos(angle) if which_part % 2 else math.sin(angle)
    y = build(x.shape, lambda b, c, i, j: x.at(b, c, i, j) + code(c, i, j))
    case("posenc", "16 channels", x, {"w": w}, [f"%1 = posenc %x, $w : {typed(y)}"], y)
    y = same(lambda v: f32(0.3) * v - 1.5)(x)
    case("affine", "0.3 x - 1.5", x, {}, [f"%1 = affine %x {{mul=0.300000012 add=-1.5}} : {typed(y)}"], y)
    x = T((1, 17, 2, 2), [abs(v) for v in rand(68)])
    x.data[:2] = [0.0, 1.0]
    y = same(lambda v: math.log(max(v, 1e-5) / max(1 - v, 1e-5)))(x)
    case("logit", "0 .. 1", x, {}, [f"%1 = logit %x : {typed(y)}"], y)
    x, a, b = tensor((1, 17, 2, 2), 8.0), T((1,), [0.75]), T((1,), [0.125])
    y = same(lambda v: math.exp(0.75 * min(max(v, -4), 5) + 0.125))(x)
    case("depth", "clamped", x, {"a": a, "b": b}, [f"%1 = depth %x, $a, $b : {typed(y)}"], y)
    for ci, cg, k, stride, pad, grow, groups, bias in ((5, 3, 2, (2, 2), (0, 0), (0, 0), 1, True), (6, 2, 3, (2, 1), (1, 1), (1, 0), 2, False),
                                                       (4, 1, 4, (2, 2), (1, 1), (0, 0), 4, True)):
        x, w = tensor((2, ci, 3, 4)), tensor((ci, cg, k, k))
        b = tensor((cg * groups,)) if bias else None
        y = deconv(x, w, b.data if b else None, stride, pad, grow, groups)
        attr = [f"{n}={v[0]},{v[1]}" for n, v, d in (("stride", stride, (1, 1)), ("pad", pad, (0, 0)), ("grow", grow, (0, 0))) if v != d]
        attr += [f"groups={groups}"] if groups > 1 else []
        case("deconv2d", f"{ci} k{k} s{stride} g{groups}", x, {"w": w, "b": b} if b else {"w": w},
             [f"%1 = deconv2d %x, $w{', $b' if b else ''} {{{' '.join(attr)}}} : {typed(y)}"], y)


def queries():
    x = tensor((2, 1, 4, 5))
    x.data[7] = x.data[3]

    def order(b):
        return sorted(range(20), key=lambda p: (-x.data[b * 20 + p], p))
    ranks = build((2, 1, 4, 5), lambda b, c, i, j: float(order(b).index(i * 5 + j)))
    case("rank", "20 places", x, {}, [f"%1 = rank %x : {typed(ranks)}"], ranks)
    places = build((2, 1, 6, 1), lambda b, c, k, _: float(order(b)[k]))
    lines = [f"%1 = rank %x : {typed(ranks)}", f"%2 = order %1 {{count=6}} : {typed(places)}"]
    case("order", "best 6 of 20", x, {}, lines, places)
    z = tensor((2, 3, 4, 5))
    got = build((2, 3, 6, 1), lambda b, c, k, _: z.at(b, c, order(b)[k] // 5, order(b)[k] % 5))
    lines = [f"%3 = rank %1 : {typed(ranks)}", f"%4 = order %3 {{count=6}} : {typed(places)}", f"%5 = gather %2, %4 : {typed(got)}"]
    case2("gather", "best 6 of 20", [x, z], {}, lines, got)
    wild = T((2, 1, 2, 2), [-5.0, 1e9, 2.25, 3.0] * 2)
    got = build((2, 1, 4, 1), lambda b, c, k, _: wild.data[(0, 3, 2, 3)[k]])
    case("gather", "places outside", wild, {}, [f"%1 = tokens %x : {typed(got)}", f"%2 = gather %x, %1 : {typed(got)}"], got)

    def anchors(h, w, side):
        def element(b, c, i, j):
            v = ((j + 0.5) / w, (i + 0.5) / h, side, side)
            return math.log(v[c] / (1 - v[c])) if all(0.01 < e < 0.99 for e in v) else 1e4
        return build((2, 4, h, w), element)
    x = tensor((2, 3, 2, 60))
    side = f32(0.1)
    y = anchors(2, 60, side)
    case("detr_anchor", "rim", x, {}, [f"%1 = detr_anchor %x {{side=0.100000001}} : {typed(y)}"], y)
    v = build(x.shape, lambda b, c, i, j: 0.0 if y.at(b, 0, i, j) == 1e4 else x.at(b, c, i, j))
    case("detr_valid", "rim", x, {}, [f"%1 = detr_valid %x {{side=0.100000001}} : {typed(v)}"], v)
    x = tensor((2, 4, 2, 3))
    y = build((2, 4, 6), lambda b, c, q: (x.at(b, c % 2, q // 3, q % 3) + (0.5 if c > 1 else -0.5) * x.at(b, 2 + c % 2, q // 3, q % 3)) *
              ((3, 2)[c % 2] * 8))
    case("query_box", "6 boxes", x, {}, [f"%1 = tokens %x : {shape_text((2, 4, 6, 1))} nchw", f"%2 = query_box %1, %x {{stride=8}} : {typed(y)}"], y)
    heads_, levels, level, points = 2, 2, 1, 3
    n, h, w = 2, 3, 4
    value, boxes = tensor((n, 4, h, w)), T((n, 4, h, w), [0.5 + v / 2 for v in rand(n * 4 * h * w)])
    offsets, weights = tensor((n, heads_ * levels * points * 2, h, w), 4.0), tensor((n, heads_ * levels * points, h, w))

    def sampled(b, c, y, x):
        def at(i, j):
            return value.at(b, c, i, j) if 0 <= i < h and 0 <= j < w else 0.0
        py, px = y * h - 0.5, x * w - 0.5
        i, j = math.floor(py), math.floor(px)
        fy, fx = py - i, px - j
        return at(i, j) * (1 - fy) * (1 - fx) + at(i, j + 1) * (1 - fy) * fx + at(i + 1, j) * fy * (1 - fx) + at(i + 1, j + 1) * fy * fx

    def element(b, c, q, _):
        i, j = divmod(q, w)
        total = 0.0
        for p in range(points):
            s = (c // 2 * levels + level) * points + p
            cx = boxes.at(b, 0, i, j) + offsets.at(b, 2 * s, i, j) / points * boxes.at(b, 2, i, j) * 0.5
            cy = boxes.at(b, 1, i, j) + offsets.at(b, 2 * s + 1, i, j) / points * boxes.at(b, 3, i, j) * 0.5
            total += sampled(b, c, cy, cx) * weights.at(b, s, i, j)
        return total
    y = build((n, 4, h * w, 1), element)
    tokens = [f"%{k + 5} = tokens %{k + 2} : {shape_text((n, c, h * w, 1))} nchw" for k, c in ((0, 4), (1, 24), (2, 12))]
    case2("deform", "second of two levels", [value, boxes, offsets, weights], {},
          tokens + [f"%8 = deform %1, %5, %6, %7 {{heads=2 levels=2 level=1 points=3}} : {typed(y)}"], y)


def heads():
    x = tensor((2, 16, 2, 3), 4.0)
    y = dfl_box(x, 4, 16.0, True)
    case("dfl_box", "corners", x, {}, [f"%1 = dfl_box %x {{bins=4 stride=16 corners=1}} : {typed(y)}"], y)
    angle = tensor((2, 1, 2, 3), 2.0)

    def turned(b, k, p):
        i, j = divmod(p, 3)
        dist = []
        for side in range(4):
            e = [math.exp(x.at(b, side * 4 + m, i, j)) for m in range(4)]
            dist.append(sum(m * v for m, v in enumerate(e)) / sum(e))
        left, top, right, bottom = dist
        xf, yf, t = (right - left) / 2, (bottom - top) / 2, angle.at(b, 0, i, j)
        return (j + 0.5 + xf * math.cos(t) - yf * math.sin(t), i + 0.5 + xf * math.sin(t) + yf * math.cos(t),
                left + right, top + bottom)[k] * 8
    y = build((2, 4, 6), turned)
    case2("obb_box", "4 bins", [x, angle], {}, [f"%3 = obb_box %1, %2 {{bins=4 stride=8}} : {typed(y)}"], y)
    x = tensor((2, 6, 2, 3), 4.0)
    for dims, scale, shift in ((3, 2.0, 0.0), (2, 1.0, 0.5)):
        def element(b, c, p):
            i, j = divmod(p, 3)
            v = x.at(b, c, i, j)
            if c % dims == 2:
                return sigmoid(v)
            return (scale * v + (i if c % dims else j) + shift) * 32
        y = build((2, 6, 6), element)
        attr = " ".join(([f"dims={dims}"] if dims != 2 else []) + ([f"scale={scale:g}"] if scale != 1 else []) + ([f"shift={shift}"] if shift else []) + ["stride=32"])
        case("points", f"{dims} numbers", x, {}, [f"%1 = points %x {{{attr}}} : {typed(y)}"], y)
    for bins in (16, 1):
        x = tensor((2, 4 * bins, 3, 5), 4.0)
        y = dfl_box(x, bins, 8.0)
        attr = (f"bins={bins} " if bins != 1 else "") + "stride=8"
        case("dfl_box", f"{bins} bins", x, {}, [f"%1 = dfl_box %x {{{attr}}} : {typed(y)}"], y)
    na, nc = 3, 4
    x, a = tensor((2, na * (5 + nc), 3, 2), 3.0), T((3, 2), [10.0, 13.0, 16.0, 30.0, 33.0, 23.0])
    y = anchor_box(x, a.data, na, 16.0)
    case("anchor_box", "3 anchors", x, {"a": a}, [f"%1 = anchor_box %x, $a {{na=3 stride=16}} : {typed(y)}"], y)
    y = anchor_box(x, a.data, na, 16.0, 2)
    case("anchor_box", "2 plain columns", x, {"a": a}, [f"%1 = anchor_box %x, $a {{na=3 stride=16 plain=2}} : {typed(y)}"], y)
    y = build((2, na, 3, 2, 5 + nc), lambda b, k, i, j, o: x.at(b, k * (5 + nc) + o, i, j))
    case("anchor_raw", "3 anchors", x, {}, [f"%1 = anchor_raw %x {{na=3 stride=16}} : {typed(y)}"], y)
    x = tensor((2, 9, 3, 4), 2.0)
    y = x_box(x, 32.0)
    case("x_box", "4 classes", x, {}, [f"%1 = x_box %x {{stride=32}} : {typed(y)}"], y)


pointwise()
contract()
moves()
edges()
windows()
heads()
attentions()
sequences()
queries()
whole_attentions()
print('{"about": "made by tests/ops/make.py; x, weights and y are row-major", "cases": [')
lines = []
for c in cases:
    c["y"] = [float(f"{v:.7g}") for v in c["y"]]
    c["x"] = [float(f"{v:.9g}") for v in c["x"]]
    c["weights"] = {k: [float(f"{v:.9g}") for v in d] for k, d in c["weights"].items()}
    lines.append(json.dumps(c, separators=(",", ":")))
print(",\n".join(lines) + "\n]}")
