#!/usr/bin/env bash
# Long runs of the fuzz targets, and what their corpora cover.
#   fuzz.sh run FOLDER [-t SECONDS] [-j JOBS] [TARGET...]   fuzzes each target so long, one after the other, on JOBS
#                                                           processes; corpora stay in FOLDER/corpus and are minimised
#   fuzz.sh cover FOLDER [TARGET...]                        lines and branches of the readers that corpora and seeds reach
# From the root of the tree. FOLDER keeps builds, corpora and what was found (FOLDER/found).
set -euo pipefail
usage() { sed -n '2,6s/^# //p' "$0"; exit 2; }
[ $# -ge 2 ] || usage
what=$1 seconds=3600 jobs=$(nproc)
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
while getopts t:j: option; do
    case $option in
    t) seconds=$OPTARG ;;
    j) jobs=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(ls tests/fuzz/fz_*.c | sed 's/.*fz_\(.*\)\.c/\1/'))

# build NAME CMAKE-OPTION...
build() {
    local name=$1
    shift
    CC=clang cmake -S . -B "$folder/$name" -G Ninja --log-level=WARNING "$@" >/dev/null
    cmake --build "$folder/$name" --target fuzz_seeds "${targets[@]/#/fz_}" >/dev/null
    "$folder/$name/tests/fuzz/fuzz_seeds" "$folder/$name/tests/fuzz/seeds"
}

# The command of a test of the build: its program, options, folders of inputs.
command_of() { # NAME TEST
    ctest --test-dir "$folder/$1" -N -V -FA . -R "^$2\$" | sed -n 's/^[0-9]*: Test command: //p'
}

run() {
    build fuzzers -DYOLOC_FUZZ=ON -DYOLOC_TESTS=OFF
    mkdir -p "$folder/found"
    printf '%-12s %14s %10s %8s %8s\n' target executions per-second edges inputs
    for t in "${targets[@]}"; do
        local corpus=$folder/corpus/$t log=$folder/$t.log words found=0
        eval "words=($(command_of fuzzers "fuzz_$t"))"
        mkdir -p "$corpus" "$corpus.new"
        local options=() seeds=()
        for w in "${words[@]:1}"; do
            case $w in
            -max_total_time=* | -artifact_prefix=* | */corpus_*) ;;
            -*) options+=("$w") ;;
            *) seeds+=("$w") ;;
            esac
        done
        "${words[0]}" "${options[@]}" -max_total_time="$seconds" -artifact_prefix="$folder/found/$t-" -fork="$jobs" \
            "$corpus" "${seeds[@]}" >"$log" 2>&1 || found=1
        "${words[0]}" "${options[@]}" -merge=1 "$corpus.new" "$corpus" >>"$log" 2>&1 || true
        rm -rf "$corpus" && mv "$corpus.new" "$corpus"
        sed -n 's/^#\([0-9]*\): cov: \([0-9]*\) .*/\1 \2/p' "$log" | tail -n 1 |
            awk -v t="$t" -v s="$seconds" -v n="$(ls "$corpus" | wc -l)" \
                '{printf "%-12s %14d %10d %8d %8d\n", t, $1, $1 / s, $2, n}'
        [ $found -eq 0 ] || echo "$t: see $folder/found and $log"
    done
    [ -z "$(ls "$folder/found")" ]
}

cover() {
    CFLAGS="-fprofile-instr-generate -fcoverage-mapping" build coverage -DCMAKE_BUILD_TYPE=Debug
    local objects=() profiles=() words
    for t in "${targets[@]}"; do
        eval "words=($(command_of coverage "replay_$t"))"
        [ -d "$folder/corpus/$t" ] && words+=("$folder/corpus/$t")
        LLVM_PROFILE_FILE="$folder/$t.profraw" "${words[@]}" >/dev/null 2>&1
        objects+=(-object "${words[0]}")
        profiles+=("$folder/$t.profraw")
    done
    llvm-profdata merge -sparse "${profiles[@]}" -o "$folder/profile"
    # Columns of llvm-cov: file, then count, missed and percent of regions, functions, lines, branches.
    local readers
    readers=$(sed -n 's/^\([a-z]*\/[a-z]*\) |.*/\1.c/p' tests/imports.txt)
    llvm-cov report "${objects[@]}" -instr-profile="$folder/profile" | awk -v readers="$readers" '
        BEGIN { n = split(readers, r, "\n"); for (i = 1; i <= n; i++) { sub(/^cli/, "frontend/cli", r[i]); want[r[i]] = 1 } }
        function line(name, l, lm, b, bm) {
            printf "%-28s %6d lines %5.1f%% %6d branches %5.1f%%\n", name, l, l ? 100 - 100 * lm / l : 100, b, b ? 100 - 100 * bm / b : 100
        }
        $1 in want { line($1, $8, $9, $11, $12); l += $8; lm += $9; b += $11; bm += $12 }
        END { line("all readers", l, lm, b, bm) }'
}

case $what in
run | cover) "$what" ;;
*) usage ;;
esac
