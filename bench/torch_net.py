"""An IR network as a torch.nn.Module: maps and weights in channels_last, SiLU in place where nothing else reads its input."""

import numpy
import torch
import torch.nn.functional as F

import ir


def _padded(x, pad, value=0.0):
    top, left, bottom, right = pad
    return F.pad(x, (left, right, top, bottom), value=value)


def _symmetric(pad):
    return pad[0] == pad[2] and pad[1] == pad[3]


def _conv2d(net, op):
    a = op.attrs

    def conv(x, w, bias=None):
        if _symmetric(a["pad"]):
            return F.conv2d(x, w, bias, a["stride"], a["pad"][:2], a["dil"], a["groups"])
        return F.conv2d(_padded(x, a["pad"]), w, bias, a["stride"], 0, a["dil"], a["groups"])
    return conv


def _batchnorm(net, op):
    return lambda x, gamma, beta, mean, var: F.batch_norm(x, mean, var, gamma, beta, eps=op.attrs["eps"])


def _silu(net, op):
    alone = net.uses[op.inputs[0]] == 1 and net.code.get(op.inputs[0]) in ("conv2d", "batchnorm")
    return lambda x: F.silu(x, inplace=alone)


def _slice(net, op):
    a = op.attrs
    return lambda x: x.narrow(a["axis"], a["start"], a["count"])


def _s2d(net, op):
    f = op.attrs["factor"]
    return lambda x: torch.cat([x[:, :, row::f, column::f] for column in range(f) for row in range(f)], 1)


def _maxpool(net, op):
    a = op.attrs
    if _symmetric(a["pad"]) and all(2 * p <= k for p, k in zip(a["pad"], a["kernel"])):
        return lambda x: F.max_pool2d(x, a["kernel"], a["stride"], a["pad"][:2])
    return lambda x: F.max_pool2d(_padded(x, a["pad"], -float("inf")), a["kernel"], a["stride"])


def _avgpool(net, op):
    a = op.attrs
    return lambda x: F.avg_pool2d(_padded(x, a["pad"]), a["kernel"], a["stride"])


def _deconv2d(net, op):
    a = op.attrs
    return lambda x, w, bias=None: F.conv_transpose2d(x, w, bias, a["stride"], a["pad"], a["grow"], a["groups"])


def _keys_only(net, op):
    """Scores have their heads before the queries here, which an op along the keys does not notice."""
    if op.inputs[0] in net.headed:
        if op.attrs["axis"] != 4:
            raise ir.IrError(f"{op.result}: {op.code} of attention scores along another axis than the keys")
        net.headed[op.result] = op.type.dims


def _lse(net, op):
    _keys_only(net, op)
    return lambda x: x.logsumexp(op.attrs["axis"], True)


def _softmax(net, op):
    _keys_only(net, op)
    return lambda x: x.softmax(op.attrs["axis"])


def _heads(x, heads, areas, at, dim):
    """Channels at .. at + dim of each head: [n,areas,heads,dim,positions]."""
    n, c, h, w = x.shape
    return x.reshape(n, heads, c // heads, areas, h * w // areas).narrow(2, at, dim).permute(0, 3, 1, 2, 4)


def _attn_scores(net, op):
    a = op.attrs
    net.headed[op.result] = op.type.dims

    def scores(q, k):
        q = _heads(q, a["heads"], a["areas"], a["qat"], a["dim"])
        k = _heads(k, a["heads"], a["areas"], a["kat"], a["dim"])
        return (q.transpose(3, 4) * a["scale"]) @ k
    return scores


def _attn_mix(net, op):
    a, heads = op.attrs, net.headed[op.inputs[0]][3]

    def mix(s, v):
        v = _heads(v, heads, a["areas"], a["at"], a["dim"])
        return (v @ s.transpose(3, 4)).permute(0, 2, 3, 1, 4).reshape(op.type.dims)
    return mix


HEADED = {"lse", "softmax", "attn_mix"}  # what may read scores


def _dfl_box(net, op):
    n, _, h, w = net.shape[op.inputs[0]]
    bins = op.attrs["bins"]
    centre = net.constant(numpy.stack(ir.cells(h, w))[None] + numpy.float32(0.5))
    weight = net.constant(numpy.arange(bins, dtype=numpy.float32).reshape(1, bins, 1, 1))

    def box(x):
        dist = x.reshape(n, 4, bins, h * w)
        if bins > 1:
            dist = F.conv2d(dist.transpose(2, 1).softmax(1), weight)
        near, far = dist.reshape(n, 4, h * w).chunk(2, 1)
        low, high = centre - near, centre + far
        parts = (low, high) if op.attrs["corners"] else ((low + high) * 0.5, high - low)
        return torch.cat(parts, 1) * op.attrs["stride"]
    return box


def _anchor_rows(net, op):
    n, c, h, w = net.shape[op.inputs[0]]
    na = op.attrs["na"]
    return lambda x: x.reshape(n, na, c // na, h, w).permute(0, 1, 3, 4, 2).contiguous()


def _anchor_box(net, op):
    _, _, h, w = net.shape[op.inputs[0]]
    na, stride, plain, rows = op.attrs["na"], op.attrs["stride"], op.attrs["plain"], _anchor_rows(net, op)
    corner = net.constant(numpy.stack(ir.cells(h, w), -1).reshape(1, 1, h, w, 2) - numpy.float32(0.5))

    def box(x, anchors):
        raw = rows(x)
        xy, wh, rest, last = raw.sigmoid().split((2, 2, op.type.dims[2] - 4 - plain, plain), 4)
        xy = (xy * 2 + corner) * stride
        wh = (wh * 2) ** 2 * anchors.view(1, na, 1, 1, 2)
        if plain:
            last = raw[..., -plain:]
        return torch.cat((xy, wh, rest, last), 4).view(op.type.dims)
    return box


def _x_box(net, op):
    n, c, h, w = net.shape[op.inputs[0]]
    grid = net.constant(numpy.stack(ir.cells(h, w), -1)[None])

    def box(x):
        xy, wh, rest = x.reshape(n, c, h * w).permute(0, 2, 1).split((2, 2, c - 4), 2)
        return torch.cat(((xy + grid) * op.attrs["stride"], wh.exp() * op.attrs["stride"], rest), 2)
    return box


def _plain(fn):
    return lambda net, op: fn


BUILD = {
    "conv2d": _conv2d, "batchnorm": _batchnorm, "silu": _silu, "relu": _plain(F.relu), "relu6": _plain(F.relu6),
    "leaky": lambda net, op: lambda x: F.leaky_relu(x, op.attrs["slope"]),
    "elu": lambda net, op: lambda x: F.elu(x, op.attrs["slope"]),
    "sigmoid": _plain(torch.sigmoid), "hardswish": _plain(F.hardswish), "hardsigmoid": _plain(F.hardsigmoid),
    "tanh": _plain(torch.tanh), "gelu": _plain(F.gelu), "mish": _plain(F.mish),
    "add": _plain(torch.add), "mul": _plain(torch.mul),
    "concat": lambda net, op: lambda *x: torch.cat(x, op.attrs["axis"]),
    "slice": _slice, "s2d": _s2d,
    "upsample": lambda net, op: lambda x: F.interpolate(x, scale_factor=op.attrs["factor"], mode="nearest"),
    "pad": lambda net, op: lambda x: _padded(x, op.attrs["pad"], op.attrs["value"]),
    "flatten": lambda net, op: lambda x: x.flatten(2),
    "maxpool": _maxpool, "avgpool": _avgpool,
    "deconv2d": _deconv2d, "lse": _lse, "softmax": _softmax, "attn_scores": _attn_scores, "attn_mix": _attn_mix,
    "dfl_box": _dfl_box, "anchor_raw": _anchor_rows, "anchor_box": _anchor_box, "x_box": _x_box,
}


class Net(torch.nn.Module):
    """Gives the named outputs as a tuple. The one input may be in channels_last; it has the device and the type of the weights."""

    def __init__(self, net, weights, outputs, device="cpu", dtype=torch.float32):
        super().__init__()
        self.device, self.dtype = device, dtype
        ops = ir.needed(net, outputs)
        self.shape = {name: t.dims for name, t in ir.shapes(net).items()}
        self.code = {op.result: op.code for op in ops}
        self.results = [net.outputs[name] for name in outputs]
        self.uses = {}
        for ref in [ref for op in ops for ref in op.inputs] + self.results:
            self.uses[ref] = self.uses.get(ref, 0) + 1
        (self.input,) = net.inputs
        self.tensors = {}
        for ref in self.uses:
            if ref.startswith("$"):
                w = self.constant(weights[ref].copy())
                self.tensors[ref] = w.contiguous(memory_format=torch.channels_last) if w.dim() == 4 else w
        self.headed = {}  # attention scores as [n,areas,heads,queries,keys]: their IR shape
        self.steps = [self._step(op) for op in ops]
        self._release(ops)

    def constant(self, array):
        return torch.from_numpy(array).to(self.device, self.dtype)

    def _step(self, op):
        if op.code not in BUILD:
            raise ir.IrError(f"{op.result}: the bench has no PyTorch for {op.code}")
        if self.headed.keys() & op.inputs and op.code not in HEADED:
            raise ir.IrError(f"{op.result}: {op.code} of attention scores")
        return BUILD[op.code](self, op), op.inputs, op.result

    def _release(self, ops):
        """Which values are read for the last time, step by step."""
        seen = set(self.results)
        self.last = []
        for op in reversed(ops):
            here = {ref for ref in op.inputs if ref.startswith("%")} - seen
            seen |= here
            self.last.append(tuple(here))
        self.last.reverse()

    def forward(self, images):
        values = dict(self.tensors)
        values[self.input] = images
        for (fn, inputs, result), last in zip(self.steps, self.last):
            values[result] = fn(*[values[ref] for ref in inputs])
            for ref in last:
                del values[ref]
        return tuple(self._given(ref, values[ref]) for ref in self.results)

    def _given(self, ref, x):
        return x.transpose(2, 3).reshape(self.headed[ref]) if ref in self.headed else x
