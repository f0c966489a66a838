#!/usr/bin/env python3
"""The bench's record and report on a stored run: bench_report.py [--update] [BUILD-FOLDER]

--update writes the golden files tests/bench/sample.md and .svg; review their diff. Needs plain Python.
"""

import contextlib
import copy
import io
import json
import pathlib
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import children
import options
import record
import report

SAMPLE = "tests/bench/sample.json"

faults = []


def expect(what, got, wanted):
    if got != wanted:
        faults.append(f"{what}: {got!r} instead of {wanted!r}")


def golden(name, text, update):
    path = ROOT / "tests/bench" / name
    if update:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        faults.append(f"{path.name} is not what the report gives now; --update writes it")


def check_schema(sample):
    def broken(words, change):
        other = copy.deepcopy(sample)
        change(other)
        said = record.check(other)
        if len(said) != 1 or words not in said[0]:
            faults.append(f"{words}: {said}")

    def ms(r):
        return r["models"][0]["runs"][0]["runners"][0]["ms"]

    expect("faults of the sample", record.check(sample), [])
    expect("the sample as text, read again", json.loads(record.text_of(sample)), sample)
    expect("text", record.text_of({"a": [], "b": [{"c": 1}, {"d": [2]}]}),
           '{\n "a": [],\n "b": [\n  {"c": 1},\n  {\n   "d": [2]\n  }\n ]\n}')
    broken("record: commit missing", lambda r: r.pop("commit"))
    broken("record: extra unknown", lambda r: r.update(extra=1) or None)
    broken("is no float", lambda r: ms(r).update(p50="1"))
    broken("is no int", lambda r: ms(r).update(n=True))
    broken("is not finite", lambda r: ms(r).update(min=float("nan")))
    broken("record.void: no list", lambda r: r.update(void=None))
    broken("record.device: no object", lambda r: r.update(device=[]))


def check_statistics():
    values = list(range(1, 101))
    expect("distribution", record.distribution(values), {"min": 1, "p10": 10, "p50": 50, "p90": 90, "n": 100})
    expect("distribution of one", record.distribution([2.5]), {"min": 2.5, "p10": 2.5, "p50": 2.5, "p90": 2.5, "n": 1})
    expect("interval", record.median_interval(values), (41, 61))
    expect("interval of three", record.median_interval([3, 1, 2]), (1, 3))


def check_rule(sample):
    """A peer that is slow for this machine voids; on a slower machine the same time does not."""
    run = copy.deepcopy(sample["models"][0]["runs"][0])
    run["peak_gflops"]["p50"] = 173.0
    peer = next(r for r in run["runners"] if r["runner"] == "onnxruntime")
    peer["ms"]["p50"] = 76 * 1.14
    expect("14 % slower", record.slow_peers("yolov8n", run), [])
    peer["ms"]["p50"] = 76 * 1.16
    expect("16 % slower", len(record.slow_peers("yolov8n", run)), 1)
    run["peak_gflops"]["p50"] = 100.0
    expect("16 % slower at 58 % of the peak", record.slow_peers("yolov8n", run), [])
    expect("of a network without reference", record.slow_peers("other", run), [])


def check_children(build):
    runner = children.Runner("peak", [f"{build}/bench/bench_peak", "1"])
    expect("figures", len(runner.ask("run 1", "run 3")["gflops"]), 3)
    if not runner.memory_mb() > 0:
        faults.append("a runner without memory")
    runner.close()
    try:
        children.Runner("ended", ["false"])
        faults.append("a runner that ended at once was taken")
    except children.RunnerError as e:
        expect("message", str(e), "ended: ended, exit code 1")


def check_timed():
    burden = bytearray(200 << 20)  # of the process that asks, not of the command
    burden[::4096] = b"x" * len(burden[::4096])
    ms, mb = children.timed([sys.executable, "-S", "-c", "import time; time.sleep(0.05)"])
    if not 50 <= ms < 30000 or not 1 < mb < 100:
        faults.append(f"a command took {ms} ms and {mb} MB")
    try:
        children.timed([sys.executable, "-S", "-c", "import sys; sys.exit('words')"])
        faults.append("a command that failed was taken")
    except children.RunnerError as e:
        if "words" not in str(e):
            faults.append(f"the error of a command is lost: {e}")


def check_options():
    def refused(*words):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            options.parse(list(words))
            faults.append(f"{words} was taken")

    got = options.parse(["--models=yolov8n", "--threads=1,4", "--ours=yoloc-bytes", "--peers=", "--quick"])
    expect("options", (got.models, got.threads, got.ours, got.peers), (["yolov8n"], [1, 4], ["yoloc", "yoloc-bytes"], []))
    refused("--models=none")
    refused("--peers=none")
    refused("--ours=none")
    refused("--rounds=3")
    refused("--fast")


def main(argv):
    update = "--update" in argv
    sample = json.loads((ROOT / SAMPLE).read_text(encoding="utf-8"))
    chart = report.chart(sample)
    xml.etree.ElementTree.fromstring(chart)
    golden("sample.svg", chart, update)
    golden("sample.md", report.document(sample, "sample.svg", SAMPLE), update)
    check_schema(sample)
    check_statistics()
    check_rule(sample)
    check_timed()
    check_options()
    for build in [a for a in argv[1:] if a != "--update"]:
        check_children(build)
    print(f"{len(faults)} faults")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
