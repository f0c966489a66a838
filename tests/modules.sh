#!/bin/bash
# docs/modules.md says which modules and descriptions there are: modules.sh YOLOC compares it with what the command and the
# folder models/ say; modules.sh YOLOC --write writes it anew.
set -u
yoloc=$1
doc=docs/modules.md

# Letters of the scales that a description has.
letters() {
    sed -n '/^scales:/,/^$/s/^  \([a-z]*\): \[.*/\1/p' "$1" | tr '\n' ' '
}

# The module of its last row.
head_of() {
    tail -n 1 "$1" | sed 's/^ *- \[.*\], 1, \([A-Za-z0-9]*\), .*/\1/; s/^ *- \[-1, 1, \([A-Za-z0-9]*\), .*/\1/'
}

text() {
    cat <<'END'
# Families, tasks and modules

Written by `tests/modules.sh`, from `yoloc --list-modules` and the folder `models/`; the test of that name keeps it so.

## Descriptions that come with yoloc

Where the expected results are at hand, the tests `records_*` compare each of them, layer by layer and output by output, with
the reference implementation (`ctest -L long` for the larger members), and its weights by names and shapes.

| file | scales | head | what it is |
|--|--|--|--|
END
    for file in models/*.yaml; do
        printf '| %s | %s | %s | %s |\n' "$(basename "$file")" "$(letters "$file" | sed 's/ $//')" "$(head_of "$file")" \
            "$(head -n 1 "$file" | sed 's/^# //')"
    done
    cat <<'END'

## Modules

Arguments of a row in order, with their defaults. A row's repeats make a chain of equal modules, or, where it says `repeats
inside`, are an argument of the module. `ultralytics`, `yolov5` and `yolox` tell in which kind of description a module is known,
when not in all.

```
END
    "$yoloc" --list-modules
    echo '```'
}

if [ "${2-}" = --write ]; then
    text >"$doc"
    exit
fi
text | diff -u "$doc" - || { echo "$doc is not up to date: bash tests/modules.sh YOLOC --write"; exit 1; }
