"""The options of bench/cpu.sh: options.py [OPTION...] ends with 2 when they are wrong. Plain Python."""

import argparse
import pathlib
import subprocess
import sys

import record

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

PEERS = ("onnxruntime", "openvino", "torch", "torch-compile")  # keys of worker.RUNNERS

# Ours: module, input, file of the input.
OURS = {
    "yoloc": (".yoloc", "images", ".f32"),
    "yoloc-untuned": ("-untuned.yoloc", "images", ".f32"),
    "yoloc-bytes": (".yoloc", "input_u8", ".u8"),
}


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)

    head = git("rev-parse", "--short=12", "HEAD")
    if head.returncode != 0:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    return head.stdout.strip() + ("-dirty" if changed else "")


def parse(argv):
    what = "Ours and the peers on the same networks, interleaved on this CPU."
    tables = argparse.ArgumentParser(add_help=False)
    tables.add_argument("--families", action="store_true", help="the networks of families.tsv: latency alone, untuned")
    families = tables.parse_known_args(argv)[0].families
    table = record.table("families.tsv" if families else "models.tsv")
    names = [row[0] for row in table]
    p = argparse.ArgumentParser(prog="bench/cpu.sh", description=what, parents=[tables])

    def words(text):
        return text.split(",") if text else []

    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder with yoloc (default build)")
    p.add_argument("--work", type=pathlib.Path, help="folder for modules and exports (default BUILD/bench-work)")
    p.add_argument("--models", type=words, default=names, help=f"of {','.join(names)}")
    p.add_argument("--threads", type=words, default=["1", "2"], help="default 1,2")
    p.add_argument("--peers", type=words, default=list(PEERS[:2] if families else PEERS[:3]),
                   help=f"of {','.join(PEERS)}; default all but the last, with --families the first two")
    p.add_argument("--ours", type=words, default=["yoloc"] if families else list(OURS),
                   help=f"of {','.join(OURS)}; yoloc is always there")
    p.add_argument("--rounds", type=words, default=["5", "12"] if families else ["15", "60"],
                   help="least and most, default 15,60, with --families 5,12")
    p.add_argument("--budget", type=float, default=20 if families else 90,
                   help="seconds of rounds for a model and a number of threads, default 90, with --families 20")
    p.add_argument("--quick", action="store_true", help="a few rounds only: whether all works, not how fast")
    p.add_argument("--unfolded", action="store_true", help="give the peers the network with its normalisation by itself")
    p.add_argument("--compile-options", type=str.split, default=[], help="for every yoloc compile")
    p.add_argument("--commit", default=commit(), help="what to record (default: of this tree)")
    p.add_argument("--out", type=pathlib.Path,
                   help="result file (default bench/results/DATE-CPU-cpu.json, or with --quick WORK/quick.json)")
    o = p.parse_args(argv)
    o.rows = [row for row in table if row[0] in o.models]
    o.threads = [int(t) for t in o.threads]
    o.rounds = [int(n) for n in o.rounds] if not o.quick else [3, 3]
    o.work = o.work or o.build / "bench-work"
    o.ours = ["yoloc"] + [n for n in o.ours if n != "yoloc"]
    unknown = [word for given, known in ((o.models, names), (o.ours, OURS), (o.peers, PEERS)) for word in given
               if word not in known]
    if unknown or len(o.rounds) != 2 or o.rounds[0] < 1:
        p.error(f"not known: {','.join(unknown)}" if unknown else "--rounds LEAST,MOST")
    return o


if __name__ == "__main__":
    parse(sys.argv[1:])
