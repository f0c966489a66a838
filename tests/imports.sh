#!/usr/bin/env bash
# Compares what the readers' object files import with tests/imports.txt: imports.sh BUILD-DIR LIST
set -euo pipefail
build=$1 list=$2 bad=0
patterns=() allowed=() objects=() names=()
while IFS='|' read -r pattern symbols; do
    patterns+=("${pattern%% *}")
    allowed+=("$symbols")
done < <(grep -v '^#' "$list")

for pattern in "${patterns[@]:1}"; do
    found=$(find "$build/CMakeFiles" -path "*/$pattern.c.o")
    [ "$(wc -w <<<"$found")" -eq 1 ] || { echo "imports: no one object of $pattern: $found"; exit 1; }
    objects+=("$found")
    names+=("$pattern")
done
own=$'\n'$(nm --defined-only "${objects[@]}" | awk 'NF == 3 && $2 ~ /[A-Z]/ {print $3}' | sort -u)$'\n'

# may NAME SYMBOL
may() {
    local i word
    [[ $own == *$'\n'$2$'\n'* ]] && return 0
    for i in "${!patterns[@]}"; do
        [[ $1 == ${patterns[i]} ]] || continue
        for word in ${allowed[i]}; do [[ $2 == $word ]] && return 0; done
    done
    return 1
}

set -f
for i in "${!objects[@]}"; do
    for symbol in $(nm --undefined-only "${objects[i]}" | awk '{print $2}'); do
        may "${names[i]}" "$symbol" && continue
        echo "${names[i]} imports $symbol"
        bad=1
    done
done
echo "imports: ${#objects[@]} objects"
exit $bad
