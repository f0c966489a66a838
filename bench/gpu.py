"""Ours and PyTorch on the same networks, interleaved in one process on one GPU; bench/gpu.sh names its options.

Each turn of a runner is a row of runs between two events on one stream, with inputs and outputs in the GPU's memory. Outputs
are compared with PyTorch in f32 before anything is timed.
"""

import argparse
import contextlib
import ctypes
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy
import torch

import ir
import record
import torch_net
import yolort
from gpu_record import SCHEMA

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS, PEER = "yoloc", "torch-compile-graph"
SLICE_MS, SLICE_LEAST, SLICE_MOST = 15, 4, 200
SCORE_BOUND = 2e-2  # of class scores, against PyTorch in f32
STAGED = ("bus", 1080, 810)  # a picture as large as a usual photo
TORCH = ("torch", "torch-graph", PEER)


def say(*words):
    print(*words, flush=True)


def device_info():
    p = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm", "--format=csv,noheader"]
    text = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().split("\n")[0].split(", ")
    return {"gpu": p.name, "multiprocessors": p.multi_processor_count, "driver": text[0], "memory_gb": p.total_memory / 2**30,
            "clocks": text[1:], "cpu_cores": len(os.sched_getaffinity(0))}


# --- runners ------------------------------------------------------------------------------------------------------


class Runner:
    """Something that runs the network on the current stream; `outputs` are device tensors. kept: what a graph reads."""

    def __init__(self, name, call, outputs, close=lambda: None, kept=None):
        self.name, self.call, self.outputs, self.close, self.kept = name, call, outputs, close, kept
        self.runs, self.slices = 1, []

    def slice(self):
        """Mean ms of a run in a row of them."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(self.runs):
            self.call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / self.runs

    def warm(self):
        for _ in range(3):
            self.call()
        torch.cuda.synchronize()
        self.runs = min(SLICE_MOST, max(SLICE_LEAST, round(SLICE_MS / max(self.slice(), 1e-3))))


def ours(lib, name, module, images, batch, outputs, graph=0):
    session = yolort.Session(lib, module, graph)
    session.bind("images", images)
    tensors = [session.output(o, batch) for o in outputs]
    stream = torch.cuda.current_stream().cuda_stream
    return Runner(name, lambda: session.run(batch, stream), tensors, session.close)


def graphed(call):
    """call in a CUDA graph, and what it gives."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        result = call()
    return graph, result


def peer(name, module, images):
    """A PyTorch runner, and the ms that torch.compile took."""
    took = None
    if name == PEER:
        torch._dynamo.reset()
        start = time.perf_counter()
        compiled = torch.compile(module)
        compiled(images)
        torch.cuda.synchronize()
        took = (time.perf_counter() - start) * 1e3
        module = compiled
    if name == "torch":
        held = list(module(images))
        return Runner(name, lambda: held.__setitem__(slice(None), module(images)), held), took
    graph, result = graphed(lambda: module(images))
    return Runner(name, graph.replay, list(result), kept=(module, images)), took


class Convolutions(torch.nn.Module):
    """cuDNN alone: the network's convolutions on maps of the right sizes, each with bias and ReLU fused."""

    def __init__(self, net, weights, dtype):
        super().__init__()
        shape = {name: t.dims for name, t in ir.shapes(net).items()}
        maps = {}
        self.calls = []
        for op in (op for op in net.ops if op.code == "conv2d" and op.attrs["groups"] == 1):
            dims, a = shape[op.inputs[0]], op.attrs
            if dims not in maps:
                maps[dims] = torch.rand(dims, device="cuda", dtype=dtype).contiguous(memory_format=torch.channels_last)
            w = torch.from_numpy(weights[op.inputs[1]].copy()).to("cuda", dtype).contiguous(memory_format=torch.channels_last)
            bias = torch.zeros(w.shape[0], device="cuda", dtype=dtype)
            self.calls.append((maps[dims], w, bias, a["stride"], a["pad"][:2], a["dil"], a["groups"]))

    def forward(self):
        return [torch.cudnn_convolution_relu(*call) for call in self.calls]


# --- a model ------------------------------------------------------------------------------------------------------


class Model:
    def __init__(self, row, options, work):
        self.name, self.yaml, self.scale, size, batch, wanted = row
        self.size, self.batch, self.wanted = int(size), int(batch), float(wanted)
        self.o, self.work = options, work
        self.given = work / f"{self.yaml.replace('/', '-')}-{self.scale}.safetensors"
        if not self.given.exists():
            self.yoloc("opt", *self.source("rule"), "--save-weights", self.given)
        self.net = self.network()
        rng = numpy.random.default_rng(1)
        self.images = torch.from_numpy(rng.random((self.batch, 3, self.size, self.size), numpy.float32)).cuda()

    def yoloc(self, *words, env=None):
        return subprocess.run([self.o.build / "yoloc", *words], capture_output=True, text=True, check=True,
                              env={**os.environ, **(env or {})}).stdout

    def source(self, weights=None):
        return [str(ROOT / self.yaml), "--scale", self.scale, "--weights", str(weights or self.given), "--imgsz", str(self.size)]

    def network(self):
        folded = self.work / f"{self.name}-folded.safetensors"
        text = self.yoloc("opt", *self.source(), "--passes", "foldbn,dce", "--save-weights", folded)
        path = self.work / f"{self.name}.yir"
        path.write_text(text, encoding="utf-8")
        net, self.weights = ir.load(path, folded)
        return ir.batched(net, self.batch)

    def torch(self, dtype):
        return torch_net.Net(self.net, self.weights, ["decoded"], "cuda", dtype).eval()

    def compile(self, out, *words, cache):
        """ms from start to exit."""
        path = self.work / f"{self.name}-{out}.yoloc"
        start = time.perf_counter()
        self.yoloc("compile", *self.source(), "-o", path, "--target", self.o.target, "--batch", str(self.batch), "--precision",
                   self.o.precision, *words, env={"YOLOC_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)})
        return path, (time.perf_counter() - start) * 1e3


def compile_all(model):
    """Modules by name, and what making them took."""
    tune = [] if model.o.tune == "off" else [f"--tune={model.o.tune}"]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        untuned, cold = model.compile("untuned", cache=one)
        best, tuned = model.compile("tuned", *tune, cache=two) if tune else (untuned, None)
        cached = min(model.compile("again", *tune, cache=two if tune else one)[1] for _ in range(3))
    ms = {"untuned": cold, "tuned": tuned, "cached": cached, "load": 0.0, "torch-compile": None}
    return {OURS: best, **({"yoloc-untuned": untuned} if tune else {})}, ms


def agreement(model, runners, void):
    """Of each runner's boxes and scores against PyTorch in f32: the largest difference of a score, the mean one of a number."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with torch.inference_mode():
        n = min(model.batch, 4)
        net = ir.batched(model.net, n)
        expected = torch_net.Net(net, model.weights, ["decoded"], "cuda").eval()(
            model.images[:n].contiguous(memory_format=torch.channels_last))[0]
    rows = []
    for r in runners:
        r.outputs[0].fill_(float("nan"))
        r.call()
        torch.cuda.synchronize()
        got = r.outputs[0][:n].float()
        off = (got - expected).abs()
        row = {"runner": r.name, "output": "decoded", "score": float(off[:, 4:].max()),
               "mean": float(off.mean() / expected.abs().mean())}
        rows.append({k: v if not isinstance(v, float) or v == v else 1e30 for k, v in row.items()})
        say(f"  {r.name}: scores off by {row['score']:.1e}, numbers by {row['mean']:.1e} of their mean")
        if r.name.startswith("yoloc") and not rows[-1]["score"] <= SCORE_BOUND:
            void.append(f"{model.name}: {r.name} is off by {row['score']:.2e} in a score")
    return rows


def race(runners, least, seconds):
    """Turns of everyone in another order each time. Rounds made."""
    for r in runners:
        r.warm()
    start, n = time.perf_counter(), 0
    while n < least or time.perf_counter() - start < seconds:
        shift = n % len(runners)
        for r in runners[shift:] + runners[:shift]:
            r.call()
            r.slices.append(round(r.slice(), 5))
        n += 1
    return n


def ratio(one, other):
    by_round = [p / o for p, o in zip(other.slices, one.slices)]
    low, high = record.median_interval(by_round)
    return {"ours": one.name, "peer": other.name, "p50": round(record.median(by_round), 4), "low": round(low, 4), "high": round(high, 4)}


def stages(lib, module):
    """Wall ms of a picture in pinned host memory to boxes in host memory."""
    _, width, height = STAGED
    picture = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8).pin_memory()
    image = yolort.Image(picture.data_ptr(), width, height, 0)
    found, count, ms = (yolort.Detection * 300)(), ctypes.c_size_t(), []
    with contextlib.closing(yolort.Session(lib, module)) as session:
        for _ in range(300):
            start = time.perf_counter()
            session.detect(image, found, count)
            ms.append((time.perf_counter() - start) * 1e3)
        session.profile(yolort.PROFILE_PARTS)
        parts = []
        for _ in range(50):
            session.detect(image, found, count)
            parts.append(session.parts())
    medians = {name: round(record.median([p[name] for p in parts]), 4) for name in parts[0]}
    return {"detect": record.distribution(ms[50:], 4), "boxes": count.value, "parts": medians}


def layers(model, module):
    text = model.yoloc("bench", module, "--json", "--runs", "10", "--batch", str(model.batch))
    rows = json.loads(text)["layers"]
    kept = [{"label": r["label"], "kernel": r["kernel"], "ms": round(r["ms"], 5), "tflops": round(r["gflops_per_s"] / 1e3, 3)}
            for r in rows if r["ms"] > 0]
    return kept, sum(r["flops"] for r in rows) / 1e9


def load_ms(lib, module):
    best = 1e30
    for _ in range(5):
        start = time.perf_counter()
        session = yolort.Session(lib, module)
        best = min(best, (time.perf_counter() - start) * 1e3)
        session.close()
    return best


def variants(model, lib):
    """What each part of the way is worth: the network with it off."""
    rows = []
    tuned = [] if model.o.tune == "off" else [f"--tune={model.o.tune}"]
    with tempfile.TemporaryDirectory() as cache:
        for what, words, graph in (("all on", tuned, 0), ("tuning off", [], 0), ("fusion off", ["--no-fuse"], 0),
                                   ("CUDA graph off", tuned, yolort.GRAPH_OFF),
                                   ("parallel branches off", tuned, yolort.GRAPH_CHAIN),
                                   ("early starts off", tuned, yolort.GRAPH_FULL_EDGES)):
            module, _ = model.compile("variant", *words, cache=cache)
            r = ours(lib, what, module, model.images, model.batch, ["decoded"], graph)
            race([r], 10, 1)
            r.close()
            rows.append({"what": what, "ms": record.distribution(r.slices, 4)})
        rows += pinned(model, lib, cache)
    for row in rows:
        say(f"  {row['what']}: {row['ms']['p50']:.3f} ms")
    return rows


def pinned(model, lib, cache):
    """The whole batch from host memory and back, pinned and not."""
    rows, stream = [], torch.cuda.current_stream()
    module, _ = model.compile("variant", *([] if model.o.tune == "off" else [f"--tune={model.o.tune}"]), cache=cache)
    for what, pin in (("from pinned memory", True), ("from pageable memory", False)):
        session = yolort.Session(lib, module)
        images = model.images.cpu()
        session.bind("images", images.pin_memory() if pin else images)
        out = session.output("decoded", model.batch, "cpu")
        if pin:
            session.bind("decoded", out.pin_memory())
        ms = []
        for _ in range(12):
            start = time.perf_counter()
            session.run(model.batch, stream.cuda_stream)
            stream.synchronize()
            ms.append((time.perf_counter() - start) * 1e3)
        session.close()
        rows.append({"what": what, "ms": record.distribution(ms[2:], 4)})
    return rows


def measure(row, options, work, lib, void):
    model = Model(row, options, work)
    say(f"{model.name} {options.precision}")
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(options.precision, torch.float32)
    modules, ms = compile_all(model)
    ms["load"] = load_ms(lib, modules[OURS])
    say("  ms: " + ", ".join(f"{k} {v:.0f}" for k, v in ms.items() if v is not None))
    runners = [ours(lib, name, module, model.images, model.batch, ["decoded"]) for name, module in modules.items()]
    images = model.images.to(dtype).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        for name in options.peers:
            if name == "cudnn-convs":
                module = Convolutions(model.net, model.weights, dtype)
                graph, _ = graphed(module)
                convs = Runner(name, graph.replay, [], kept=module)
                continue
            r, took = peer(name, model.torch(dtype), images)
            ms["torch-compile"] = took if took else ms["torch-compile"]
            runners.append(r)
        agreed = agreement(model, runners, void)
        if "cudnn-convs" in options.peers:
            runners.append(convs)
        rounds = race(runners, options.rounds, options.seconds)
    for r in runners:
        say(f"  {r.name:20} {record.median(r.slices):9.4f} ms")
    ratios = [ratio(o, p) for o in runners if o.name.startswith("yoloc") for p in runners if not p.name.startswith("yoloc")]
    for q in ratios:
        say(f"  {q['peer']} / {q['ours']}: {q['p50']:.3f} ({q['low']:.3f} .. {q['high']:.3f})")
    table, gflop = layers(model, modules[OURS])
    out = {"name": model.name, "yaml": model.yaml, "scale": model.scale, "size": model.size, "batch": model.batch,
           "precision": options.precision, "wanted": model.wanted, "gflop": gflop, "agreement": agreed,
           "compile_ms": {k: None if v is None else round(v, 2) for k, v in ms.items()}, "rounds": rounds,
           "runners": [{"runner": r.name, "ms": record.distribution(r.slices, 5), "slices": r.slices} for r in runners],
           "ratios": ratios, "stages_ms": stages(lib, modules[OURS]) if model.batch == 1 else None,
           "variants": variants(model, lib) if model.name == options.variants else [], "layers": table}
    if out["stages_ms"]:
        say(f"  detect, from pinned memory: {out['stages_ms']['detect']}")
    for r in runners:
        r.close()
    torch.cuda.empty_cache()
    return out


def parse(argv):
    p = argparse.ArgumentParser(prog="bench/gpu.sh", description="Ours and PyTorch on the same networks, interleaved on one GPU.")
    names = [row[0] for row in record.table("gpu.tsv")]

    def words(text):
        return text.split(",") if text else []

    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with yoloc and libyolort.so (default build)")
    p.add_argument("--work", type=pathlib.Path, help="folder for modules and exports (default BUILD/bench-gpu-work)")
    p.add_argument("--models", type=words, default=names, help=f"of {','.join(names)}")
    p.add_argument("--precision", default="fp16", choices=["fp32", "tf32", "fp16", "bf16"])
    p.add_argument("--tune", default="fast", choices=["off", "fast", "full"])
    p.add_argument("--peers", type=words, default=[*TORCH, "cudnn-convs"], help=f"of {','.join(TORCH)},cudnn-convs")
    p.add_argument("--rounds", type=int, default=21, help="least number of rounds")
    p.add_argument("--seconds", type=float, default=4, help="of rounds for a model, at least")
    p.add_argument("--variants", default="yolov8m-b64", help="the model of the table of what each part is worth; '': none")
    p.add_argument("--target", default="", help="default: that of the first GPU")
    p.add_argument("--commit", default="unknown", help="what to record")
    p.add_argument("--out", type=pathlib.Path, help="result file (default bench/results/DATE-GPU-gpu.json)")
    o = p.parse_args(argv)
    unknown = [w for w in o.models if w not in names] + [w for w in o.peers if w not in (*TORCH, "cudnn-convs")]
    if unknown:
        p.error(f"not known: {','.join(unknown)}")
    return o


def main():
    options = parse(sys.argv[1:])
    options.work = options.work or options.build / "bench-gpu-work"
    options.work.mkdir(parents=True, exist_ok=True)
    if not options.target:
        major, minor = torch.cuda.get_device_capability()
        options.target = f"cuda:sm_{major}{minor}{'a' if major >= 9 and major < 12 else ''}"
    torch.backends.cudnn.benchmark = True
    lib = yolort.library(str(options.build / "libyolort.so"))
    date, void = datetime.datetime.now().isoformat(timespec="seconds"), []
    device = device_info()
    versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda,
                "cudnn": str(torch.backends.cudnn.version())}
    out = {"format": record.FORMAT, "what": "gpu", "date": date, "commit": options.commit, "device": device, "versions": versions,
           "void": void, "models": []}
    path = options.out or ROOT / "bench/results" / f"{date[:10]}-{device['gpu'].lower().replace(' ', '-')}-gpu.json"
    with torch.cuda.stream(torch.cuda.Stream()):
        for row in record.table("gpu.tsv"):
            if row[0] in options.models:
                out["models"].append(measure(row, options, options.work, lib, void))
                record.save(path, out, SCHEMA)  # what is measured so far stays when the rest fails
    say(f"result: {path}")
    for reason in void:
        say(f"VOID: {reason}")
    return 1 if void else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (yolort.RuntimeFailure, ir.IrError) as e:
        sys.exit(f"bench: {e}")
    except subprocess.CalledProcessError as e:
        sys.exit(f"bench: {e}\n{e.stderr}")
