"""Ours and the peers on the same networks, interleaved on this CPU; bench/cpu.sh sets it up and names its options."""

import contextlib
import datetime
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import numpy

import children
import ir
import record
from children import Machine, Runner, RunnerError, timed
from options import HERE, OURS, ROOT, parse

REFERENCE = "onnxruntime"  # whose outputs the others must give
AGREE = 1e-3  # largest difference by the tensor's mean absolute value
NO_AGREEMENT = 1e30  # stands for the error where there is no number
STABLE = 0.02  # half width of the ratio's interval, by the ratio
SLICE_SECONDS, SLICE_LEAST, SLICE_MOST = 0.3, 3, 10  # a turn of a runner
PHOTO = ROOT / "models/demo/photos/chelsea.png"


def say(*words):
    print(*words, flush=True)


# --- the machine --------------------------------------------------------------------------------------------------


def cpu_info():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        fields = dict(re.split(r"\s*:\s*", line.rstrip("\n"), maxsplit=1) for line in f if ":" in line)
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    wanted = re.compile(r"avx|fma|amx|f16c|asimd|sve|fp16|bf16|i8mm|dotprod")
    base = pathlib.Path("/sys/devices/system/cpu/cpu0")
    caches = []
    for cache in sorted(base.glob("cache/index*")):
        level, kind, size = [(cache / n).read_text().strip() for n in ("level", "type", "size")]
        caches.append(f"L{level} {kind} {size}")
    clock = base / "cpufreq/cpuinfo_max_freq"
    mhz = float(clock.read_text()) / 1e3 if clock.exists() else float(fields["cpu MHz"]) if "cpu MHz" in fields else None
    return {"cpu": fields.get("model name") or platform.machine(), "features": sorted(f for f in flags if wanted.search(f)),
            "cores": len(os.sched_getaffinity(0)), "caches": caches, "mhz": mhz}


# --- one model ----------------------------------------------------------------------------------------------------


RESULTS = ("decoded", "proto", "prob")  # what is looked at afterwards, whatever else a network gives


def results_of(net):
    """Names of the outputs that are timed."""
    return [name for name in net.outputs if name in RESULTS] or list(net.outputs)


class Own:
    """The yoloc under test and what it can."""

    def __init__(self, build, extra):
        self.yoloc, self.ours, self.peak = build / "yoloc", build / "bench/bench_ours", build / "bench/bench_peak"
        self.extra = extra
        said = self.text("compile", "--help")
        self.tunes = "--tune" in said
        self.caches = "--no-cache" in said

    def text(self, *words):
        return subprocess.run([self.yoloc, *words], capture_output=True, text=True, check=True).stdout

    def tune(self, mode):
        return [f"--tune={mode}"] if self.tunes else []


class Model:
    """Files of one network in the work folder: modules, IR text, weights, inputs."""

    def __init__(self, row, own, work, passes, stored=True):
        self.name, self.yaml, self.scale, given, size, factor = row
        self.size, self.own = int(size), own
        self.stem = str(work / self.name)
        self.given = self._stored(given) if stored else given
        self._export(passes)
        self._inputs(float(factor))

    def path(self, suffix):
        return self.stem + suffix

    def source(self, weights=None):
        scale = [] if self.scale == "-" else ["--scale", self.scale]
        return [str(ROOT / self.yaml), *scale, "--weights", weights or self.given, "--imgsz", str(self.size)]

    def _stored(self, given):
        """The weights as a file, so that making them up is no part of any time."""
        if given != "rule":
            return str(ROOT / given)
        out = self.path("-given.safetensors")
        self.own.text("opt", *self.source(given), "--save-weights", out)
        return out

    def _export(self, passes):
        weights = self.path(".safetensors")
        text = self.own.text("opt", *self.source(), "--passes", passes, "--save-weights", weights)
        pathlib.Path(self.path(".yir")).write_text(text, encoding="utf-8")
        self.net, _ = ir.load(self.path(".yir"), weights)

    def _inputs(self, factor):
        rng = numpy.random.default_rng(1)
        picture = rng.integers(0, 256, (self.size, self.size, 3), numpy.uint8)
        picture.tofile(self.path(".u8"))
        images = rng.random((1, 3, self.size, self.size), numpy.float32) * numpy.float32(factor)
        images.tofile(self.path(".f32"))
        self.beside = [name[1:] for name in list(self.net.inputs)[1:]]  # the names of what a network reads beside the picture
        for name in self.beside:
            rows = rng.random(self.net.inputs["%" + name].dims, numpy.float32) * 2 - 1
            rows.tofile(self.path(f".{name}.f32"))

    def compile(self, out, mode, cache):
        """ms and MB of one compilation."""
        env = {**os.environ, "YOLOC_CACHE_DIR": cache, "XDG_CACHE_HOME": cache}
        words = [*self.source(), "-o", self.path(out), *self.own.tune(mode), *self.own.extra]
        return timed([str(self.own.yoloc), "compile", *words], env)

    def command(self, runner, threads, outputs):
        if runner == "peak":
            return [str(self.own.peak), str(threads)]
        module, wanted, file = OURS.get(runner, (None, None, ".f32"))
        files = ",".join([self.path(file), *(self.path(f".{name}.f32") for name in self.beside)])
        if module:
            names = ",".join([wanted, *self.beside])
            return [str(self.own.ours), self.path(module), str(threads), names, files, ",".join(outputs)]
        return [sys.executable, str(HERE / "worker.py"), runner, self.path(".yir"), self.path(".safetensors"), str(threads),
                files, ",".join(outputs)]


def compile_times(model, machine, quick, void):
    """Makes the modules; what is asked of a compiler: time and memory of each way to compile."""
    own, out, memory = model.own, {"untuned": None, "tuned": None, "cached": None}, 0
    module = pathlib.Path(model.path(".yoloc"))
    with machine.window(), tempfile.TemporaryDirectory() as caches:
        for mode, file, name, n in (("off", "-untuned.yoloc", "untuned", 1 if quick else 3), ("fast", ".yoloc", "tuned", 1)):
            if mode == "fast" and not own.tunes:
                os.replace(model.path("-untuned.yoloc"), module)
                continue
            times = []
            for i in range(n):
                machine.refresh(35 if mode == "fast" else 10)
                ms, mb = model.compile(file, mode, f"{caches}/{mode}{i}")
                times.append(ms)
                memory = max(memory, mb)
            out[name] = record.distribution(times)
        if own.caches:
            last, first = f"{caches}/fast0" if own.tunes else f"{caches}/off0", module.read_bytes()
            again = [model.compile(".yoloc", "fast", last)[0] for _ in range(1 if quick else 5)]
            out["cached"] = record.distribution(again)
            if module.read_bytes() != first:
                void.append(f"{model.name}: compiled again, the module is another")
    return {"compile_ms": out, "compile_memory_mb": round(memory, 1)}


def plain_compile(model):
    """Makes the module alone."""
    with tempfile.TemporaryDirectory() as caches:
        _, mb = model.compile(".yoloc", "off", caches)
    return {"compile_ms": {"untuned": None, "tuned": None, "cached": None}, "compile_memory_mb": round(mb, 1)}


NOT_MEASURED = {"detect_ms": None, "detect_threads": 0, "detect_memory_mb": None, "load_ms": None}


def detect_times(model, machine, quick):
    """One photo, process start to exit, and loading alone; the module is in the page cache."""
    threads = min(2, len(os.sched_getaffinity(0)))
    words = ["detect", model.path(".yoloc"), str(PHOTO), "--threads", str(threads)]
    n = 3 if quick else 10
    with machine.window():
        runs = [timed([str(model.own.yoloc), *words]) for _ in range(n + 1)][1:]
        loads = []
        for _ in range(n):
            with contextlib.closing(Runner("yoloc", model.command("yoloc", threads, results_of(model.net)))) as runner:
                loads.append(runner.hello["load_ms"])
    return {"detect_ms": record.distribution([ms for ms, _ in runs]), "detect_threads": threads,
            "detect_memory_mb": round(max(mb for _, mb in runs), 1), "load_ms": record.distribution(loads)}


# --- agreement ----------------------------------------------------------------------------------------------------


def split_outputs(model, path, outputs):
    """Name to array, of what a runner dumped."""
    types, flat, out = ir.shapes(model.net), numpy.fromfile(path, numpy.float32), {}
    for name in outputs:
        shape = types[model.net.outputs[name]].dims
        n = math.prod(shape)
        out[name], flat = flat[:n].reshape(shape), flat[n:]
    if flat.size:
        raise RunnerError(f"{path}: {flat.size} numbers more than the outputs have")
    return out


def dumped(model, runner, outputs):
    path = model.path(".out")
    runner.ask("run 1", f"dump {path}")
    return split_outputs(model, path, outputs)


def queries_of(net):
    """How many queries the network picks by their scores, 0 for most."""
    return next((op.type.dims[2] for op in net.ops if op.code == "order"), 0)


def by_query(array, queries):
    """[queries, numbers] of an output that has a row for each query, of others one row of all."""
    axes = [axis for axis, size in enumerate(array.shape) if axis > 0 and size == queries]
    return numpy.moveaxis(array, axes[0], 0).reshape(queries, -1) if len(axes) == 1 else array.reshape(1, -1)


def aligned(rows, wanted, bound):
    """The rows in the order of the wanted ones: a row that is off takes the place, of those where a row is off, where it fits
    best. Queries of nearly equal score change places by rounding alone."""
    places = numpy.flatnonzero(numpy.abs(rows - wanted).max(1) > bound)
    left, out = list(places), rows.copy()
    for place in places:
        nearest = min(left, key=lambda row: numpy.abs(rows[row] - wanted[place]).max())
        left.remove(nearest)
        out[place] = rows[nearest]
    return out


def error_of(value, reference, queries=0):
    """Largest difference by the reference's mean absolute value; huge where one of them is not finite."""
    if not (numpy.isfinite(value).all() and numpy.isfinite(reference).all()):
        return NO_AGREEMENT
    mean = max(float(numpy.abs(reference).mean()), 1 / NO_AGREEMENT)
    rows, wanted = by_query(value, queries), by_query(reference, queries)
    if queries:
        rows = aligned(rows, wanted, AGREE * mean)
    return float(numpy.abs(rows - wanted).max()) / mean


def statistics(name, array):
    finite = array[numpy.isfinite(array)]
    size = numpy.abs(finite)
    odd = {"nonfinite": array.size - finite.size, "zeros": (size == 0).sum(),
           "denormals": ((size > 0) & (size < numpy.finfo(numpy.float32).tiny)).sum()}
    usual = {"abs_mean": size.mean(), "min": finite.min(), "max": finite.max()} if finite.size else dict.fromkeys(
        ("abs_mean", "min", "max"), 0)
    return {"name": name, "shape": list(array.shape), **{k: float(v) for k, v in usual.items()},
            **{k: int(v) for k, v in odd.items()}}


def agreement(model, peers, ours, void):
    """All outputs of every runner against those of the reference. Ours with bytes reads another input and is left out."""
    outputs, values, queries = list(model.net.outputs), {}, queries_of(model.net)
    for name in peers + [n for n in ours if n != "yoloc-bytes"]:
        runner = Runner(name, model.command(name, 1, outputs))
        values[name] = dumped(model, runner, outputs)
        runner.close()
    against = REFERENCE if REFERENCE in values else next(iter(values))
    rows = [{"runner": name, "against": against, "output": o, "error": error_of(values[name][o], values[against][o], queries)}
            for name in values if name != against for o in outputs]
    stats = [statistics(o, values[against][o]) for o in outputs]
    for s in stats:
        say(f"  output {s['name']} {s['shape']}: abs mean {s['abs_mean']:.4g}, {s['min']:.4g} .. {s['max']:.4g}, "
            f"{s['zeros']} zeros, {s['denormals']} denormals, {s['nonfinite']} not finite")
        if s["denormals"] or s["nonfinite"] or s["zeros"] > math.prod(s["shape"]) / 2:
            void.append(f"{model.name}: output {s['name']} is no fair work")
    for r in rows:
        say(f"  {r['runner']} against {r['against']}, {r['output']}: {r['error']:.2e}")
        if not r["error"] <= AGREE:
            void.append(f"{model.name}: {r['runner']} differs from {r['against']} in {r['output']} by {r['error']:.2e}")
    return {"outputs": stats, "agreement": rows}, values[against]


# --- measuring ----------------------------------------------------------------------------------------------------


class Race:
    """Rounds of all runners on one model with so many threads."""

    def __init__(self, model, threads, names, machine):
        self.model, self.threads, self.machine = model, threads, machine
        self.peers = [n for n in names if n not in OURS]
        self.times, self.slices, self.turn = {}, {}, {}
        self.runners = {}
        for name in ["peak"] + names:
            self.runners[name] = Runner(name, model.command(name, threads, results_of(model.net)))
            self.times[name], self.slices[name] = [], []

    def check(self, expected, void):
        """What is measured is what was compared."""
        for name, runner in self.runners.items():
            if name not in ("peak", "yoloc-bytes"):
                got = dumped(self.model, runner, results_of(self.model.net))
                error = max(error_of(array, expected[output], queries_of(self.model.net)) for output, array in got.items())
                if not error <= AGREE:
                    void.append(f"{self.model.name}, {self.threads} threads: {name} is off by {error:.2e} in the measured run")

    def calibrate(self):
        for name, runner in self.runners.items():
            least = min(runner.ask("run 3")["ms"]) if name != "peak" else 1
            self.turn[name] = min(SLICE_MOST, max(SLICE_LEAST, math.ceil(SLICE_SECONDS * 1e3 / least)))

    def seconds(self):
        """A round's, about."""
        return sum(n * (record.median(self.times[name]) / 1e3 if name != "peak" and self.times[name] else 0.05)
                   for name, n in self.turn.items())

    def round(self, number):
        """Everyone's turn, in another order each time. The first run after standing still does not count."""
        names = list(self.runners)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            if name == "peak":
                figures = self.runners[name].ask("run 6")["gflops"][1:]
            else:
                figures = self.runners[name].ask("run 1", f"run {self.turn[name]}")["ms"]
            self.times[name] += figures
            self.slices[name].append(round(record.median(figures), 4))

    def ratio(self, ours, peer):
        by_round = [p / o for p, o in zip(self.slices[peer], self.slices[ours])]
        low, high = record.median_interval(by_round)
        numbers = {"p50": record.median(by_round), "low": low, "high": high,
                   "least": min(self.times[peer]) / min(self.times[ours])}
        return {"ours": ours, "peer": peer, **{k: round(v, 4) for k, v in numbers.items()}}

    def best_peer(self):
        judged = [p for p in self.peers if p in record.JUDGED] or self.peers
        return min(judged, key=lambda p: record.median(self.times[p]), default=None)

    def stable(self):
        if not self.best_peer():
            return False
        r = self.ratio("yoloc", self.best_peer())
        return r["high"] - r["low"] <= 2 * STABLE * r["p50"]

    def run(self, least, most, budget):
        """Why it stopped. The clock that counts is that of the rounds."""
        spent, number = 0.0, 0
        for runner in self.runners.values() if self.machine.realtime else []:
            runner.prioritise()
        with self.machine.window():
            self.calibrate()
            while number < most:
                self.machine.refresh(2 * self.seconds() + 1)
                start = datetime.datetime.now()
                self.round(number)
                spent += (datetime.datetime.now() - start).total_seconds()
                number += 1
                if number >= least and self.stable():
                    return "stable"
                if number >= least and spent > budget:
                    return "budget"
        return "rounds"

    def close(self):
        for runner in self.runners.values():
            runner.close()

    def report(self, stopped, layers):
        peak = record.distribution(self.times["peak"])
        rows = [{"runner": n, "ms": record.distribution(self.times[n]), "memory_mb": r.memory_mb(), "slices": self.slices[n]}
                for n, r in self.runners.items() if n != "peak"]
        ours = [n for n in self.runners if n in OURS]
        return {"threads": self.threads, "rounds": len(self.slices["peak"]), "stopped": stopped, "peak_gflops": peak,
                "runners": rows, "ratios": [self.ratio(o, p) for o in ours for p in self.peers],
                "layers": [{**row, "share": round(row["gflops"] / peak["p50"], 4)} for row in layers]}


def layers_of(model, threads, machine):
    """Time and rate of each kernel, and the work of the whole network in GFLOP."""
    with machine.window():
        text = subprocess.run([str(model.own.yoloc), "bench", model.path(".yoloc"), "--json", "--runs", "10", "--threads",
                               str(threads)], capture_output=True, text=True, check=True).stdout
    rows = json.loads(text)["layers"]
    kept = [{"label": r["label"], "kernel": r["kernel"], "ms": round(r["ms"], 4), "gflops": r["gflops_per_s"]} for r in rows]
    return kept, sum(r["flops"] for r in rows) / 1e9


def print_run(run):
    say(f"  {run['threads']} thread(s), {run['rounds']} rounds ({run['stopped']}), peak {run['peak_gflops']['p50']:.0f} GFLOP/s")
    for r in run["runners"]:
        ms = r["ms"]
        say(f"    {r['runner']:14} {ms['p50']:9.2f} ms  (min {ms['min']:.2f}, p10 {ms['p10']:.2f}, p90 {ms['p90']:.2f}, "
            f"{ms['n']} runs)  {r['memory_mb']:.0f} MB")
    for r in run["ratios"]:
        say(f"    {r['peer']} / {r['ours']}: {r['p50']:.3f} ({r['low']:.3f} .. {r['high']:.3f}), least times {r['least']:.3f}")


def measure(model, options, machine, versions, void):
    """The record of one model."""
    say(f"{model.name} {model.size}x{model.size}")
    out = {"name": model.name, "yaml": model.yaml, "scale": model.scale, "size": model.size, "gflop": 0.0}
    out.update(plain_compile(model) if options.families else compile_times(model, machine, options.quick, void))
    ours = [n for n in options.ours if n != "yoloc-untuned" or model.own.tunes]
    agreed, expected = agreement(model, options.peers, ours, void)
    out.update(agreed)
    out.update(NOT_MEASURED if options.families else detect_times(model, machine, options.quick))
    out["runs"] = []
    for threads in options.threads:
        race = Race(model, threads, ours + options.peers, machine)
        with contextlib.closing(race):
            race.check(expected, void)
            stopped = race.run(options.rounds[0], options.rounds[1], options.budget)
            if threads == options.threads[0] or not options.families:
                layers, out["gflop"] = layers_of(model, threads, machine)
            else:
                layers = []
            run = race.report(stopped, layers)
            versions.update({n: r.hello["version"] for n, r in race.runners.items() if "version" in r.hello})
        void += record.slow_peers(model.name, run)
        print_run(run)
        out["runs"].append(run)
    return out


# --- command ------------------------------------------------------------------------------------------------------


def result_path(options, device, date):
    if options.out or options.quick:
        return options.out or options.work / "quick.json"
    cpu = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", device["cpu"].lower())).strip("-")
    folder = HERE.relative_to(ROOT) / "results"  # cpu.sh runs from the root
    folder.mkdir(exist_ok=True)
    kind = "families" if options.families else "cpu"
    names = (f"{date[:10]}-{cpu}-{kind}{i}.json" for i in ["", *(f"-{n}" for n in range(2, 1000))])
    return next(folder / name for name in names if not (folder / name).exists())


def main():
    options = parse(sys.argv[1:])
    options.work.mkdir(parents=True, exist_ok=True)
    env = os.environ
    machine = Machine(env.get("BENCH_WRAP", ""), env.get("BENCH_REALTIME") == "1", float(env.get("BENCH_WRAP_SECONDS", "40")))
    own = Own(options.build, options.compile_options)
    own.tunes &= not options.families
    date = datetime.datetime.now().isoformat(timespec="seconds")
    device, void = cpu_info(), []
    versions = {"python": platform.python_version(), "numpy": numpy.__version__, "kernel": platform.release()}
    passes = "dce" if options.unfolded else "foldbn,dce"
    models = [measure(Model(row, own, options.work, passes, not options.families), options, machine, versions, void)
              for row in options.rows]
    conditions = {**machine.conditions(), "quick": options.quick, "folded": not options.unfolded}
    out = {"format": record.FORMAT, "what": "cpu", "date": date, "commit": options.commit, "device": device,
           "versions": versions, "conditions": conditions, "void": void, "models": models}
    path = result_path(options, device, date)
    record.save(path, out)
    say(f"result: {path}")
    for reason in void:
        say(f"VOID: {reason}")
    return 1 if void else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunnerError, ir.IrError, subprocess.CalledProcessError) as e:
        sys.exit(f"bench: {e}{chr(10) + e.stderr if isinstance(e, subprocess.CalledProcessError) and e.stderr else ''}")
