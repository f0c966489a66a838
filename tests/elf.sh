#!/bin/sh
# What the built files need and show: elf.sh LIBYOLORT LIBYOLOC YOLOC LIBYOLOSIGN
libyolort=$1 libyoloc=$2 yoloc=$3 libyolosign=$4
bad=0

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# refuse FILE PATTERN: no needed library may match.
refuse() {
    found=$(needed "$1" | grep -E "$2")
    [ -z "$found" ] && return
    echo "$(basename "$1") needs $found"
    bad=1
}

# shows FILE PREFIX: every defined dynamic symbol begins so.
shows() {
    found=$(nm -D --defined-only "$1" | awk '{print $3}' | grep -v -E "^$2" | grep -v -E '^(_init|_fini|__)')
    [ -z "$found" ] && return
    echo "$(basename "$1") shows" $found
    bad=1
}

refuse "$libyolort" 'LLVM|yaml|jansson|sqlite|png|jpeg|sodium|nvrtc|cuda|stdc\+\+'
refuse "$libyoloc" 'LLVM|png|jpeg|sodium|nvrtc|cuda'
refuse "$libyolosign" 'yolo'
refuse "$yoloc" 'LLVM|nvrtc|cuda'
shows "$libyolort" 'yolort_'
shows "$libyoloc" 'yoloc_'
shows "$libyolosign" 'yolosign_'
readelf -l -W "$yoloc" | grep -q 'GNU_STACK.*RWE' && echo "yoloc has an executable stack" && bad=1
exit $bad
