#!/bin/bash
# descriptions.sh YOLOC: every description of the official line builds at every scale it has; those that people publish with
# blocks of their own build too, or end with one error that names file, line and, for a module, the nearest one that is known.
set -u
yoloc=$1
data=$YOLOC_TEST_DATA/models
scratch=$YOLOC_TEST_SCRATCH/descriptions
if [ ! -d "$data/official" ] || [ ! -d "$data/wild" ]; then
    echo "skipped: no models/official and models/wild below the test data folder"
    exit 77
fi
mkdir -p "$scratch"
faults=0 built=0 refused=0

fault() {
    echo "$1: $2"
    faults=$((faults + 1))
}

# Status of building FILE, with OPTION...; what it says is in $scratch/err.
build() {
    "$yoloc" weights "$@" --params >"$scratch/out" 2>"$scratch/err"
}

letters() {
    sed -n '/^scales:/,/^[a-z]*:/s/^ *\([a-z]\): *\[.*/\1/p' "$1" | sed '/^$/d'
}

while IFS= read -r -d '' file; do
    case $file in
    */hub/anchors.yaml)
        build "$file" && fault "$file" "holds no model, but builds"
        continue
        ;;
    esac
    for letter in $(letters "$file") ''; do
        if build "$file" ${letter:+--scale "$letter"}; then
            built=$((built + 1))
        else
            fault "$file $letter" "$(head -n 1 "$scratch/err")"
        fi
    done
done < <(find "$data/official" -name '*.yaml' -print0 | sort -z)

for file in "$data"/wild/*.yaml; do
    if build "$file"; then
        built=$((built + 1))
        continue
    fi
    refused=$((refused + 1))
    [ "$(grep -c ' error: ' "$scratch/err")" = 1 ] || fault "$file" "not one error: $(head -n 1 "$scratch/err")"
    grep -q "^$file:[0-9]*:[0-9]*: error: " "$scratch/err" || fault "$file" "the error has no place: $(head -n 1 "$scratch/err")"
    if grep -q 'error: unknown module' "$scratch/err"; then
        grep -Eq 'error: unknown module .*(did you mean|nearest that is known is) ' "$scratch/err" || fault "$file" "names nothing near"
    fi
done
echo "$built descriptions build, $refused are refused, $faults faults"
[ "$faults" = 0 ] && [ "$built" -gt 0 ]
