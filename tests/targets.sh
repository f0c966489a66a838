#!/bin/bash
# Each CPU target runs on a CPU that has just what it needs, and is refused by one that has less (qemu's user mode); the
# results are those of cpu:native on this machine: targets.sh YOLOC CROSSRUN XXHASH-INCLUDE
# 77 where there is no emulator. For aarch64 the runtime and tests/crossrun.c are built by the cross compiler.
set -u
yoloc=$1 crossrun=$2 xxhash=$3
work=$YOLOC_TEST_SCRATCH/targets
mkdir -p "$work"
bad=0 count=0

fail() { echo "FAIL $*"; bad=1; }

# compiled NAME TARGET MODEL OPTION...: $work/NAME.TARGET
compiled() {
    "$yoloc" compile "$3" -w rule -t "cpu:$2" -o "$work/$1.$2" "${@:4}" >"$work/log" 2>&1 ||
        { cat "$work/log"; fail "$1 does not compile for $2"; return 1; }
}

# same NAME TARGET RUNNER...: what RUNNER gives is within bounds of NAME.want
same() {
    count=$((count + 1))
    "${@:3}" "$work/$1.$2" "$work/out" "$work/$1.want" >"$work/log" 2>&1 && return
    cat "$work/log"
    fail "$1 for $2 by ${*:3}"
}

# refused NAME TARGET RUNNER...: INCOMPATIBLE, not a signal
refused() {
    local code
    count=$((count + 1))
    "${@:3}" "$work/$1.$2" "$work/out" >"$work/log" 2>&1
    code=$?
    [ $code -eq 15 ] && return
    cat "$work/log"
    fail "$1 for $2 by ${*:3}: exit code $code, not 15"
}

# networks COMMAND: COMMAND NAME MODEL OPTION... for each
networks() {
    "$1" tiny tests/tiny.yaml --imgsz 64
    "$1" yolov8n models/yolov8.yaml --scale n --imgsz 64
    "$1" generic models/yolov8.yaml --scale n --imgsz 32 --no-fast
}

reference() {
    compiled "$1" native "${@:2}" && "$crossrun" "$work/$1.native" "$work/$1.want" >"$work/log" 2>&1 && return
    cat "$work/log"
    fail "$1 on this machine"
}

arm() { compiled "$1" aarch64 "${@:2}" && same "$1" aarch64 qemu-aarch64 "$work/crossrun"; }
v2() { compiled "$1" x86-64-v2 "${@:2}" && same "$1" x86-64-v2 qemu-x86_64 -cpu Nehalem "$crossrun"; }
v3() { compiled "$1" x86-64-v3 "${@:2}" && same "$1" x86-64-v3 qemu-x86_64 -cpu Haswell "$crossrun"; }

x86() {
    networks v3
    v2 tiny tests/tiny.yaml --imgsz 64
    compiled tiny x86-64-v4 tests/tiny.yaml --imgsz 64
    refused tiny x86-64-v3 qemu-x86_64 -cpu Nehalem "$crossrun"
    refused tiny x86-64-v4 qemu-x86_64 -cpu Haswell "$crossrun"
    refused tiny aarch64 "$crossrun"
}

cross_build() {
    mkdir -p "$work/include"
    cp "$xxhash/xxhash.h" "$work/include/"
    aarch64-linux-gnu-gcc -static -std=c11 -O1 -D_GNU_SOURCE -DYOLOC_VERSION=1u -DYOLOC_VERSION_TEXT='"test"' -ffp-contract=off \
        -I. -I"$work/include" runtime/*.c tests/crossrun.c -lm -lpthread -o "$work/crossrun" ||
        { fail "the runtime does not build for aarch64"; return 1; }
}

tools() { command -v "$@" >/dev/null 2>&1; }
[ "$(uname -m)" = x86_64 ] || { echo "targets: written for x86-64 machines"; exit 77; }
tools qemu-x86_64 && tools qemu-aarch64 && tools aarch64-linux-gnu-gcc || { echo "targets: no qemu-user or no gcc for aarch64"; exit 77; }
networks reference
cross_build && networks arm
x86
[ "$bad" -eq 0 ] && echo "targets: $count runs"
exit "$bad"
