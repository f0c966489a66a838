"""An IR network as ONNX: onnx_net.py NET.yir WEIGHTS.safetensors OUT.onnx [OUTPUT...]

Each op becomes what exporters write for it (SiLU as Sigmoid and Mul, space to depth as strided slices), so that the
optimisers of the runtimes meet what they know.
"""

import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import ir
import onnx_heads

OPSET, IR_VERSION = 20, 9


class Builder:
    """Nodes and constants in the making; values go by their names."""

    def __init__(self, net, weights):
        self.shape = {name: t.dims for name, t in ir.shapes(net).items()}
        self.weights = weights
        self.nodes, self.constants, self.count = [], {}, 0
        self.headed = {}  # attention scores as [n,areas,heads,queries,keys]: their IR shape
        self.eps = {}     # moments: their epsilon
        self.ranked, self.places = {}, {}  # ranks: of what; orders: as whole numbers
        self.make = helper.make_node

    def const(self, array):
        array = numpy.asarray(array)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def weight(self, ref):
        self.constants[ref] = self.weights[ref]
        return ref

    def node(self, op_type, *inputs, to=None, **attrs):
        if to is None:
            self.count += 1
            to = f"t{self.count}"
        if "to_type" in attrs:
            attrs["to"] = attrs.pop("to_type")
        self.nodes.append(helper.make_node(op_type, list(inputs), [to], **attrs))
        return to

    def floats(self, *values):
        return self.const(numpy.array(values, numpy.float32).reshape(() if len(values) == 1 else -1))

    def ints(self, *values):
        return self.const(numpy.array(values, numpy.int64))

    def reshape(self, x, *dims, to=None):
        return self.node("Reshape", x, self.ints(*dims), to=to)

    def cut(self, x, axis, start, end, step=1, to=None):
        return self.node("Slice", x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step), to=to)

    def distances(self, x, bins):
        """[n,4,cells]: expectation over the bins of each side of a [n,4*bins,h,w]."""
        n, _, h, w = self.shape[x]
        dist = self.reshape(x, n, 4, bins, h * w)
        if bins > 1:
            share = self.node("Softmax", self.node("Transpose", dist, perm=[0, 2, 1, 3]), axis=1)
            weight = self.const(numpy.arange(bins, dtype=numpy.float32).reshape(1, bins, 1, 1))
            dist = self.node("Conv", share, weight)
        return self.reshape(dist, n, 4, h * w)

    def give(self, x, name):
        """A value as an output, in its IR shape."""
        if x in self.headed:
            self.reshape(self.node("Transpose", x, perm=[0, 1, 3, 2, 4]), *self.headed[x], to=name)
        else:
            self.node("Identity", x, to=name)


def _plain(op_type, **attrs):
    return lambda b, op, x: b.node(op_type, *x, to=op.result, **attrs)


def _conv2d(b, op, x):
    a = op.attrs
    inputs = [x[0]] + [b.weight(w) for w in x[1:]]
    b.node("Conv", *inputs, to=op.result, strides=a["stride"], pads=a["pad"], dilations=a["dil"], group=a["groups"])


def _batchnorm(b, op, x):
    b.node("BatchNormalization", x[0], *[b.weight(w) for w in x[1:]], to=op.result, epsilon=op.attrs["eps"])


def _silu(b, op, x):
    b.node("Mul", x[0], b.node("Sigmoid", x[0]), to=op.result)


def _relu6(b, op, x):
    b.node("Clip", x[0], b.floats(0), b.floats(6), to=op.result)


def _slice(b, op, x):
    a = op.attrs
    b.cut(x[0], a["axis"], a["start"], a["start"] + a["count"], to=op.result)


def _upsample(b, op, x):
    factor = float(op.attrs["factor"])
    b.node("Resize", x[0], "", b.floats(1, 1, factor, factor), to=op.result, mode="nearest",
           coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def _pad(b, op, x):
    top, left, bottom, right = op.attrs["pad"]
    b.node("Pad", x[0], b.ints(0, 0, top, left, 0, 0, bottom, right), b.floats(op.attrs["value"]), to=op.result)


def _s2d(b, op, x):
    factor, (_, _, h, w) = op.attrs["factor"], b.shape[x[0]]
    parts = []
    for column in range(factor):
        for row in range(factor):
            rows = b.cut(x[0], 2, row, h, factor)
            parts.append(b.cut(rows, 3, column, w, factor))
    b.node("Concat", *parts, to=op.result, axis=1)


def _pool(op_type, **attrs):
    def emit(b, op, x):
        a = op.attrs
        b.node(op_type, x[0], to=op.result, kernel_shape=a["kernel"], strides=a["stride"], pads=a["pad"], **attrs)
    return emit


def _flatten(b, op, x):
    b.reshape(x[0], *op.type.dims, to=op.result)


def _deconv2d(b, op, x):
    a = op.attrs
    b.node("ConvTranspose", x[0], *[b.weight(w) for w in x[1:]], to=op.result, strides=a["stride"], pads=a["pad"] * 2,
           output_padding=a["grow"], group=a["groups"])


def _lse(b, op, x):
    b.node("ReduceLogSumExp", x[0], b.ints(op.attrs["axis"]), to=op.result, keepdims=1)
    _stays_headed(b, op, x)


def _softmax(b, op, x):
    b.node("Softmax", x[0], to=op.result, axis=op.attrs["axis"])
    _stays_headed(b, op, x)


def _stays_headed(b, op, x):
    if x[0] in b.headed:
        if op.attrs["axis"] != 4:
            raise ir.IrError(f"{op.result}: {op.code} of attention scores along another axis than the keys")
        b.headed[op.result] = op.type.dims


def _heads(b, ref, heads, areas, at, dim, perm):
    """Channels at .. at + dim of each head, first as [n,heads,dim,areas,positions]."""
    n, c, h, w = b.shape[ref]
    x = b.reshape(ref, n, heads, c // heads, areas, h * w // areas)
    if dim != c // heads:
        x = b.cut(x, 2, at, at + dim)
    return b.node("Transpose", x, perm=perm)


def _attn_scores(b, op, x):
    a = op.attrs
    q = _heads(b, x[0], a["heads"], a["areas"], a["qat"], a["dim"], [0, 3, 1, 4, 2])
    k = _heads(b, x[1], a["heads"], a["areas"], a["kat"], a["dim"], [0, 3, 1, 2, 4])
    if a["scale"] != 1:
        q = b.node("Mul", q, b.floats(a["scale"]))
    b.node("MatMul", q, k, to=op.result)
    b.headed[op.result] = op.type.dims


def _attn_mix(b, op, x):
    a = op.attrs
    v = _heads(b, x[1], b.headed[x[0]][3], a["areas"], a["at"], a["dim"], [0, 3, 1, 2, 4])
    mixed = b.node("MatMul", v, b.node("Transpose", x[0], perm=[0, 1, 2, 4, 3]))
    b.reshape(b.node("Transpose", mixed, perm=[0, 2, 3, 1, 4]), *op.type.dims, to=op.result)


def _attn_peak(b, op, x):
    a = op.attrs
    q = _heads(b, x[0], a["heads"], a["areas"], a["qat"], a["dim"], [0, 3, 1, 4, 2])
    k = _heads(b, x[1], a["heads"], a["areas"], a["kat"], a["dim"], [0, 3, 1, 2, 4])
    scores = b.node("Mul", b.node("MatMul", q, k), b.floats(a["scale"]))
    top = b.node("ReduceMax", scores, b.ints(4), keepdims=0)
    b.reshape(b.node("Transpose", top, perm=[0, 2, 1, 3]), *op.type.dims, to=op.result)


HEADED = {"lse", "softmax", "attn_mix"}  # what may read scores


def _dfl_box(b, op, x):
    _, _, h, w = b.shape[x[0]]
    dist = b.distances(x[0], op.attrs["bins"])
    centre = b.const(numpy.stack(ir.cells(h, w))[None] + numpy.float32(0.5))
    low = b.node("Sub", centre, b.cut(dist, 1, 0, 2))
    high = b.node("Add", centre, b.cut(dist, 1, 2, 4))
    if op.attrs["corners"]:
        parts = low, high
    else:
        parts = b.node("Mul", b.node("Add", low, high), b.floats(0.5)), b.node("Sub", high, low)
    box = b.node("Concat", *parts, axis=1)
    b.node("Mul", box, b.floats(op.attrs["stride"]), to=op.result)


def _anchor_rows(b, op, x, to=None):
    n, c, h, w = b.shape[x[0]]
    na = op.attrs["na"]
    return b.node("Transpose", b.reshape(x[0], n, na, c // na, h, w), to=to, perm=[0, 1, 3, 4, 2])


def _anchor_raw(b, op, x):
    _anchor_rows(b, op, x, to=op.result)


def _anchor_box(b, op, x):
    _, _, h, w = b.shape[x[0]]
    na, stride = op.attrs["na"], op.attrs["stride"]
    no, plain = b.shape[x[0]][1] // na, op.attrs["plain"]
    raw = _anchor_rows(b, op, x)
    share = b.node("Sigmoid", raw)
    twice = b.node("Mul", b.cut(share, 4, 0, 4), b.floats(2))
    corner = numpy.stack(ir.cells(h, w), -1).reshape(1, 1, h, w, 2) - numpy.float32(0.5)
    centre = b.node("Mul", b.node("Add", b.cut(twice, 4, 0, 2), b.const(corner)), b.floats(stride))
    side = b.cut(twice, 4, 2, 4)
    anchors = b.const(b.weights[x[1]].reshape(1, na, 1, 1, 2))
    size = b.node("Mul", b.node("Mul", side, side), anchors)
    parts = [centre, size, b.cut(share, 4, 4, no - plain)] + ([b.cut(raw, 4, no - plain, no)] if plain else [])
    rows = b.node("Concat", *parts, axis=4)
    b.reshape(rows, *op.type.dims, to=op.result)


def _x_box(b, op, x):
    n, c, h, w = b.shape[x[0]]
    rows = b.node("Transpose", b.reshape(x[0], n, c, h * w), perm=[0, 2, 1])
    stride = b.floats(op.attrs["stride"])
    grid = b.const(numpy.stack(ir.cells(h, w), -1)[None])
    centre = b.node("Mul", b.node("Add", b.cut(rows, 2, 0, 2), grid), stride)
    size = b.node("Mul", b.node("Exp", b.cut(rows, 2, 2, 4)), stride)
    b.node("Concat", centre, size, b.cut(rows, 2, 4, c), to=op.result, axis=2)


EMIT = {
    "conv2d": _conv2d, "batchnorm": _batchnorm, "silu": _silu, "relu": _plain("Relu"), "relu6": _relu6,
    "leaky": lambda b, op, x: b.node("LeakyRelu", x[0], to=op.result, alpha=op.attrs["slope"]),
    "elu": lambda b, op, x: b.node("Elu", x[0], to=op.result, alpha=op.attrs["slope"]),
    "sigmoid": _plain("Sigmoid"), "hardswish": _plain("HardSwish"), "tanh": _plain("Tanh"), "gelu": _plain("Gelu"),
    "hardsigmoid": _plain("HardSigmoid", alpha=1 / 6, beta=0.5), "mish": _plain("Mish"),
    "add": _plain("Add"), "mul": _plain("Mul"),
    "concat": lambda b, op, x: b.node("Concat", *x, to=op.result, axis=op.attrs["axis"]),
    "slice": _slice, "upsample": _upsample, "pad": _pad, "s2d": _s2d, "flatten": _flatten,
    "maxpool": _pool("MaxPool"), "avgpool": _pool("AveragePool", count_include_pad=1),
    **onnx_heads.EMIT, "attn_peak": _attn_peak,
    "deconv2d": _deconv2d, "lse": _lse, "softmax": _softmax, "attn_scores": _attn_scores, "attn_mix": _attn_mix,
    "dfl_box": _dfl_box, "anchor_raw": _anchor_raw, "anchor_box": _anchor_box, "x_box": _x_box,
}


def build(net, weights, outputs):
    """The ONNX model that gives these outputs, under their names."""
    b = Builder(net, weights)
    for op in ir.needed(net, outputs):
        if op.code not in EMIT:
            raise ir.IrError(f"{op.result}: the bench has no ONNX for {op.code}")
        if b.headed.keys() & op.inputs and op.code not in HEADED:
            raise ir.IrError(f"{op.result}: {op.code} of attention scores")
        EMIT[op.code](b, op, op.inputs)
    for name in outputs:
        b.give(net.outputs[name], name)

    def info(name, type_):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, type_.dims)

    ends = ir.shapes(net)
    graph = helper.make_graph(
        b.nodes, net.name or "net", [info(name, t) for name, t in net.inputs.items()],
        [info(name, ends[net.outputs[name]]) for name in outputs],
        [numpy_helper.from_array(numpy.ascontiguousarray(a), name) for name, a in b.constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


def main(argv):
    if len(argv) < 4:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    net, weights = ir.load(argv[1], argv[2])
    onnx.save(build(net, weights, argv[4:] or list(net.outputs)), argv[3])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
