#!/usr/bin/env bash
# Plants bugs, one at a time, in a copy of the tree: the named test must pass without and fail with each of them.
# Usage: planted.sh SOURCE-DIR [fuzz|dry]; bugs of tests/planted.txt and unit tests, or of tests/fuzz/planted.txt and fuzzers;
# dry: builds nothing, checks that each row of both lists still changes its file and names a test that exists.
set -euo pipefail
source_dir=$1 kind=${2:-unit}

# rows LIST: its rows, a line "FILE|EXPRESSION|TEST" each, without the spaces around the fields.
rows() { grep -v '^#' "$1" | sed 's/ *| */|/g'; }

# dry LIST FOLDER PREFIX: prints the stale rows; tests are the files FOLDER/PREFIX<test>.c.
dry() {
    local n=0 bad=0
    while IFS='|' read -r file expression test; do
        n=$((n + 1))
        if sed -e "$expression" "$file" | cmp -s - "$file"; then
            echo "planted: $1: the expression changes nothing: $file: $expression"
            bad=1
        fi
        [ -f "$2/$3$test.c" ] || { echo "planted: $1: no such test: $test"; bad=1; }
    done < <(rows "$1")
    echo "planted: $n rows of $1"
    [ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
}

if [ "$kind" = dry ]; then
    cd "$source_dir"
    bad=0
    dry tests/planted.txt tests/unit "" || bad=1
    dry tests/fuzz/planted.txt tests/fuzz fz_ || bad=1
    exit "$bad"
fi
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$source_dir" && git ls-files -z 2>/dev/null | xargs -0 cp --parents -t "$copy") || { echo "planted: no git tree"; exit 77; }
cd "$copy"

list=tests/planted.txt prefix=unit_ options=()
if [ "$kind" = fuzz ]; then
    command -v clang >/dev/null || { echo "planted: no clang"; exit 77; }
    list=tests/fuzz/planted.txt prefix=fz_
    options=(-DCMAKE_C_COMPILER=clang -DYOLOC_FUZZ=ON -DYOLOC_TESTS=OFF -DFUZZ_SECONDS=60)
fi
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING "${options[@]}" >/dev/null
if [ "$kind" = fuzz ]; then # the seeds are those of the sound tree
    cmake --build build --target fuzz_seeds >/dev/null
    build/tests/fuzz/fuzz_seeds build/tests/fuzz/seeds
fi

# passes TEST
passes() {
    if [ "$kind" = fuzz ]; then
        rm -rf "build/tests/fuzz/corpus_$1"
        mkdir "build/tests/fuzz/corpus_$1"
        ctest --test-dir build -FS . -R "^fuzz_$1\$" >/dev/null 2>&1
    else
        timeout 300 "build/tests/unit_$1" >/dev/null 2>&1
    fi
}

tests=$(rows $list | cut -d'|' -f3 | sort -u)
for t in $tests; do
    cmake --build build --target "$prefix$t" >/dev/null
    passes "$t" || { echo "planted: $prefix$t fails before anything is planted"; exit 1; }
done
missed=0 planted=0
while IFS='|' read -r -u 3 file expression test; do
    cp "$file" saved
    sed -i -e "$expression" "$file"
    if cmp -s saved "$file"; then
        echo "planted: the expression changes nothing: $file: $expression"
        missed=$((missed + 1))
        continue
    fi
    if ! cmake --build build --target "$prefix$test" >/dev/null </dev/null; then
        echo "planted: does not compile: $file: $expression"
        missed=$((missed + 1))
        cp saved "$file"
        continue
    fi
    planted=$((planted + 1))
    if passes "$test"; then
        echo "planted: not noticed by $prefix$test: $file: $expression"
        missed=$((missed + 1))
    fi
    cp saved "$file"
done 3< <(rows $list)
echo "planted: $planted bugs, $missed not noticed"
[ "$missed" -eq 0 ] && [ "$planted" -gt 0 ]
