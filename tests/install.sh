#!/bin/bash
# Installs into a scratch prefix and uses what lies there, as a stranger would: install.sh BUILD CC PPM
set -euo pipefail
build=$1 cc=$2 ppm=$3
work=$YOLOC_TEST_SCRATCH prefix=$YOLOC_TEST_SCRATCH/prefix
cmake --install "$build" --prefix "$prefix" >"$work/log" || { cat "$work/log"; exit 1; }

for f in bin/yoloc include/yolort.h include/yoloc.h include/yolosign.h share/man/man1/yoloc.1 share/yoloc/models/yolov8.yaml \
         share/yoloc/models/demo/NOTICE share/yoloc/models/demo/yolox_nano.safetensors \
         share/doc/yoloc/NOTICE share/doc/yoloc/docs/usage.md; do
    [ -f "$prefix/$f" ] || { echo "not installed: $f"; exit 1; }
done
lib=$(dirname "$(find "$prefix" -name libyolort.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig

models=$prefix/share/yoloc/models
"$prefix/bin/yoloc" compile "$models/yolox.yaml" --weights "$models/demo/yolox_nano.safetensors" -o "$work/m.yoloc"
"$ppm" models/demo/photos/chelsea.png "$work/cat.ppm"

# try NAME COMPILER-WORDS...: builds the example with them; it must find the cat.
try() {
    local name=$1
    shift
    "$cc" -std=c11 docs/example_detect.c -o "$work/$name" "$@"
    LD_LIBRARY_PATH=$lib "$work/$name" "$work/m.yoloc" "$work/cat.ppm" | tee "$work/boxes"
    grep -q '^cat ' "$work/boxes" || { echo "$name: no cat"; exit 1; }
}
try shared $(pkg-config --cflags --libs yolort)
readelf -d "$work/shared" | grep -q 'libyolort\.so\.0'

printf '#include <yoloc.h>\nint main(void) { return yoloc_version() == 0; }\n' >"$work/v.c"
"$cc" -std=c11 "$work/v.c" -o "$work/v" $(pkg-config --cflags --libs yoloc)
LD_LIBRARY_PATH=$lib "$work/v"

# signed NAME COMPILER-WORDS...: builds the other example; it loads what was signed, by that key alone.
signed() {
    local name=$1
    shift
    "$cc" -std=c11 docs/example_signed.c -o "$work/$name" "$@"
    LD_LIBRARY_PATH=$lib "$work/$name" "$work/m.yoloc" "$work/k.pub"
    ! LD_LIBRARY_PATH=$lib "$work/$name" "$work/m.yoloc" "$work/other.pub"
}
"$prefix/bin/yoloc" sign --new-key "$work/k"
"$prefix/bin/yoloc" sign --new-key "$work/other"
"$prefix/bin/yoloc" sign "$work/m.yoloc" --key "$work/k.key"
signed signed $(pkg-config --cflags --libs yolort yolosign)

# Static: the same words with --static, where only the archives are left.
rm "$lib"/lib*.so*
try static $(pkg-config --cflags --static --libs yolort)
"$cc" -std=c11 "$work/v.c" -o "$work/v" $(pkg-config --cflags --static --libs yoloc)
"$work/v"
signed signed-static $(pkg-config --cflags --static --libs yolort yolosign)
