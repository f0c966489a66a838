#!/usr/bin/env python3
"""Mutated weights files against the libraries that define their formats: weights.py YOLOC [COUNT [SEED]]

Each file is given to `yoloc weights --json` and to torch.load(weights_only=True) or safetensors. Wanted: both refuse it, or
both read the same names, types, shapes and bytes (by digest). What differs must fall into a class of the table below, which
says why; anything else is printed and fails the test (ORACLE_KEEP=FOLDER keeps such files). Exit code 77: a library is missing
(tests/oracle/requirements.txt). The mutations follow from SEED, but each version of torch lays out a file in its own way.
"""
import collections, io, json, os, random, re, resource, struct, subprocess, sys, tempfile, warnings, zipfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

try:
    import safetensors
    import xxhash
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)
try:
    import torch
except (ImportError, OSError, ValueError) as missing:
    torch = None
    print("no torch, only safetensors files:", str(missing).splitlines()[0])

# Classes of disagreement: (format, who reads it, pattern of the other's message, why that is right).
# "ours": only yoloc reads the file; "theirs": only the library does; "both": both do, with another outcome.
CLASSES = [
    ("pt", "ours", r"^ValueError: invalid literal for int",
     "records that say how a file was laid out are not needed to read it"),
    ("pt", "ours", r"^UnicodeDecodeError", "the random name of the file is not read"),
    ("pt", "ours", r"Unsupported global: GLOBAL",
     "a name of code is only a name here: hooks are not kept, a value of unknown kind is no tensor"),
    ("pt", "ours", r"^RuntimeError: requires_grad must be a bool",
     "whether a tensor was trained is not kept"),
    ("pt", "theirs", r"^the checksum of .* is wrong|checksums of the two headers differ",
     "checksums are checked; torch leaves out those of records that it does not read, and the second copies"),
    ("pt", "theirs", r"name in its local header|(sizes|flags|methods|names) of the two headers differ",
     "both headers of an entry must agree, so that every program sees the same archive"),
    ("pt", "theirs", r"is not followed by the next one|runs into what follows it|bytes (before|after|between)",
     "an archive has no gaps and no overlaps"),
    ("pt", "theirs", r"locator|end record|central directory|several disks|comment",
     "the records at the end of an archive must be right, where torch looks for one that will do"),
    ("pt", "theirs", r"is compressed \(method", "torch unpacks what it never packs"),
    ("pt", "theirs", r"^the version of the archive", "a version is a number that is known"),
    ("pt", "theirs", r"little-endian", "a byte order that is none is not taken for the machine's own"),
    ("pt", "theirs", r"two types or sizes", "a storage has one type and size, and its record fits them"),
    ("pt", "theirs", r"names its protocol twice|pickle protocol|a pickle of protocol",
     "a pickle starts with its protocol, once, and one of those that there are"),
    ("pt", "theirs", r"storage's key is no number|list of storages does not fit|bytes after the last storage",
     "storages are those that the pickle names, in full"),
    ("pt", "theirs", r"plain pickle|neither a PyTorch",
     "a file's kind is seen from its first bytes, which torch looks for further on"),
    ("pt", "theirs", r"outside its storage", "an empty view, too, has its place inside its storage"),
    ("pt", "theirs", r"^memo index",
     "a gap in the numbers of the memo as large as this has no use; its limit can be raised"),
    ("pt", "theirs", r"^the pickle ends with", "nothing is left over when a pickle ends"),
    ("safetensors", "theirs", r"^two tensors are named",
     "names that are alike without the prefix of a wrapper"),
    ("safetensors", "theirs", r"and only these", "an unknown field may change what the known ones mean"),
    ("safetensors", "theirs", r"name is empty", "a weight without a name cannot be asked for"),
    ("safetensors", "theirs", r"duplicate object key",
     "of two tensors of one name each program takes another one"),
    ("safetensors", "theirs", r"neither a PyTorch",
     "the header starts with its brace, as the format says; the library lets blanks stand before it"),
]


# --- what the libraries read: [(name, type, shape, bytes)], or an exception -------------------------------------------
TYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "F64": "f64", "U8": "u8", "I8": "i8", "I32": "i32", "I64": "i64",
         "BOOL": "bool"}


def read_safetensors(data):
    return [(name, TYPES.get(t["dtype"], t["dtype"]), tuple(t["shape"]), bytes(t["data"])) for name, t in safetensors.deserialize(data)]


def read_pt(data):
    root = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if not isinstance(root, dict):
        raise TypeError("the root is no dict")
    names = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.uint8: "u8",
             torch.int8: "i8", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool"}
    found = []
    for name, t in root.items():
        if isinstance(t, torch.Tensor):
            dense = t.detach().contiguous()
            body = bytes(dense.view(-1).view(torch.uint8).numpy()) if dense.numel() else b""
            found.append((name, names.get(t.dtype, str(t.dtype)), tuple(t.shape), body))
    return found


READERS = {"safetensors": read_safetensors, "pt": read_pt}


def limited():
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if torch:
        torch.set_num_threads(1)


def reference(job):
    """In a process of its own, since a library may crash: (tensors, None) or (None, message)."""
    form, data = job
    try:
        return READERS[form](data), None
    except BaseException as e:  # a panic of Rust is no Exception
        return None, type(e).__name__ + ": " + " ".join(str(e).split())


# --- what yoloc reads ---------------------------------------------------------------------------------------------------
def ours(yoloc, path):
    """(listing, None) or (None, message)."""
    p = subprocess.run([yoloc, "weights", "--json", path], capture_output=True, timeout=60)
    if p.returncode == 0:
        return json.loads(p.stdout), None
    if p.returncode != 1:
        raise SystemExit("%s: exit code %d: %s" % (path, p.returncode, p.stderr[:300]))
    return None, p.stderr.decode("utf-8", "replace").split("error: ", 1)[1].splitlines()[0]


def plain(name):
    """Names as yoloc gives them: without the prefixes of wrappers."""
    for prefix in ("module.", "_orig_mod."):
        if name.startswith(prefix) and name != prefix:
            name = name[len(prefix):]
    return name


def differs(listing, tensors):
    """None, or how yoloc's listing is not that of the tensors."""
    want = {plain(t[0]): t for t in tensors}
    got = [(t["name"], t["dtype"], tuple(t["shape"])) for t in listing["tensors"]]
    if len(want) != len(tensors):
        return "names alike"
    if sorted(t[0] for t in got) != sorted(want):
        return "names"
    hash = xxhash.xxh3_128()
    for name, dtype, shape in got:
        if (dtype, shape) != want[name][1:3]:
            return "types or shapes"
        hash.update(name.encode() + b"\0" + dtype.encode() + b"\0" + struct.pack("<q%dq" % len(shape), len(shape), *shape) + want[name][3])
    return None if hash.hexdigest() == listing["digest"] else "bytes"


# --- files ----------------------------------------------------------------------------------------------------------------
def safetensors_files():
    def pack(header, body, pad=0):
        text = json.dumps(header, separators=(",", ":")).encode() if isinstance(header, dict) else header
        text += b" " * pad
        return struct.pack("<Q", len(text)) + text + body
    entry = lambda dtype, shape, a, b: {"dtype": dtype, "shape": shape, "data_offsets": [a, b]}
    body = bytes(range(1, 65))
    return [
        pack({"a.weight": entry("F32", [2, 3], 0, 24), "a.bias": entry("F16", [2], 24, 28)}, body[:28]),
        pack({"__metadata__": {"format": "pt"}, "b": entry("I64", [], 0, 8), "c": entry("U8", [3, 1], 8, 11)}, body[:11], 5),
        pack({"x": entry("BF16", [2, 0, 3], 0, 0), "y": entry("BOOL", [4], 0, 4), "module.z": entry("I8", [2, 2], 4, 8)}, body[:8]),
        pack({"t%d" % i: entry("I32", [1], 4 * i, 4 * i + 4) for i in range(6)}, body[:24]),
    ]


def pt_files():
    shared = torch.arange(24.0).reshape(4, 6)
    roots = [
        {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.tensor([1, 2], dtype=torch.float16)},
        collections.OrderedDict(x=torch.tensor(3), y=torch.tensor([True, False]), z=torch.ones(2, 1, 2, dtype=torch.bfloat16)),
        {"whole": shared, "part": shared[1:3, ::2], "turned": shared.t(), "row": shared[0].expand(3, 6)},
        {"module.p": torch.nn.Parameter(torch.ones(2, 2)), "n": torch.zeros(0, 3), "d": torch.tensor([0.5], dtype=torch.float64)},
    ]
    files = []
    for form in (True, False):
        for root in roots:
            out = io.BytesIO()
            torch.save(root, out, _use_new_zipfile_serialization=form)
            files.append(out.getvalue())
    return files


def with_checksums(data, rng):
    """The same archive with one record changed, and the checksums that follow from it."""
    z = zipfile.ZipFile(io.BytesIO(data))
    record = rng.choice([i for i in z.infolist() if i.file_size and (i.filename.endswith("data.pkl") or rng.random() < 0.2)] or z.infolist())
    at = record.header_offset
    at += 30 + sum(struct.unpack("<HH", data[at + 26:at + 30]))
    changed = mutate(data[at:at + record.file_size], rng, False)
    crc = struct.pack("<I", zipfile.crc32(changed))
    data = bytearray(data[:at] + changed + data[at + record.file_size:])
    if data[at + len(changed):][:4] == b"PK\7\x08":
        data[at + len(changed) + 4:at + len(changed) + 8] = crc
    central = data.find(b"PK\1\2" + bytes(0), z.start_dir)
    while central >= 0:
        if struct.unpack("<I", data[central + 42:central + 46])[0] == record.header_offset:
            data[central + 16:central + 20] = crc
        central = data.find(b"PK\1\2", central + 4)
    return bytes(data)


def mutate(data, rng, sizes=True):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(7 if sizes else 4)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            data[at] = rng.choice(b"\0\1\x7f\x80\xff\"[]{},:0123456789-.eE+ abtrueQRt.()Nhq")
        elif kind == 3:
            digits = [i for i, b in enumerate(data) if 48 <= b < 58] or [at]
            data[rng.choice(digits)] = 48 + rng.randrange(10)
        elif kind == 4:
            del data[at:at + rng.choice((1, 1, 2, 8, len(data)))]
        elif kind == 5:
            data[at:at] = data[at:at + rng.choice((1, 2, 8, 64))]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
    return bytes(data)


def make(form, files, rng):
    data = rng.choice(files)
    if form == "pt" and data[:2] == b"PK" and rng.random() < 0.6:
        return with_checksums(data, rng)
    if form == "safetensors" and rng.random() < 0.6:  # the header alone, with a length that fits it
        n = struct.unpack("<Q", data[:8])[0]
        header = mutate(data[8:8 + n], rng)
        return struct.pack("<Q", len(header)) + header + data[8 + n:]
    return mutate(data, rng)


# --- the comparison -------------------------------------------------------------------------------------------------------
def triage(form, listing, error, tensors, message):
    """None when both agree, else (who, message, number of the class or None)."""
    if listing is None and tensors is None:
        return None
    if listing is None:
        who, text = "theirs", error
    elif tensors is None:
        who, text = "ours", message
    else:
        text = differs(listing, tensors)
        who = "both"
        if text is None:
            return None
    number = next((i for i, c in enumerate(CLASSES) if c[:2] == (form, who) and re.search(c[2], text)), None)
    return who, text, number


def main():
    yoloc, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 4)
    sources = {"safetensors": safetensors_files()}
    if torch:
        sources["pt"] = pt_files()
    jobs = [(form, data) for form, files in sources.items() for data in files]
    sound = len(jobs)
    while len(jobs) < sound + count:
        form = list(sources)[len(jobs) % len(sources)]
        jobs.append((form, make(form, sources[form], rng)))
    tally, classes, unknown, crashes = collections.Counter(), collections.Counter(), {}, 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as threads:
        def run(i):
            path = os.path.join(folder, "%d.%s" % (i, jobs[i][0]))
            with open(path, "wb") as f:
                f.write(jobs[i][1])
            answer = ours(yoloc, path)
            os.unlink(path)
            return answer
        pool = get_context("fork").Pool(1, limited)
        for i, (listing, error) in enumerate(threads.map(run, range(len(jobs)))):
            form, data = jobs[i]
            try:
                tensors, message = pool.apply_async(reference, ((form, data),)).get(30)
            except Exception as e:  # the worker is gone or hangs
                pool.terminate()
                pool = get_context("fork").Pool(1, limited)
                tensors, message = None, "crash: " + type(e).__name__
                crashes += 1
            found = triage(form, listing, error, tensors, message)
            tally[form, listing is not None, tensors is not None] += 1
            if found and (found[2] is None or i < sound):
                unknown.setdefault((form, found[0], re.sub(r"'[^']*'|\d+", "*", found[1])), []).append(i)
                if os.environ.get("ORACLE_KEEP"):
                    open(os.path.join(os.environ["ORACLE_KEEP"], "%d.%s" % (i, form)), "wb").write(data)
            elif found:
                classes[found[2]] += 1
        pool.terminate()
    for (form, mine, theirs), n in sorted(tally.items()):
        print("%-12s yoloc %-8s library %-8s %6d" % (form, "reads" if mine else "refuses", "reads" if theirs else "refuses", n))
    for i, n in sorted(classes.items()):
        print("%6d %-12s %-7s %s" % (n, CLASSES[i][0], CLASSES[i][1], CLASSES[i][3]))
    for what, where in sorted(unknown.items()):
        print("unexplained: %d files, as %d: %s, %s: %s" % ((len(where), where[0]) + what))
    print("%d files, %d disagreements explained, %d not; the libraries crashed on %d" %
          (len(jobs), sum(classes.values()), sum(map(len, unknown.values())), crashes))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
