"""The tables and the chart of a result file: report.py RESULT.json STEM writes STEM.md and STEM.svg. Plain Python."""

import html
import pathlib
import sys

import record

NAMES = {"yoloc": "yoloc", "yoloc-untuned": "yoloc, untuned", "yoloc-bytes": "yoloc, from bytes", "onnxruntime": "ONNX Runtime",
         "openvino": "OpenVINO", "torch": "PyTorch", "torch-compile": "torch.compile"}
KERNELS = 15  # rows of a table of kernels


def by_runner(run):
    return {r["runner"]: r for r in run["runners"]}


def runners_of(rec):
    """Those that occur, in the order of NAMES."""
    found = {r["runner"] for m in rec["models"] for run in m["runs"] for r in run["runners"]}
    return [n for n in NAMES if n in found] + sorted(found - NAMES.keys())


def judged_ratio(run):
    """Against the better of the judged peers, or None."""
    ms = {name: r["ms"]["p50"] for name, r in by_runner(run).items() if name in record.JUDGED}
    best = min(ms, key=ms.get, default=None)
    return next((r for r in run["ratios"] if r["ours"] == "yoloc" and r["peer"] == best), None)


# --- tables -------------------------------------------------------------------------------------------------------


def rows_of(head, rows):
    """A table; the first column is text, the others numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in lines)


def latency(rec):
    runners = runners_of(rec)
    head = ["network", "threads", *(NAMES.get(n, n) for n in runners), "speed against the better of two", "peak"]
    rows = []
    for m in rec["models"]:
        for run in m["runs"]:
            found, ratio = by_runner(run), judged_ratio(run)
            cells = [f"{found[n]['ms']['p50']:.1f} ({found[n]['ms']['min']:.1f})" if n in found else "" for n in runners]
            speed = f"{ratio['p50']:.2f} ({ratio['low']:.2f} .. {ratio['high']:.2f})" if ratio else ""
            rows.append([f"{m['name']} {m['size']}", run["threads"], *cells, speed, f"{run['peak_gflops']['p50']:.0f}"])
    return rows_of(head, rows)


def cell(distribution):
    return f"{distribution['p50']:.{0 if distribution['p50'] >= 30 else 1}f}" if distribution else "-"


def costs(rec):
    head = ["network", "compile", "tuned", "cached", "compiler MB", "load", "detect", "detect MB"]
    rows = []
    for m in rec["models"]:
        ms = m["compile_ms"]
        memory = f"{m['detect_memory_mb']:.0f}" if m["detect_memory_mb"] is not None else "-"
        rows.append([m["name"], cell(ms["untuned"]), cell(ms["tuned"]), cell(ms["cached"]), f"{m['compile_memory_mb']:.0f}",
                     cell(m["load_ms"]), cell(m["detect_ms"]), memory])
    return rows_of(head, rows)


def memory(rec):
    runners = runners_of(rec)
    rows = []
    for m in rec["models"]:
        found = [by_runner(run) for run in m["runs"]]
        most = [max((f[n]["memory_mb"] for f in found if n in f), default=0) for n in runners]
        rows.append([m["name"], *(f"{mb:.0f}" for mb in most)])
    return rows_of(["network", *(NAMES.get(n, n) for n in runners)], rows)


def kernels(run):
    total = sum(r["ms"] for r in run["layers"])
    rows = []
    for r in sorted(run["layers"], key=lambda r: -r["ms"])[:KERNELS]:
        label = r["label"] if len(r["label"]) <= 60 else r["label"][:57] + "..."
        rows.append([label, f"{r['ms']:.2f}", f"{100 * r['ms'] / total:.1f}", f"{r['gflops']:.0f}", f"{100 * r['share']:.0f}"])
    rows.append([f"all {len(run['layers'])}", f"{total:.2f}", "100", "", ""])
    return rows_of(["kernel", "ms", "% of time", "GFLOP/s", "% of peak"], rows)


def decoding(rec):
    """What could be saved by decoding no boxes of low score: the most of it in any model."""
    shares = []
    for m in rec["models"]:
        layers = m["runs"][0]["layers"]
        spent, total = sum(r["ms"] for r in layers if r["label"].endswith("dfl_box")), sum(r["ms"] for r in layers)
        shares.append((spent / total if total else 0, spent, total, m["name"]))
    share, spent, total, name = max(shares, default=(0, 0, 0, ""))
    if not share:
        return []
    return [f"Boxes are decoded from their distributions at every place, whatever the score: {spent:.2f} of {total:.2f} ms with {name},",
            f"{100 * share:.1f} %. Skipping places would save at most that, at the price of a threshold in every call of a kernel and of a",
            "`decoded` that is not whole, so scores are filtered after the network: `yolort_nms` reads no box of a place below the threshold."]


def conditions(rec):
    c = rec["conditions"]
    words = ["runners that are not at their turn are stopped"]
    if c["realtime"]:
        words.append("runners in the real-time class")
    if c["wrapped"]:
        words.append("the machine to ourselves while measuring")
    return "; ".join(words)


def document(rec, chart, source):
    d, v = rec["device"], rec["versions"]
    peers = ", ".join(f"{NAMES[n]} {v[n]}" for n in NAMES if n in v and not n.startswith("yoloc"))
    folded = "folded into the convolutions for all" if rec["conditions"]["folded"] else "left to the peers to fold"
    plain = all(m["load_ms"] is None for m in rec["models"])  # latency alone was measured, of many networks
    parts = ["# CPU bench of all families" if plain else "# CPU bench", "",
             f"Drawn by `bench/report.py` from `{source}`; `bench/cpu.sh{' --families' if plain else ''}` makes both anew.", "",
             f"{d['cpu']}, {d['cores']} cores, {rec['date'][:10]}, commit {rec['commit']}. {peers}.",
             f"f32, batch 1, network only, the same weights and outputs: exported from yoloc's IR, normalisation {folded};",
             "every output was compared before.",
             f"{conditions(rec).capitalize()}.", ""]
    parts += [f"**Void**: {reason}." for reason in rec["void"]]
    parts += ["", f"![Median times]({chart})", "", "## Latency", "",
              "Milliseconds: median (least). The ratio is the peer's time by ours, of the better of ONNX Runtime and OpenVINO:",
              "median of all rounds, with the interval that holds it with 95 % confidence. Peak: GFLOP/s of multiply-adds that as",
              "many threads reached between the rounds. \"From bytes\" starts from the 8-bit picture, the others from f32.", "",
              latency(rec), ""]
    if plain:
        return "\n".join([*parts, "The times of each kernel are in the result file.", "", "Most resident memory of each runner, MB:", "",
                          memory(rec)]) + "\n"
    parts += decoding(rec) + [""] if decoding(rec) else []
    parts += ["## Around it", "",
              "Milliseconds; detect is one photo, process start to exit. A dash: this version has no such thing.", "",
              costs(rec), "",
              "Most resident memory of each runner, MB:", "", memory(rec), "",
             "The kernels that take longest follow, with the work of a direct convolution whatever the algorithm:",
             "Winograd's exceed the peak."]
    for m in rec["models"]:
        run = m["runs"][0]
        parts += ["", f"## Kernels of {m['name']}, {run['threads']} thread{'s' if run['threads'] > 1 else ''}", "", kernels(run)]
    return "\n".join(parts) + "\n"


# --- chart --------------------------------------------------------------------------------------------------------

COLOURS = {"yoloc": "#1b6e53", "yoloc-untuned": "#5fa58c", "yoloc-bytes": "#93c7b3", "onnxruntime": "#8a8f98",
           "openvino": "#5c77a8", "torch": "#c58a4a", "torch-compile": "#a86a5c"}
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 860, 200, 110, 14, 14, 44


class Svg:
    def __init__(self):
        self.parts = []

    def rect(self, x, y, w, h, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"/>')

    def text(self, x, y, words, anchor="start", weight="normal"):
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
        self.parts.append(f"<text {place}>{html.escape(words)}</text>")

    def document(self, width, height):
        size = f'width="{width}" height="{height:.0f}"'
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height:.0f}" '
                'font-family="sans-serif" font-size="12" fill="#222">')
        return "\n".join([head, f'<rect {size} fill="#fff"/>', *self.parts, "</svg>"]) + "\n"


def legend(svg, runners):
    x = 20
    for name in runners:
        label = NAMES.get(name, name)
        svg.rect(x, 14, 11, 11, COLOURS.get(name, "#999"))
        svg.text(x + 16, 24, label)
        x += 34 + 7 * len(label)


def group(svg, y, model, run, runners):
    """Bars of one network and number of threads, on a scale of their own; the y below them."""
    found = by_runner(run)
    shown = [n for n in runners if n in found]
    most = max(found[n]["ms"]["p50"] for n in shown)
    svg.text(LEFT - 10, y + BAR * len(shown) / 2 + 4, f"{model['name']}, {run['threads']} thr.", "end", "bold")
    for name in shown:
        ms = found[name]["ms"]["p50"]
        length = (WIDTH - LEFT - RIGHT) * ms / most
        svg.rect(LEFT, y, length, BAR - 2, COLOURS.get(name, "#999"))
        svg.text(LEFT + length + 6, y + BAR - 4, f"{ms:.1f} ms")
        y += BAR
    return y + GAP


def chart(rec):
    svg, runners, y = Svg(), runners_of(rec), TOP
    legend(svg, runners)
    for model in rec["models"]:
        for run in model["runs"]:
            y = group(svg, y, model, run, runners)
    return svg.document(WIDTH, y)


def write(argv, usage, load, chart_of, document_of):
    """The command of a report: RESULT.json STEM. The exit status."""
    if len(argv) != 3:
        print(usage, file=sys.stderr)
        return 2
    try:
        rec, stem = load(argv[1]), pathlib.Path(argv[2])
    except ValueError as e:
        sys.exit(f"report: {e}")
    stem.with_suffix(".svg").write_text(chart_of(rec), encoding="utf-8")
    stem.with_suffix(".md").write_text(document_of(rec, stem.with_suffix(".svg").name, argv[1]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write(sys.argv, __doc__, record.load, chart, document))
