#!/usr/bin/env python3
"""The networks that the bench gives to the peers compute what ours does: bench_ops.py [BUILD-FOLDER]

Each op as ONNX, run by ONNX Runtime or else onnx's own evaluator, and as PyTorch where that is installed, against
tests/ops/cases.json; whole networks as ONNX against bench_ours of the build folder. Ends with 77 where numpy or onnx
is missing.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

try:
    import numpy
    import onnx.reference
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

import cpu
import ir
import onnx_net
import options
import worker

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

try:
    import torch

    import torch_net
except ImportError:
    torch = None

BOUND = 2e-5  # of an op's error by the largest element; the stored results have 7 digits
NETWORK_BOUND = 1e-4  # of a network's: ours and theirs add in other orders
# Description, scale, weights, size.
NETWORKS = [("tests/tiny.yaml", None, "rule", 64), ("models/yolox.yaml", None, "models/demo/yolox_nano.safetensors", 32),
            ("models/yoloe-11-seg.yaml", "n", "rule", 32), ("models/yolov8-worldv2.yaml", "n", "rule", 32)]

faults = []


def compare(what, got, wanted, bound=BOUND):
    got = numpy.asarray(got)
    if got.shape != wanted.shape:
        faults.append(f"{what}: shape {got.shape}, not {wanted.shape}")
        return
    error = numpy.abs(got - wanted).max() / max(numpy.abs(wanted).max(), 1e-30)
    if not error <= bound:
        faults.append(f"{what}: off by {error:.2e}")


def run_onnx(net, weights, outputs, *inputs):
    model = onnx_net.build(net, weights, outputs)
    if onnxruntime:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    else:
        session = onnx.reference.ReferenceEvaluator(model)
    return session.run(None, dict(zip(net.inputs, inputs, strict=True)))


def run_torch(net, weights, outputs, x):
    with torch.inference_mode():
        return torch_net.Net(net, weights, outputs)(torch.from_numpy(x.copy()))


def run_case(case):
    """The ops that it ran."""
    net = ir.parse(case["ir"])
    (shape,) = [t.dims for t in net.inputs.values()]
    x = numpy.array(case["x"], numpy.float32).reshape(shape)
    weights = {"$" + n: numpy.array(w, numpy.float32).reshape(net.weights["$" + n].dims) for n, w in case["weights"].items()}
    wanted = numpy.array(case["y"], numpy.float32).reshape(ir.shapes(net)[net.outputs["y"]].dims)
    what = f"{case['op']} {case['note']}"
    compare(f"ONNX {what}", run_onnx(net, weights, ["y"], x)[0], wanted)
    if torch and case["op"] in torch_net.BUILD:
        compare(f"PyTorch {what}", run_torch(net, weights, ["y"], x)[0], wanted)
    return {op.code for op in net.ops}


def check_cases():
    """How many were run. What the bench has no form for it refuses; what it has a form for is run in some case."""
    cases = json.loads((ROOT / "tests/ops/cases.json").read_text())["cases"]
    met, count = set(), 0
    for case in cases:
        if case["op"] == "deconv2d" and "groups" in case["ir"] and not onnxruntime:
            continue  # onnx's evaluator cannot
        try:
            met.update(run_case(case))
            count += 1
        except ir.IrError:
            pass
    faults.extend(f"{op}: no case was run" for op in onnx_net.EMIT.keys() - met)
    if torch:
        faults.extend(f"{op}: PyTorch alone" for op in torch_net.BUILD.keys() - onnx_net.EMIT.keys())
    return count


def check_refusals():
    """What the peers can't run is an error that names it."""
    head = "in %x : f32[1,4,2,2] nchw\n"
    bad = {
        "not understood": head + "nonsense\n",
        "no attribute": head + "%1 = relu %x {slope=1} : f32[1,4,2,2] nchw\nout y = %1\n",
        "before `layout`": head + "%1 = relu %x : f32[1,4,2,2] nhwc\nout y = %1\n",
        "before `fuse`": head + "%1 = relu %x : f32[1,4,2,2] nchw inline\nout y = %1\n",
        "no ONNX for": head + "%1 = d2s %x : f32[1,1,4,4] nchw\nout y = %1\n",
    }
    for words, text in bad.items():
        try:
            onnx_net.build(ir.parse(text), {}, ["y"])
            faults.append(f"no error of '{words}'")
        except ir.IrError as e:
            if words not in str(e):
                faults.append(f"'{e}' where '{words}' was expected")


def check_agreement():
    """Nothing that is no number, and no work that is none, passes for agreement."""
    one = numpy.ones(4, numpy.float32)
    bad = numpy.array([1, numpy.nan, 1, 1], numpy.float32)
    odd = numpy.array([0, 1e-40, numpy.inf, -2], numpy.float32)
    if cpu.error_of(one * 3, one * 2) != 0.5 or cpu.error_of(one, one) != 0:
        faults.append("error_of")
    if cpu.error_of(bad, one) < cpu.AGREE or cpu.error_of(one, bad) < cpu.AGREE or cpu.error_of(one, one * 0) < cpu.AGREE:
        faults.append("error_of what is no number, or by nothing")
    rows = numpy.arange(12, dtype=numpy.float32).reshape(1, 4, 3)
    swapped = rows[:, [0, 2, 1, 3]]
    if cpu.error_of(swapped, rows) == 0 or cpu.error_of(swapped, rows, 4) != 0 or cpu.error_of(swapped, rows, 5) == 0:
        faults.append("error_of queries that changed places")
    if cpu.error_of(swapped.swapaxes(1, 2) + 1, rows.swapaxes(1, 2), 4) == 0:
        faults.append("error_of queries that are others")
    s = cpu.statistics("odd", odd)
    if (s["zeros"], s["denormals"], s["nonfinite"], s["min"], s["max"]) != (1, 1, 1, -2, float(odd[1])):
        faults.append(f"statistics {s}")


def ours(build, folder, module, net, inputs):
    """The outputs of bench_ours, in the order of the network's."""
    names, files = [name[1:] for name in net.inputs], []
    for name, x in zip(names, inputs):
        x.tofile(folder / f"x.{name}")
        files.append(str(folder / f"x.{name}"))
    command = [build / "bench/bench_ours", module, "1", ",".join(names), ",".join(files), ",".join(net.outputs)]
    said = subprocess.run(command, input=f"run 2\ndump {folder}/y\n", capture_output=True, text=True, check=True).stdout
    hello, times, _ = map(json.loads, said.splitlines())
    if hello["load_ms"] <= 0 or len(times["ms"]) != 2:
        faults.append(f"bench_ours said {said}")
    flat, types = numpy.fromfile(folder / "y", numpy.float32), ir.shapes(net)
    shapes = [types[ref].dims for ref in net.outputs.values()]
    ends = numpy.cumsum([numpy.prod(s) for s in shapes])
    return [part.reshape(s) for part, s in zip(numpy.split(flat, ends[:-1]), shapes)]


def check_network(build, folder, yaml, scale, weights, size):
    model = [yaml, *(["--scale", scale] if scale else []), "--weights", weights, "--imgsz", str(size)]
    tensors, module = folder / "w", folder / "m"
    text = subprocess.run([build / "yoloc", "opt", *model, "--passes", "foldbn,dce", "--save-weights", tensors],
                          capture_output=True, text=True, check=True).stdout
    subprocess.run([build / "yoloc", "compile", *model, "-o", module], check=True, capture_output=True)
    (folder / "t").write_text(text)
    net, values = ir.load(folder / "t", tensors)
    inputs = [numpy.random.default_rng(2).random(t.dims, numpy.float32) for t in net.inputs.values()]
    theirs = run_onnx(net, values, list(net.outputs), *inputs)
    for name, got, wanted in zip(net.outputs, theirs, ours(build, folder, module, net, inputs)):
        compare(f"{yaml} {name}", got, wanted, NETWORK_BOUND)


def main(argv):
    count = check_cases()
    if set(options.PEERS) != worker.RUNNERS.keys():
        faults.append("options.PEERS are not the runners")
    check_refusals()
    check_agreement()
    for network in NETWORKS if len(argv) > 1 else []:
        with tempfile.TemporaryDirectory() as folder:
            check_network(pathlib.Path(argv[1]), pathlib.Path(folder), *network)
    print(f"{count} cases, {len(faults)} faults, {'with' if torch else 'without'} PyTorch")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
