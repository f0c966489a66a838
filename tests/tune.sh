#!/bin/bash
# Tuning and the caches of compilation as users meet them: options, summaries, broken folders, interrupts: tune.sh YOLOC
set -u
yoloc=$1
work=$YOLOC_TEST_SCRATCH/tune
top=$PWD
rm -rf "$work" && mkdir -p "$work/out" && cd "$work" || exit 1
export YOLOC_CACHE_DIR=$work/cache
unset YOLOC_CACHE
tiny=("$top/tests/tiny.yaml" --weights rule --imgsz 32)
larger=("$top/models/yolov8.yaml" --scale n --weights rule --imgsz 64)
count=0 bad=0 skipped=0

fail() { bad=$((bad + 1)); echo "FAIL $*"; sed 's/^/    /' stderr; }

# ok PATTERN WORDS...: `yoloc WORDS` ends with 0 and no error, and PATTERN is in its output.
ok() {
    local pattern=$1
    shift
    count=$((count + 1))
    "$yoloc" "$@" >stdout 2>stderr </dev/null && ! grep -q 'error: ' stderr || { fail "$*"; return; }
    grep -q -E -- "$pattern" stdout || fail "$*: no '$pattern' in the output"
}

# no PATTERN WORDS...: ends with 2 and one line of error that matches, and leaves no file.
no() {
    local pattern=$1
    shift
    count=$((count + 1))
    "$yoloc" "$@" >stdout 2>stderr </dev/null
    [ $? -eq 2 ] || { fail "$*: exit code"; return; }
    [ "$(wc -l <stderr)" -eq 1 ] && grep -q -E -- "error: .*$pattern" stderr || fail "$*: does not say '$pattern'"
    [ ! -s stdout ] && [ -z "$(ls -A out)" ] || fail "$*: left output"
}

# The summary on stdout, a Python expression over j.
json() {
    python3 -c "import json, sys; j = json.load(sys.stdin); sys.exit(0 if ($1) else 1)" <stdout || fail "not true of the JSON: $1"
}

# --- options ---
for mode in x Fast; do no 'expected off, fast or full' compile "${tiny[@]}" --tune "$mode" -o out/m; done
for time in 0 -1s x 5d 1e9 nan inf '3 s'; do no '--tune-budget.*expected a time' compile "${tiny[@]}" --tune fast --tune-budget "$time" -o out/m; done
for option in '--tune-budget 3s' '--tune-threads 1' --tune-report; do
    # shellcheck disable=SC2086
    no 'only with --tune' compile "${tiny[@]}" $option -o out/m
done
for option in --no-cudnn --deterministic '--cudnn-workspace 8'; do
    # shellcheck disable=SC2086
    no '--no-cudnn.*only with --tune' compile "${tiny[@]}" $option -o out/m
done
no 'no meaning with --no-cudnn' compile "${tiny[@]}" --tune full --no-cudnn --deterministic -o out/m
no 'no meaning with --no-cudnn' tune "${tiny[@]}" --no-cudnn --cudnn-workspace 8
no 'cudnn-workspace' tune "${tiny[@]}" --cudnn-workspace 0
no '--cache-dir has no meaning with --no-cache' compile "${tiny[@]}" --no-cache --cache-dir x -o out/m
no 'nothing to be done' tune "${tiny[@]}" --tune off
no '--strip has no meaning' tune "${tiny[@]}" --strip
no '--no-cache' tune "${tiny[@]}" --no-cache --cache-dir x
no '--cache-limit has no meaning' compile "${tiny[@]}" --no-cache --cache-limit 1M -o out/m
for size in 0 -1 x 5T 99999999999G; do no '--cache-limit.*expected a size' compile "${tiny[@]}" --cache-limit "$size" -o out/m; done
no '--tune fast has no meaning with --no-fast' compile "${tiny[@]}" --no-fast --tune fast -o out/m
no 'tune-threads' tune "${tiny[@]}" --tune-threads 0
[ ! -e cache ] || fail "a refused command line made the cache folder"

# --- tuned once, known after that ---
ok '' tune "${tiny[@]}" --tune-budget 100s --json
json 'j["version"] == 1 and j["known"] == 0 and j["left"] == 0 and 2 < j["measured"] <= j["kernels"] and j["seconds"] > 0'
json 'j["known"] + j["measured"] + j["left"] + j["single"] == j["kernels"]'
json '(j["before_ms"] is None) == (j["after_ms"] is None) and (j["before_ms"] is None or j["after_ms"] <= j["before_ms"])'
[ ! -e tiny.yoloc ] || fail "tune without -o writes a module"
ok '' tune "${tiny[@]}" --tune-budget 100 --json
json 'j["known"] > 2 and j["measured"] == 0'
ok '[1-9][0-9]* known, 0 measured' tune "${tiny[@]}" -o tuned.yoloc
ok 'compiled in' compile "${tiny[@]}" --tune fast -o fast.yoloc
cmp -s tuned.yoloc fast.yoloc || fail "what tune writes and compile --tune makes of the same records differ"
ok '[1-9][0-9]* known, 0 measured' tune tuned.yoloc
no 'is a module' tune tuned.yoloc --weights rule

# --- the same bytes, however they come ---
ok 'compiled in' compile "${tiny[@]}" --no-cache -o a.yoloc
ok 'compiled in' compile "${tiny[@]}" -o b.yoloc
ok 'compiled in' compile "${tiny[@]}" -o c.yoloc
cmp -s a.yoloc b.yoloc && cmp -s b.yoloc c.yoloc || fail "a compile from the cache gives another module"
rm -rf cache
ok 'compiled in' compile "${tiny[@]}" --tune fast --tune-budget 500ms --no-cache -o d.yoloc
ok 'compiled in' compile "${tiny[@]}" --tune fast --cache-dir "$work/elsewhere" -o d.yoloc
[ ! -e cache ] && [ -e elsewhere/tuning.sqlite ] || fail "--no-cache or --cache-dir uses another folder"

# --- folders that can't be used: one warning, the same module ---
broken() {
    local what=$1
    shift
    rm -f e.yoloc
    ok 'compiled in' compile "${tiny[@]}" "$@" -o e.yoloc
    [ "$(grep -c '050\]' stderr)" -eq 1 ] || fail "$what: not one warning"
    cmp -s a.yoloc e.yoloc || fail "$what: another module"
    ok '' compile "${tiny[@]}" --tune fast --tune-budget 100s "$@" -o f.yoloc
}
: >file
mkdir -m 0777 open && chmod 0777 open && ln -s elsewhere link
broken "a file" --cache-dir file
broken "a folder that is not there" --cache-dir absent/absent/absent
broken "open to others" --cache-dir open
broken "a link" --cache-dir link
count=$((count + 1))
env -u YOLOC_CACHE_DIR -u HOME -u XDG_CACHE_HOME "$yoloc" compile "${tiny[@]}" -o e.yoloc >stdout 2>stderr || fail "no HOME"
grep -q '050' stderr && cmp -s a.yoloc e.yoloc || fail "no HOME: no warning, or another module"
mkdir small
if mount -t tmpfs -o size=16k,mode=700 none small 2>/dev/null; then
    broken "a full disk" --cache-dir small
    umount small
    mount -t tmpfs -o ro,mode=700 none small
    broken "a read-only disk" --cache-dir small
    umount small
else
    skipped=$((skipped + 1))
fi

count=$((count + 1))
YOLOC_CACHE=banana "$yoloc" compile "${tiny[@]}" -o e.yoloc >stdout 2>stderr || fail "YOLOC_CACHE=banana"
grep -q 'neither on nor off.*050' stderr && cmp -s a.yoloc e.yoloc || fail "YOLOC_CACHE=banana: no warning, or another module"
ok 'the time did not suffice for all; --tune-budget' tune "${larger[@]}" --tune-budget 1ms --no-cache
ok 'the same command goes on' tune "${larger[@]}" --tune-budget 1ms --cache-dir elsewhere

# --- what a later version has written stays; the rest of the cache can be emptied all the same ---
count=$((count + 1))
python3 -c 'import sqlite3; sqlite3.connect("elsewhere/tuning.sqlite").execute("PRAGMA user_version = 99")'
"$yoloc" cache prune --all --cache-dir elsewhere >stdout 2>stderr
[ $? -eq 3 ] && grep -q '^0 records, [1-9][0-9]* results' stdout && grep -q 'later version' stderr || fail "prune with records of a later version"
[ -e elsewhere/tuning.sqlite ] && [ -z "$(find elsewhere/objects -type f ! -name total)" ] || fail "prune: what was to stay went, or the other way round"

# --- interrupted: exit code 130, nothing left half-way, and the next run goes on ---
# In the cache an entry's temporary file may stay; the cache itself takes those away later.
for after in 0.3 1.5; do
    rm -rf cache
    count=$((count + 1))
    timeout --preserve-status -s INT $after "$yoloc" tune "${larger[@]}" -o g.yoloc >stdout 2>stderr </dev/null
    [ $? -eq 130 ] || fail "interrupted after $after s: exit code"
    [ ! -e g.yoloc ] && [ -z "$(find . -path ./cache -prune -o -name '*.tmp*' -print)" ] || fail "interrupted after $after s: something is left"
done
# A claim that is held when the signal comes is given back, unless a second signal comes.
rm -rf cache
count=$((count + 1))
"$yoloc" tune "${larger[@]}" --cache-dir cache >stdout 2>stderr </dev/null &
pid=$! claims=0
for _ in $(seq 300); do
    claims=$(python3 -c 'import sqlite3; print(sqlite3.connect("file:cache/tuning.sqlite?mode=ro", uri=True).execute("SELECT count(*) FROM claim").fetchone()[0])' 2>/dev/null || echo 0)
    [ "$claims" -eq 0 ] || break
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
[ $? -eq 143 ] && [ "$claims" -gt 0 ] || fail "terminated while tuning: exit code, or nothing was claimed ($claims)"
[ "$(python3 -c 'import sqlite3; print(sqlite3.connect("cache/tuning.sqlite").execute("SELECT count(*) FROM claim").fetchone()[0])')" = 0 ] ||
    fail "terminated while tuning: claims are left"
ok '"left":0' tune "${tiny[@]}" --tune-budget 100s --json
ok 'records +[1-9]' cache stats

echo "$count command lines, $bad wrong, $skipped skipped"
[ $bad -eq 0 ]
