#!/bin/bash
# The example with libyolort and a module alone, in a root that holds nothing else: emptyroot.sh YOLOC EXAMPLE PPM
set -euo pipefail
yoloc=$1 example=$2 ppm=$3
enter=(chroot)
if [ "$(id -u)" -ne 0 ]; then
    unshare -r true 2>/dev/null || { echo "skipped: neither root nor user namespaces"; exit 77; }
    enter=(unshare -r chroot)
fi
root=$YOLOC_TEST_SCRATCH/root
mkdir -p "$root"
cp "$example" "$root/example"
# The libraries at the paths the loader will look them up: "name => path (address)", or the loader's own path.
ldd "$example" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | while read -r lib; do
    mkdir -p "$root$(dirname "$lib")"
    cp -L "$lib" "$root$lib"
done
"$yoloc" compile models/yolox.yaml --weights models/demo/yolox_nano.safetensors -o "$root/m.yoloc"
"$ppm" models/demo/photos/chelsea.png "$root/cat.ppm"
find "$root" -type f | sed "s|$root||"

"${enter[@]}" "$root" /example /m.yoloc /cat.ppm | tee "$YOLOC_TEST_SCRATCH/boxes"
grep -q '^cat ' "$YOLOC_TEST_SCRATCH/boxes"

# One changed byte anywhere: refused before anything runs.
size=$(stat -c %s "$root/m.yoloc")
for at in 60 $((size / 8)) $((size / 2)) $((size - 1)); do
    cp "$root/m.yoloc" "$root/bad.yoloc"
    byte=$(od -An -tu1 -j "$at" -N 1 "$root/bad.yoloc")
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$root/bad.yoloc" bs=1 seek="$at" conv=notrunc status=none
    if "${enter[@]}" "$root" /example /bad.yoloc /cat.ppm >"$YOLOC_TEST_SCRATCH/out" 2>&1; then
        echo "a module with byte $at changed was run"
        exit 1
    fi
done
cat "$YOLOC_TEST_SCRATCH/out"
