"""The ONNX of the ops that heads, tasks and decoders of queries have beside those of onnx_net.py."""

import numpy

import ir


def _affine(b, op, x):
    b.node("Add", b.node("Mul", x[0], b.floats(op.attrs["mul"])), b.floats(op.attrs["add"]), to=op.result)


def _logit(b, op, x):
    least = b.floats(1e-5)
    rest = b.node("Sub", b.floats(1), x[0])
    b.node("Log", b.node("Div", b.node("Max", x[0], least), b.node("Max", rest, least)), to=op.result)


def _reshape(b, op, x):
    b.reshape(x[0], *op.type.dims, to=op.result)


def _rows(b, op, x):
    n, c, h, w = b.shape[x[0]]
    b.node("Transpose", b.reshape(x[0], n, c, h * w), to=op.result, perm=[0, 2, 1])


def _from_rows(b, op, x):
    b.node("Unsqueeze", b.node("Transpose", x[0], perm=[0, 2, 1]), b.ints(3), to=op.result)


def _posenc(b, op, x):
    """The code depends on places alone and is a constant."""
    _, c, h, w = b.shape[x[0]]
    column, row = ir.cells(h, w)
    angles = [at * b.weights[x[1]].reshape(-1, 1) for at in (row, column)]
    code = numpy.concatenate([turn(angle) for angle in angles for turn in (numpy.sin, numpy.cos)])
    b.node("Add", x[0], b.const(code.astype(numpy.float32).reshape(1, c, h, w)), to=op.result)


def _maxbins(b, op, x):
    """The largest of each part: a pooling where the parts are equal, else slice by slice as exporters do."""
    count, (_, _, *sides) = op.attrs["count"], b.shape[x[0]]
    if all(side % count == 0 for side in sides):
        window = [side // count for side in sides]
        b.node("MaxPool", x[0], to=op.result, kernel_shape=window, strides=window)
        return
    value = x[0]
    for axis, side in zip((2, 3), sides):
        parts = [b.cut(value, axis, i * side // count, -((i + 1) * side // -count)) for i in range(count)]
        tops = [b.node("ReduceMax", part, b.ints(axis), keepdims=1) for part in parts]
        value = b.node("Concat", *tops, to=op.result if axis == 3 else None, axis=axis)


def _nearest(b, op, x):
    b.node("Resize", x[0], "", "", b.ints(*op.type.dims), to=op.result, mode="nearest",
           coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def _bilinear(b, op, x):
    factor = float(op.attrs["factor"])
    b.node("Resize", x[0], "", b.floats(1, 1, factor, factor), to=op.result, mode="linear",
           coordinate_transformation_mode="align_corners" if op.attrs["corners"] else "half_pixel")


# --- norms and gates ----------------------------------------------------------------------------------------------


def _moments(b, op, x):
    mean = b.node("ReduceMean", x[0], b.ints(1), keepdims=1)
    less = b.node("Sub", x[0], mean)
    variance = b.node("ReduceMean", b.node("Mul", less, less), b.ints(1), keepdims=1)
    inverse = b.node("Reciprocal", b.node("Sqrt", b.node("Add", variance, b.floats(op.attrs["eps"]))))
    b.node("Concat", mean, inverse, to=op.result, axis=1)
    b.eps[op.result] = op.attrs["eps"]


def _layernorm(b, op, x):
    """As exporters write it, on the last axis; the moments by themselves then have no reader."""
    turned = b.node("Transpose", x[0], perm=[0, 2, 3, 1])
    normed = b.node("LayerNormalization", turned, b.weight(x[2]), b.weight(x[3]), axis=-1, epsilon=b.eps[x[1]])
    b.node("Transpose", normed, to=op.result, perm=[0, 3, 1, 2])


def _rnorm(b, op, x):
    length = b.node("ReduceL2", x[0], b.ints(1), keepdims=1)
    b.node("Reciprocal", b.node("Max", length, b.floats(1e-12)), to=op.result)


def _peak(b, op, x):
    b.node("ReduceMax", x[0], b.ints(1), to=op.result, keepdims=1)


def _gate(b, op, x):
    n, c, h, w = b.shape[x[0]]
    groups = b.shape[x[1]][1]
    parts = b.reshape(x[0], n, groups, c // groups, h, w)
    gates = b.node("Unsqueeze", x[1], b.ints(2))
    b.reshape(b.node("Mul", parts, gates), n, c, h, w, to=op.result)


def _contrast(b, op, x):
    n, c, h, w = b.shape[x[0]]
    keys = b.shape[x[1]][2]
    texts = b.node("Transpose", b.reshape(x[1], n, c, keys), perm=[0, 2, 1])
    products = b.node("MatMul", texts, b.reshape(x[0], n, c, h * w))
    scaled = b.node("Mul", products, b.node("Exp", b.weight(x[2])))
    b.reshape(b.node("Add", scaled, b.weight(x[3])), *op.type.dims, to=op.result)


# --- decoding -----------------------------------------------------------------------------------------------------


def _points(b, op, x):
    a, (n, c, h, w) = op.attrs, b.shape[x[0]]
    dims = a["dims"]
    raw = b.reshape(x[0], n, c // dims, dims, h * w)
    start = b.const((numpy.stack(ir.cells(h, w)) + numpy.float32(a["shift"]))[None, None])
    place = b.node("Add", b.node("Mul", b.cut(raw, 2, 0, 2), b.floats(a["scale"])), start)
    parts = [b.node("Mul", place, b.floats(a["stride"]))]
    if dims == 3:
        parts.append(b.node("Sigmoid", b.cut(raw, 2, 2, 3)))
    b.reshape(b.node("Concat", *parts, axis=2), *op.type.dims, to=op.result)


def _obb_box(b, op, x):
    n, _, h, w = b.shape[x[0]]
    cells = h * w
    dist = b.distances(x[0], op.attrs["bins"])
    near, far = b.cut(dist, 1, 0, 2), b.cut(dist, 1, 2, 4)
    half = b.node("Mul", b.node("Sub", far, near), b.floats(0.5))
    xf, yf = b.cut(half, 1, 0, 1), b.cut(half, 1, 1, 2)
    angle = b.reshape(x[1], n, 1, cells)
    cosine, sine = b.node("Cos", angle), b.node("Sin", angle)
    dx = b.node("Sub", b.node("Mul", xf, cosine), b.node("Mul", yf, sine))
    dy = b.node("Add", b.node("Mul", xf, sine), b.node("Mul", yf, cosine))
    centre = b.const(numpy.stack(ir.cells(h, w))[None] + numpy.float32(0.5))
    middle = b.node("Add", b.node("Concat", dx, dy, axis=1), centre)
    box = b.node("Concat", middle, b.node("Add", near, far), axis=1)
    b.node("Mul", box, b.floats(op.attrs["stride"]), to=op.result)


# --- queries ------------------------------------------------------------------------------------------------------


def _sorted_places(b, x, count, largest=1):
    n, _, h, w = b.shape[x]
    flat = b.reshape(x, n, h * w)
    b.count += 2
    values, places = f"t{b.count - 1}", f"t{b.count}"
    b.nodes.append(b.make("TopK", [flat, b.ints(count)], [values, places], axis=1, largest=largest, sorted=1))
    return places


def _rank(b, op, x):
    n, _, h, w = b.shape[x[0]]
    places = _sorted_places(b, x[0], h * w)
    numbers = b.const(numpy.tile(numpy.arange(h * w, dtype=numpy.float32), (n, 1)))
    ranks = b.node("ScatterElements", numbers, places, numbers, axis=1)
    b.reshape(ranks, *op.type.dims, to=op.result)
    b.ranked[op.result] = x[0]


def _order(b, op, x):
    """The largest of what was ranked: the ranks by themselves then have no reader."""
    n, _, count, _ = op.type.dims
    ranked = b.ranked.get(x[0])
    places = _sorted_places(b, ranked or x[0], count, 1 if ranked else 0)
    b.reshape(b.node("Cast", places, to_type=1), *op.type.dims, to=op.result)
    b.places[op.result] = places


def _gather(b, op, x):
    n, c, h, w = b.shape[x[0]]
    count = op.type.dims[2]
    places = b.places.get(x[1])
    if places is None:
        held = b.node("Clip", b.reshape(x[1], n, count), b.floats(0), b.floats(h * w - 1))
        places = b.node("Cast", held, to_type=7)
    flat = b.reshape(x[0], n, c, h * w)
    if n == 1:
        taken = b.node("Gather", flat, b.reshape(places, count), axis=2)
    else:
        each = b.node("Expand", b.node("Unsqueeze", places, b.ints(1)), b.ints(n, c, count))
        taken = b.node("GatherElements", flat, each, axis=2)
    b.reshape(taken, *op.type.dims, to=op.result)


def _valid(side, h, w):
    """Centres of the cells as parts of the map, and where an anchor lies within (0.01, 0.99) with all its numbers."""
    x, y = ir.cells(h, w)
    cx, cy = (x + numpy.float32(0.5)) / numpy.float32(w), (y + numpy.float32(0.5)) / numpy.float32(h)
    inside = [(v > numpy.float32(0.01)) & (v < numpy.float32(0.99)) for v in (cx, cy, numpy.full_like(cx, side))]
    return cx, cy, inside[0] & inside[1] & inside[2]


def _detr_anchor(b, op, x):
    n, _, h, w = op.type.dims
    cx, cy, valid = _valid(op.attrs["side"], h, w)
    side = numpy.full_like(cx, op.attrs["side"])
    anchor = numpy.stack([cx, cy, side, side])
    logits = numpy.where(valid, numpy.log(anchor / (1 - anchor)), numpy.float32(1e4)).reshape(1, 4, h, w)
    b.node("Identity", b.const(numpy.tile(logits, (n, 1, 1, 1)).astype(numpy.float32)), to=op.result)


def _detr_valid(b, op, x):
    _, _, h, w = op.type.dims
    mask = _valid(op.attrs["side"], h, w)[2].astype(numpy.float32).reshape(1, 1, h, w)
    b.node("Mul", x[0], b.const(mask), to=op.result)


def _query_box(b, op, x):
    n, _, count, _ = b.shape[x[0]]
    _, _, h, w = b.shape[x[1]]
    box = b.reshape(x[0], n, 4, count)
    half = b.node("Mul", b.cut(box, 1, 2, 4), b.floats(0.5))
    middle = b.cut(box, 1, 0, 2)
    corners = b.node("Concat", b.node("Sub", middle, half), b.node("Add", middle, half), axis=1)
    size = numpy.array([w, h, w, h], numpy.float32).reshape(1, 4, 1) * numpy.float32(op.attrs["stride"])
    b.node("Mul", corners, b.const(size), to=op.result)


def _deform(b, op, x):
    a, (n, c, h, w) = op.attrs, b.shape[x[0]]
    heads, levels, level, points = a["heads"], a["levels"], a["level"], a["points"]
    queries = op.type.dims[2]

    def of_level(ref, each):
        """[n,heads,points,each,queries] of a [n,heads*levels*points*each,queries,1]."""
        parts = b.reshape(ref, n, heads, levels, points, each, queries)
        return b.reshape(b.cut(parts, 2, level, level + 1), n, heads, points, each, queries)

    boxes = b.reshape(x[1], n, 1, 1, 4, queries)
    share = b.node("Mul", of_level(x[2], 2), b.floats(0.5 / points))
    place = b.node("Add", b.node("Mul", share, b.cut(boxes, 3, 2, 4)), b.cut(boxes, 3, 0, 2))
    grid = b.node("Sub", b.node("Mul", place, b.floats(2)), b.floats(1))
    turned = b.node("Transpose", grid, perm=[0, 1, 4, 2, 3])
    samples = b.node("GridSample", b.reshape(x[0], n * heads, c // heads, h, w), b.reshape(turned, n * heads, queries, points, 2),
                     mode="linear", padding_mode="zeros", align_corners=0)
    weights = b.node("Transpose", of_level(x[3], 1), perm=[0, 1, 3, 4, 2])
    weighted = b.node("Mul", samples, b.reshape(weights, n * heads, 1, queries, points))
    b.reshape(b.node("ReduceSum", weighted, b.ints(3), keepdims=0), *op.type.dims, to=op.result)


EMIT = {
    "affine": _affine, "logit": _logit, "tokens": _reshape, "ravel": _reshape, "rows": _rows, "from_rows": _from_rows,
    "cast": lambda b, op, x: b.node("Identity", x[0], to=op.result), "posenc": _posenc, "maxbins": _maxbins,
    "nearest": _nearest, "bilinear": _bilinear,
    "avgmap": lambda b, op, x: b.node("GlobalAveragePool", x[0], to=op.result),
    "moments": _moments, "layernorm": _layernorm, "rnorm": _rnorm, "peak": _peak, "gate": _gate, "contrast": _contrast,
    "points": _points, "obb_box": _obb_box, "rank": _rank, "order": _order, "gather": _gather,
    "detr_anchor": _detr_anchor, "detr_valid": _detr_valid, "query_box": _query_box, "deform": _deform,
}
