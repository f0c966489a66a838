"""What a result file of the bench holds, its checks, and the statistics in it. Plain Python.

A record is JSON:

  format, what, date, commit       1, "cpu", ISO date and time, of the tree ("-dirty": with changes)
  device                           cpu, features, cores, caches, mhz (null: not known)
  versions                         of every runner and of Python, numpy and the kernel
  conditions                       realtime, wrapped, idle_runners, quick, folded (the peers' normalisation)
  void                             reasons why the run counts for nothing; [] when it counts
  models: name, yaml, scale, size, gflop (of its convolutions and the rest, as yoloc counts them)
    outputs                        name, shape, abs_mean, min, max, zeros, denormals, nonfinite: of the reference runner
    agreement                      runner, against, output, error (largest difference by abs_mean)
    compile_ms                     untuned, tuned, cached (null: this yoloc can't); compile_memory_mb
    detect_ms                      a distribution; detect_threads; detect_memory_mb
    load_ms                        a distribution: module from the page cache, and a context with as many threads
    runs: threads, rounds, stopped ("stable", "budget" or "rounds")
      peak_gflops                  a distribution, of all threads together
      runners                      runner, ms (a distribution), memory_mb, slices (median ms of each round)
      ratios                       ours, peer, p50, low, high (of the median, 95 %), least (of the least times)
      layers                       label, kernel, ms, gflops, share (of peak_gflops.p50); with --families of the first run alone

A distribution is {min, p10, p50, p90, n}.
"""

import json
import math
import pathlib

FORMAT = 1
JUDGED = ("onnxruntime", "openvino")  # the better of them is to be beaten
SLOW = 1.15  # a peer slower than its reference by more did not get its due
DISTRIBUTION = {"min": float, "p10": float, "p50": float, "p90": float, "n": int}
SCHEMA = {
    "format": int, "what": str, "date": str, "commit": str, "void": [str],
    "device": {"cpu": str, "features": [str], "cores": int, "caches": [str], "mhz": (float, None)},
    "versions": dict,
    "conditions": {"realtime": bool, "wrapped": bool, "idle_runners": str, "quick": bool, "folded": bool},
    "models": [{
        "name": str, "yaml": str, "scale": str, "size": int, "gflop": float,
        "outputs": [{"name": str, "shape": [int], "abs_mean": float, "min": float, "max": float, "zeros": int,
                     "denormals": int, "nonfinite": int}],
        "agreement": [{"runner": str, "against": str, "output": str, "error": float}],
        "compile_ms": {"untuned": (DISTRIBUTION, None), "tuned": (DISTRIBUTION, None), "cached": (DISTRIBUTION, None)},
        "compile_memory_mb": float,
        "detect_ms": (DISTRIBUTION, None), "detect_threads": int, "detect_memory_mb": (float, None),
        "load_ms": (DISTRIBUTION, None),
        "runs": [{
            "threads": int, "rounds": int, "stopped": str, "peak_gflops": DISTRIBUTION,
            "runners": [{"runner": str, "ms": DISTRIBUTION, "memory_mb": float, "slices": [float]}],
            "ratios": [{"ours": str, "peer": str, "p50": float, "low": float, "high": float, "least": float}],
            "layers": [{"label": str, "kernel": str, "ms": float, "gflops": float, "share": float}],
        }],
    }],
}


def check(value, schema=None, where="record"):
    """Every fault of a record against the schema, as lines of text."""
    schema = SCHEMA if schema is None else schema
    if isinstance(schema, tuple):
        return [] if value is None else check(value, schema[0], where)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{where}: no list"]
        return [fault for i, item in enumerate(value) for fault in check(item, schema[0], f"{where}[{i}]")]
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{where}: no object"]
        faults = [f"{where}: {key} {'missing' if key in schema else 'unknown'}" for key in schema.keys() ^ value.keys()]
        both = [key for key in schema if key in value]
        return faults + [f for key in both for f in check(value[key], schema[key], f"{where}.{key}")]
    fits = isinstance(value, schema) or (schema is float and isinstance(value, int))
    if not fits or (isinstance(value, bool) and schema is not bool):
        return [f"{where}: {value!r} is no {schema.__name__}"]
    if schema is float and not math.isfinite(value):
        return [f"{where}: {value} is not finite"]
    return []


def load(path, schema=None):
    """A record from a file; ValueError when it is none."""
    with open(path, encoding="utf-8") as f:
        record = json.load(f)
    faults = check(record, schema)
    if not faults and record["format"] != FORMAT:
        faults = [f"format {record['format']}, not {FORMAT}"]
    if faults:
        raise ValueError(f"{path}: " + "; ".join(faults[:5]))
    return record


def text_of(value, indent=""):
    """JSON, an object or list that holds no others on one line."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not any(isinstance(v, (dict, list)) for v in inner):
        return json.dumps(value, ensure_ascii=False)
    keys = [json.dumps(k) + ": " for k in value] if isinstance(value, dict) else [""] * len(value)
    rows = ",\n".join(f"{indent} {k}{text_of(v, indent + ' ')}" for k, v in zip(keys, inner))
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n{rows}\n{indent}{right}"


def save(path, record, schema=None):
    faults = check(record, schema)
    if faults:
        raise ValueError("; ".join(faults[:5]))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text_of(record) + "\n")


def table(name):
    """Rows of a .tsv file of this folder."""
    lines = (pathlib.Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def slow_peers(name, run):
    """Peers of a model's run that did worse than they can, by reference.tsv and the peak of both machines, as lines of text."""
    out = []
    for model, threads, runner, _, ms, peak in table("reference.tsv"):
        found = [r for r in run["runners"] if r["runner"] == runner]
        if model != name or int(threads) != run["threads"] or not found:
            continue
        expected = float(ms) * float(peak) * run["threads"] / run["peak_gflops"]["p50"]
        got = found[0]["ms"]["p50"]
        if got > SLOW * expected:
            out.append(f"{name}, {threads} threads: {runner} took {got:.1f} ms where {expected:.1f} were expected")
    return out


# --- statistics ---------------------------------------------------------------------------------------------------


def percentile(ordered, share):
    """The smallest value that at least this share of the values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values):
    return percentile(sorted(values), 0.5)


def distribution(values, digits=3):
    v = sorted(values)
    points = {"min": v[0], "p10": percentile(v, 0.1), "p50": percentile(v, 0.5), "p90": percentile(v, 0.9)}
    return {**{name: round(x, digits) for name, x in points.items()}, "n": len(v)}


def median_interval(values):
    """Between which values the true median lies, with 95 % confidence (order statistics)."""
    v = sorted(values)
    reach = 0.98 * math.sqrt(len(v))
    low, high = math.floor(len(v) / 2 - reach), math.ceil(len(v) / 2 + reach)
    return v[max(0, low)], v[min(len(v) - 1, high)]
