#!/usr/bin/env bash
# Plants the bugs of tests/planted.txt, one at a time, in a copy of the tree: the named unit test must pass without and
# fail with each of them. Usage: planted.sh SOURCE-DIR
set -euo pipefail
source_dir=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$source_dir" && git ls-files -z 2>/dev/null | xargs -0 cp --parents -t "$copy") || { echo "planted: no git tree"; exit 77; }
cd "$copy"
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING >/dev/null
tests=$(grep -v '^#' tests/planted.txt | awk -F' [|] ' 'NF {print $3}' | sort -u)
for t in $tests; do
    cmake --build build --target "unit_$t" >/dev/null
    "build/tests/unit_$t" >/dev/null 2>&1 || { echo "planted: unit_$t fails before anything is planted"; exit 1; }
done
missed=0 planted=0
while IFS='|' read -r file expression test; do
    file=${file// /} test=${test// /} expression=${expression# } expression=${expression% }
    cp "$file" saved
    sed -i -e "$expression" "$file"
    if cmp -s saved "$file"; then
        echo "planted: the expression changes nothing: $file: $expression"
        missed=$((missed + 1))
        continue
    fi
    cmake --build build --target "unit_$test" >/dev/null
    planted=$((planted + 1))
    if timeout 300 "build/tests/unit_$test" >/dev/null 2>&1; then
        echo "planted: not noticed by unit_$test: $file: $expression"
        missed=$((missed + 1))
    fi
    cp saved "$file"
done < <(grep -v '^#' tests/planted.txt)
echo "planted: $planted bugs, $missed not noticed"
[ "$missed" -eq 0 ] && [ "$planted" -gt 0 ]
