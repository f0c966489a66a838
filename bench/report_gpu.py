"""The tables and the chart of a result file of bench/gpu.sh: report_gpu.py RESULT.json STEM writes STEM.md and STEM.svg. Plain
Python."""

import sys

import record
import report
from gpu_record import SCHEMA

NAMES = {"yoloc": "yoloc", "yoloc-untuned": "yoloc, untuned", "torch": "PyTorch", "torch-graph": "PyTorch, CUDA graph",
         "torch-compile-graph": "torch.compile, CUDA graph", "cudnn-convs": "cuDNN, convolutions alone"}
COLOURS = {"yoloc": "#1b6e53", "yoloc-untuned": "#5fa58c", "torch": "#c58a4a", "torch-graph": "#a86a5c",
           "torch-compile-graph": "#8a8f98", "cudnn-convs": "#5c77a8"}
PEER = "torch-compile-graph"
KERNELS = 15  # rows of a table of kernels
NO_NUMBER = 1e30  # in records, for what is none


def runners_of(rec):
    found = {r["runner"] for m in rec["models"] for r in m["runners"]}
    return [n for n in NAMES if n in found]


def latency(rec):
    runners, rows = runners_of(rec), []
    for m in rec["models"]:
        ms = {r["runner"]: r["ms"] for r in m["runners"]}
        cells = [f"{ms[n]['p50']:.3f} ({ms[n]['p10']:.3f} .. {ms[n]['p90']:.3f})" if n in ms else "" for n in runners]
        q = next((q for q in m["ratios"] if q["ours"] == "yoloc" and q["peer"] == PEER), None)
        speed = f"{q['p50']:.2f} ({q['low']:.2f} .. {q['high']:.2f})" if q else ""
        rows.append([f"{m['name']} {m['precision']}", *cells, speed, f"{m['wanted']:g}"])
    return report.rows_of(["network", *(NAMES[n] for n in runners), "speed against torch.compile", "wanted"], rows)


def cell(ms):
    return "-" if ms is None else f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}"


def costs(rec):
    keys = ("untuned", "tuned", "cached", "load", "torch-compile")
    rows = []
    for m in rec["models"]:
        stages = m["stages_ms"]
        detect = f"{stages['detect']['p50']:.2f} ({stages['detect']['p90']:.2f})" if stages else "-"
        rows.append([m["name"], *(cell(m["compile_ms"][k]) for k in keys), detect])
    return report.rows_of(["network", "compile", "tuned", "cached", "load", "torch.compile", "picture to boxes"], rows)


def parts_of_detections(rec):
    """By events on the GPU."""
    names = ("in", "letterbox", "network", "select", "out")
    rows = [[m["name"], *(f"{m['stages_ms']['parts'][n]:.3f}" for n in names)] for m in rec["models"]
            if (m["stages_ms"] or {}).get("parts")]
    return report.rows_of(["network", "picture to the GPU", "letterbox", "network alone", "selection", "boxes back"], rows)


def agreement(rec):
    def number(v):
        return "not compared" if v >= NO_NUMBER else f"{v:.1e}"

    rows = [[f"{m['name']} {m['precision']}", NAMES.get(a["runner"], a["runner"]), number(a["score"]), number(a["mean"])]
            for m in rec["models"] for a in m["agreement"]]
    return report.rows_of(["network", "runner", "largest difference of a score", "mean difference of a number"], rows)


def worth(model):
    rows = [[v["what"], f"{v['ms']['p50']:.3f}", f"{v['ms']['p10']:.3f} .. {v['ms']['p90']:.3f}"] for v in model["variants"]]
    return report.rows_of([model["name"], "ms", "p10 .. p90"], rows)


def kernels(model):
    total = sum(r["ms"] for r in model["layers"]) or 1
    rows = [[r["label"][:60], f"{1e3 * r['ms']:.1f}", f"{100 * r['ms'] / total:.1f}", f"{r['tflops']:.1f}"]
            for r in sorted(model["layers"], key=lambda r: -r["ms"])[:KERNELS]]
    rows.append([f"all {len(model['layers'])}", f"{1e3 * total:.1f}", "100", ""])
    return report.rows_of(["kernel", "us", "% of time", "TFLOP/s"], rows)


def document(rec, chart, source):
    d, v = rec["device"], rec["versions"]
    parts = ["# GPU bench", "", f"Drawn by `bench/report_gpu.py` from `{source}`; `bench/gpu.sh` measures.", "",
             f"{d['gpu']}, {d['multiprocessors']} multiprocessors, driver {d['driver']}, {rec['date'][:10]}, commit {rec['commit']}. "
             f"PyTorch {v['torch']}, CUDA {v['cuda']}, cuDNN {v['cudnn']}.",
             "Network only, inputs and outputs in the GPU's memory, the same weights exported from yoloc's IR; normalisation folded for",
             "all; PyTorch in channels_last with cudnn.benchmark. All runners in one process on one stream, in turns of some 15 ms, in",
             "another order each round. Outputs were compared with PyTorch in f32 first.", ""]
    parts += [f"**Void**: {reason}." for reason in rec["void"]]
    parts += ["", f"![Median times]({chart})", "", "## Latency", "",
              "Milliseconds a run: median of the turns (p10 .. p90). The ratio is torch.compile's time by ours, median of all rounds with the",
              "interval that holds it with 95 % confidence.", "", latency(rec), "", "## Around it", "",
              "Milliseconds; compile: process start to exit. Picture to boxes: `yolort_detect` of an 1080 x 810 picture in pinned memory to",
              "boxes in host memory, median (p90); below, its parts by events on the GPU.", "", costs(rec), "", parts_of_detections(rec), "",
              "## Agreement", "", agreement(rec)]
    for m in rec["models"]:
        if m["variants"]:
            parts += ["", f"## What each part is worth: {m['name']}", "", worth(m)]
    parts += ["", "Kernels below are timed alone, sixteen launches in a row, so that what goes on between kernels does not count."]
    for m in rec["models"]:
        parts += ["", f"## Kernels of {m['name']}", "", kernels(m)]
    return "\n".join(parts) + "\n"


def chart(rec):
    svg, runners, y = report.Svg(), runners_of(rec), report.TOP
    x = 20
    for name in runners:
        svg.rect(x, 14, 11, 11, COLOURS[name])
        svg.text(x + 16, 24, NAMES[name])
        x += 34 + 7 * len(NAMES[name])
    for m in rec["models"]:
        ms = {r["runner"]: r["ms"]["p50"] for r in m["runners"]}
        shown = [n for n in runners if n in ms]
        svg.text(report.LEFT - 10, y + report.BAR * len(shown) / 2 + 4, m["name"], "end", "bold")
        for name in shown:
            length = (report.WIDTH - report.LEFT - report.RIGHT) * ms[name] / max(ms[n] for n in shown)
            svg.rect(report.LEFT, y, length, report.BAR - 2, COLOURS[name])
            svg.text(report.LEFT + length + 6, y + report.BAR - 4, f"{ms[name]:.3f} ms")
            y += report.BAR
        y += report.GAP
    return svg.document(report.WIDTH, y)


if __name__ == "__main__":
    sys.exit(report.write(sys.argv, __doc__, lambda path: record.load(path, SCHEMA), chart, document))
