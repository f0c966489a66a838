#!/usr/bin/env bash
# Switches off the validations of every checks.def, one at a time, in a build made with YOLOC_MUTATION: the test that its
# row names must pass without and fail with each. Usage: checks.sh BUILD-DIR [N]
#
# BUILD-DIR: such a build, or another one, in whose folder mutation/ it is then made with the same compiler.
# N: only every Nth row, starting with another one each day. CHECKS_ONLY=REGEX: only the rows whose id or test matches.
set -uo pipefail
[ $# -ge 1 ] || { echo "usage: checks.sh BUILD-DIR [N]" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 2
step=${2:-1}
cd "$(dirname "$0")/.." || exit 2
if ! grep -q '^YOLOC_MUTATION:BOOL=ON$' "$build/CMakeCache.txt"; then
    cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
    build=$build/mutation
    cmake -S . -B "$build" --log-level=WARNING -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 \
        -DYOLOC_MUTATION=ON >/dev/null && cmake --build "$build" --target unit_tests -j "$(nproc)" >"$build/build.log" 2>&1 ||
        { echo "checks: $build cannot be built" >&2; tail "$build/build.log" >&2; exit 2; }
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
limit=${CHECKS_LIMIT:-60} # seconds for one test
ulimit -c 0
export build scratch limit

# "ID ROW TEST" a line, of all tables.
list_checks() {
    cat ./*/checks.def frontend/cli/checks.def 2>/dev/null |
        sed -n 's/^CHECK( *\([A-Z0-9_]*\) *, *"\([^"]*\)" *, *"\([^"]*\)" *).*/\1 \2 \3/p'
}

# run_test SUITE/NAME: 0 passed, 77 skipped, else failed. A hang is a failure.
run_test() {
    tests/run.sh --criterion --limit $((limit + 10)) "$build/tests/unit_${1%%/*}" --filter "$1" --timeout "$limit" \
        >"$scratch/$2.log" 2>&1
}

# The test as it is: lines "TEST STATE".
without() {
    run_test "$1" "plain-${1//\//-}"
    case $? in
        0) echo "$1 passes" ;;
        77) echo "$1 skipped" ;;
        *) echo "$1 fails" ;;
    esac
}

# The test with one check off: a line only for what survived.
with_off() {
    YOLOC_CHECK_OFF=$1 run_test "$3" "off-$1" && echo "checks: $1 ($2) is not needed by $3"
    return 0
}
export -f run_test without with_off

list_checks | awk -v n="$step" -v day="$(date +%j)" -v only="${CHECKS_ONLY:-.}" \
    '$1 ~ only || $3 ~ only { if ((NR + day) % n == 0) print }' >"$scratch/rows"
total=$(wc -l <"$scratch/rows")
[ "$total" -gt 0 ] || { echo "checks: no rows" >&2; exit 2; }
[ "$step" -eq 1 ] || echo "checks: every ${step}th row, from $(cut -d' ' -f1 "$scratch/rows" | head -1) on"
bad=0

list_checks | cut -d' ' -f1 | sort | uniq -d >"$scratch/twice"
[ -s "$scratch/twice" ] && { sed 's/^/checks: an id stands twice: /' "$scratch/twice"; bad=1; }
cut -d' ' -f3 "$scratch/rows" | sort -u | xargs -P "$(nproc)" -I{} bash -c 'without "$1"' _ {} >"$scratch/plain"
grep -v ' passes$' "$scratch/plain" | grep -v ' skipped$' | sed 's/^/checks: with all checks: /' && bad=1
grep ' skipped$' "$scratch/plain" | sed 's/^/checks: /'

# Only what passes can fail for the right reason.
awk 'NR == FNR { if ($2 == "passes") ok[$1] = 1; next } $3 in ok' "$scratch/plain" "$scratch/rows" >"$scratch/ready"
xargs -P "$(nproc)" -L 1 bash -c 'with_off "$@"' _ <"$scratch/ready" >"$scratch/survived"
cat "$scratch/survived"
[ -s "$scratch/survived" ] && bad=1
echo "checks: $(wc -l <"$scratch/ready") of $total switched off, $(wc -l <"$scratch/survived") not noticed"
exit "$bad"
