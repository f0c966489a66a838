#!/bin/sh
# Runs one test from the root of the source tree: run.sh [--criterion] [--limit SECONDS] PROGRAM [ARGUMENT...]
#
# The data folder is found through YOLOC_TEST_DATA, caches go to a folder of this run. Exit code 77: skipped.
# --criterion: a Criterion program that ran no test fails, and one that skipped all of them is skipped.
# --limit: the program itself is killed. (Criterion makes a process group of its own and takes SIGTERM, so a limit around
# this script leaves it behind.)
criterion=0 limit=
[ "$1" = --criterion ] && criterion=1 && shift
[ "$1" = --limit ] && limit="timeout -s KILL $2" && shift 2
: "${YOLOC_TEST_DATA:=../shared/data}"
: "${ASAN_OPTIONS:=detect_leaks=1:allocator_may_return_null=1}"
export YOLOC_TEST_DATA ASAN_OPTIONS
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
export XDG_CACHE_HOME="$scratch" YOLOC_TEST_SCRATCH="$scratch"

if [ "$criterion" -eq 0 ]; then
    $limit "$@"
    exit $?
fi
$limit "$@" --color=never --verbose >"$scratch/log" 2>&1
code=$?
cat "$scratch/log"
[ "$code" -eq 0 ] || exit "$code"
grep -q 'Synthesis: Tested: [1-9]' "$scratch/log" && exit 0
grep -q '^\[SKIP\]' "$scratch/log" && exit 77
echo "run.sh: $1 ran no test" >&2
exit 1
