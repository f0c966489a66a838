#!/usr/bin/env bash
# Lists the rows of the fault tables with the tests that cover them, and checks tests/faults.tsv: every row has a test, and
# every test named exists. Usage: faults.sh [BUILD-DIR]
#
# Without a build only the names of unit tests are checked, since the others are known to ctest alone.
set -uo pipefail
[ $# -le 1 ] || { echo "usage: faults.sh [BUILD-DIR]" >&2; exit 2; }
build=
[ $# -eq 0 ] || build=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
{
    sed -n 's/^Test( *\([a-z0-9_]*\) *, *\([a-z0-9_]*\).*/\1\/\2/p' tests/unit/*.c
    [ -z "$build" ] || ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p'
} | awk -F'\t' -v built="$build" '
    FILENAME == "-" { exists[$1] = 1; next }
    /^#/ || !NF { next }
    $1 ~ /:$/ { row = substr($1, 1, length($1) - 1); order[++n] = row; text[row] = $2; next }
    {
        if (!($1 in text)) { print "faults: line " FNR ": no such row: " $1; bad = 1 }
        if (!($2 in exists) && (built != "" || $2 ~ "/")) { print "faults: " $1 ": no such test: " $2; bad = 1 }
        tests[$1] = tests[$1] " " $2
    }
    END {
        for (i = 1; i <= n; i++) {
            printf "%-4s%s\n       %s\n", order[i], text[order[i]], tests[order[i]]
            if (tests[order[i]] == "") { print "faults: " order[i] ": no test"; bad = 1 }
        }
        printf "faults: %d rows\n", n
        exit bad || !n
    }' - tests/faults.tsv
