"""Reads yoloc's IR text (docs/ir.md) and the weights it names, for those who run the network by other means.

The text must be of a form before the pass `layout`: `yoloc opt MODEL --passes foldbn,dce --save-weights W`. Needs numpy.
"""

import dataclasses
import json
import re
import struct
from dataclasses import dataclass

import numpy


class IrError(ValueError):
    """The text is not what the bench can run; the message names the line or the op."""


@dataclass(frozen=True)
class Type:
    dtype: str
    dims: tuple
    layout: str


@dataclass(frozen=True)
class Op:
    result: str  # "%3"
    code: str
    inputs: tuple  # "%3", "%images", "$weight"
    attrs: dict
    type: Type


@dataclass(frozen=True)
class Net:
    name: str
    inputs: dict  # "%images": Type
    weights: dict  # "$model.0.conv.weight": Type
    ops: tuple
    outputs: dict  # name: "%236"


# Attributes with their defaults, which the text leaves out (ir/ops.c).
CONV = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dil": (1, 1), "groups": 1}
POOL = {"kernel": (1, 1), "stride": (1, 1), "pad": (0, 0, 0, 0)}
ANCHOR = {"na": 1, "stride": 1.0, "plain": 0}
ATTRS = {
    "conv2d": CONV,
    "deconv2d": {"stride": (1, 1), "pad": (0, 0), "grow": (0, 0), "groups": 1},
    "batchnorm": {"eps": 0.0},
    "leaky": {"slope": 0.0},
    "elu": {"slope": 0.0},
    "concat": {"axis": 1},
    "slice": {"axis": 1, "start": 0, "count": 0},
    "upsample": {"factor": 2},
    "s2d": {"factor": 2},
    "pad": {"pad": (0, 0, 0, 0), "value": 0.0},
    "maxpool": POOL,
    "avgpool": POOL,
    "dfl_box": {"bins": 1, "stride": 1.0, "corners": 0},
    "anchor_raw": ANCHOR,
    "anchor_box": ANCHOR,
    "x_box": {"stride": 1.0},
    "affine": {"mul": 1.0, "add": 0.0},
    "cast": {"layout": ""},
    "maxbins": {"count": 1},
    "bilinear": {"factor": 2, "corners": 0},
    "moments": {"eps": 0.0},
    "points": {"dims": 2, "scale": 1.0, "shift": 0.0, "stride": 1.0},
    "obb_box": {"bins": 1, "stride": 1.0, "corners": 0},
    "order": {"count": 1},
    "deform": {"heads": 1, "levels": 1, "level": 0, "points": 1},
    "detr_anchor": {"side": 0.0},
    "detr_valid": {"side": 0.0},
    "query_box": {"stride": 1.0},
    "lse": {"axis": 1},
    "softmax": {"axis": 1},
    "attn_scores": {"heads": 1, "dim": 1, "qat": 0, "kat": 0, "areas": 1, "scale": 1.0},
    "attn_peak": {"heads": 1, "dim": 1, "qat": 0, "kat": 0, "areas": 1, "scale": 1.0},
    "attn_mix": {"dim": 1, "at": 0, "areas": 1},
}
# Operands that the peers read, where those are not all: their softmax needs no lse.
READS = {"softmax": 1}
# Another layout than nchw is a mark alone: dimensions are those of nchw everywhere.
MARKED = {"from_rows": "nhwc"}

TYPE = r"(\w+)\[([\d,]*)\](?: (\w+))?"
OPERATION = re.compile(r"(%\d+) = (\w+) ([^{:]+?)(?: \{([^}]*)\})? : " + TYPE + r"(.*)")
DECLARATION = re.compile(r"(in|w) +([%$]\S+) : " + TYPE + r"$")
OUTPUT = re.compile(r"(?:out|layer) (\S+) = (%\S+)$")
PLACED = re.compile(r"\S")


def _type(dtype, dims, layout):
    return Type(dtype, tuple(int(d) for d in dims.split(",") if d), layout or "")


def _attrs(code, text):
    known = ATTRS.get(code, {})
    attrs = dict(known)
    for word in (text or "").split():
        name, _, value = word.partition("=")
        if name not in known:
            raise IrError(f"{code} has no attribute {name} here")
        kind = type(known[name]) if not isinstance(known[name], tuple) else int
        values = tuple(kind(v) for v in value.split(","))
        attrs[name] = values if isinstance(known[name], tuple) else values[0]
        if isinstance(known[name], tuple) and len(values) != len(known[name]):
            raise IrError(f"{code}: {name} has {len(values)} numbers")
    return attrs


def _operation(match):
    result, code, inputs, attrs, dtype, dims, layout, rest = match.groups()
    if PLACED.search(re.sub(r" @\d+:\d+( \S+)?$", "", rest)):
        raise IrError(f"{result} has a place already: the form before `fuse` is wanted")
    if layout not in (None, "nchw", "row", MARKED.get(code)) or dtype != "f32":
        raise IrError(f"{result} is {dtype} {layout}: the form before `layout`, in f32, is wanted")
    return Op(result, code, tuple(inputs.split(", "))[:READS.get(code)], _attrs(code, attrs), _type(dtype, dims, layout))


def parse(text):
    """The network of an IR text."""
    name, inputs, weights, ops, outputs = "", {}, {}, [], {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].strip()
        try:
            if not line or line.startswith("image "):
                continue
            if line.startswith("model "):
                name = line.split()[1]
            elif match := DECLARATION.match(line):
                (inputs if match[1] == "in" else weights)[match[2]] = _type(*match.groups()[2:])
            elif match := OUTPUT.match(line):
                outputs[match[1]] = match[2]
            elif match := OPERATION.match(line):
                ops.append(_operation(match))
            else:
                raise IrError(f"not understood: {line[:60]}")
        except IrError as e:
            raise IrError(f"line {number}: {e}") from None
    return Net(name, inputs, weights, tuple(ops), outputs)


def needed(net, outputs):
    """The ops that these outputs need, in order."""
    wanted = {net.outputs[o] for o in outputs}
    kept = []
    for op in reversed(net.ops):
        if op.result in wanted:
            kept.append(op)
            wanted.update(op.inputs)
    return kept[::-1]


def shapes(net):
    """Type of every value and weight."""
    return {**net.inputs, **net.weights, **{op.result: op.type for op in net.ops}}


def batched(net, n):
    """The network for n images at once; the text has it for one."""
    def grown(t):
        return dataclasses.replace(t, dims=(n, *t.dims[1:]))

    inputs = {name: grown(t) for name, t in net.inputs.items()}
    ops = tuple(dataclasses.replace(op, type=grown(op.type)) for op in net.ops)
    return dataclasses.replace(net, inputs=inputs, ops=ops)


# --- tensors ------------------------------------------------------------------------------------------------------

DTYPES = {"F32": numpy.float32, "F16": numpy.float16, "U8": numpy.uint8, "I64": numpy.int64}


def read_tensors(path):
    """Name to array, of a .safetensors file."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            flat = numpy.frombuffer(data[start:end], DTYPES[entry["dtype"]])
            out[name] = flat.reshape(entry["shape"])
    return out


def write_tensors(path, tensors):
    """Writes arrays as a .safetensors file."""
    header, at = {}, 0
    names = {numpy.dtype(t): name for name, t in DTYPES.items()}
    for name, array in tensors.items():
        entry = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        header[name] = entry
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            f.write(numpy.ascontiguousarray(array).tobytes())


def load(path, weights):
    """Network and weights; every weight is there and of the declared shape."""
    with open(path, encoding="utf-8") as f:
        net = parse(f.read())
    tensors = read_tensors(weights)
    for name, declared in net.weights.items():
        if name[1:] not in tensors or tensors[name[1:]].shape != declared.dims:
            raise IrError(f"{weights}: no weight {name} of shape {declared.dims}")
    return net, {"$" + name: array for name, array in tensors.items()}


def cells(h, w):
    """x and y of each position of a map, [h*w] each."""
    y, x = numpy.mgrid[0:h, 0:w]
    return x.reshape(-1).astype(numpy.float32), y.reshape(-1).astype(numpy.float32)
