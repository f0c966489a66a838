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


def dfl_box(x, bins, stride):
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
        return ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)[k] * stride
    return build((n, 4, h * w), element)


def anchor_box(x, anchors, na, stride):
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
        return s
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


def heads():
    for bins in (16, 1):
        x = tensor((2, 4 * bins, 3, 5), 4.0)
        y = dfl_box(x, bins, 8.0)
        attr = (f"bins={bins} " if bins != 1 else "") + "stride=8"
        case("dfl_box", f"{bins} bins", x, {}, [f"%1 = dfl_box %x {{{attr}}} : {typed(y)}"], y)
    na, nc = 3, 4
    x, a = tensor((2, na * (5 + nc), 3, 2), 3.0), T((3, 2), [10.0, 13.0, 16.0, 30.0, 33.0, 23.0])
    y = anchor_box(x, a.data, na, 16.0)
    case("anchor_box", "3 anchors", x, {"a": a}, [f"%1 = anchor_box %x, $a {{na=3 stride=16}} : {typed(y)}"], y)
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
print('{"about": "made by tests/ops/make.py; x, weights and y are row-major", "cases": [')
lines = []
for c in cases:
    c["y"] = [float(f"{v:.7g}") for v in c["y"]]
    c["x"] = [float(f"{v:.9g}") for v in c["x"]]
    c["weights"] = {k: [float(f"{v:.9g}") for v in d] for k, d in c["weights"].items()}
    lines.append(json.dumps(c, separators=(",", ":")))
print(",\n".join(lines) + "\n]}")
