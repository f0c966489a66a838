#!/bin/bash
# Eight processes compile one model at once, each to a file of its own, and eight more to one path: every file is the one that a lone process
# writes, and what lies at the shared path is whole at any time: parallel.sh YOLOC
set -u
yoloc=$1
work=$YOLOC_TEST_SCRATCH/parallel
mkdir -p "$work"
bad=0

# compile MODEL OUTPUT OPTION...
compile() {
    "$yoloc" compile "$1" -w rule -o "$2" "${@:3}" >"$2.log" 2>&1
}

# at_once SHARED NAME MODEL OPTION...: SHARED 1: eight more, all to one file.
at_once() {
    local shared=$1 name=$2 model=$3 jobs=() i
    shift 3
    compile "$model" "$work/$name.lone" "$@" || { cat "$work/$name.lone.log"; exit 1; }
    for i in 1 2 3 4 5 6 7 8; do
        compile "$model" "$work/$name.$i" "$@" &
        jobs+=($!)
        [ "$shared" -eq 0 ] && continue
        "$yoloc" compile "$model" -w rule -o "$work/$name.shared" "$@" >"$work/shared.$i.log" 2>&1 &
        jobs+=($!)
    done
    while [ -n "$(jobs -r)" ]; do
        if [ -e "$work/$name.shared" ] && ! cmp -s "$work/$name.lone" "$work/$name.shared"; then
            echo "FAIL $name: the shared file was not whole at some time"
            bad=1
        fi
        sleep 0.05
    done
    for i in "${jobs[@]}"; do
        wait "$i" || { echo "FAIL $name: a process failed"; cat "$work"/*.log; bad=1; }
    done
    for i in 1 2 3 4 5 6 7 8 shared; do
        [ "$i$shared" = shared0 ] && continue
        cmp -s "$work/$name.lone" "$work/$name.$i" || { echo "FAIL $name.$i differs from what a lone process writes"; bad=1; }
    done
}

at_once 1 tiny tests/tiny.yaml --imgsz 32
at_once 0 yolov8n models/yolov8.yaml --scale n --imgsz 64
[ -z "$(find "$work" -name '*.tmp*' -o -name '.yoloc*' | head -1)" ] || { echo "FAIL: left a temporary file"; bad=1; }
[ "$bad" -eq 0 ] && echo "parallel: 24 compilations, all alike"
exit "$bad"
