#!/bin/bash
# The command as users meet it: help, exit codes, one clear error for each bad input, no partial file: cli.sh YOLOC
set -u
yoloc=$1
work=$YOLOC_TEST_SCRATCH/cli
data=$YOLOC_TEST_DATA
demo=models/demo photos=models/demo/photos
mkdir -p "$work"
count=0 bad=0 skipped=0

# refused CODE NUMBERS WORDS...: `yoloc WORDS` must end with CODE and one error whose [Ennn] matches NUMBERS
# (an extended regular expression), and leave nothing at $work/out.
refused() {
    local code=$1 numbers=$2 got
    shift 2
    rm -rf "$work/out"
    "$yoloc" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
    got=$?
    count=$((count + 1))
    local errors wrong=""
    errors=$(grep -c 'error: ' "$work/stderr")
    [ "$got" -eq "$code" ] || wrong="exit code $got, wanted $code"
    [ "$errors" -eq 1 ] || wrong="$wrong; $errors errors"
    grep -q -E "error: .*\[E($numbers)\]" "$work/stderr" || wrong="$wrong; not E$numbers"
    [ ! -e "$work/out" ] || wrong="$wrong; left a file"
    [ -z "$(find "$work" -name '*.tmp*' -o -name '.yoloc*' | head -1)" ] || wrong="$wrong; left a temporary file"
    report "$wrong" "$@"
}

# accepted PATTERN WORDS...: ends with 0 and PATTERN is in its output.
accepted() {
    local pattern=$1 got wrong=""
    shift
    "$yoloc" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null
    got=$?
    count=$((count + 1))
    [ "$got" -eq 0 ] || wrong="exit code $got"
    grep -q -E -- "$pattern" "$work/stdout" || wrong="$wrong; no '$pattern' in the output"
    report "$wrong" "$@"
}

report() {
    local wrong=$1
    shift
    [ -n "$wrong" ] || return
    bad=$((bad + 1))
    echo "FAIL yoloc $*: ${wrong#; }"
    sed 's/^/    /' "$work/stderr"
}

# said PATTERN: the last command's standard error holds it.
said() {
    grep -q -E -- "$1" "$work/stderr" && return
    bad=$((bad + 1))
    echo "FAIL: the message does not say '$1':"
    sed 's/^/    /' "$work/stderr"
}

# json FILTER: the last command's standard output is JSON for which the Python expression over `j` holds.
json() {
    python3 -c "import json, sys; j = json.load(sys.stdin); sys.exit(0 if ($1) else 1)" <"$work/stdout" && return
    bad=$((bad + 1))
    echo "FAIL: not true of the JSON output: $1"
    head -c 600 "$work/stdout"
}

have_data() {
    [ -e "$data/$1" ] && return 0
    skipped=$((skipped + 1))
    return 1
}

# --- help, lists, usage ---
accepted 'compile.*' --help
accepted '[0-9]+\.[0-9]+\.[0-9]+' --version
for c in compile predict detect run bench inspect verify sign tune cache weights opt devices; do
    accepted "usage: yoloc $c" "$c" --help
    refused 2 001 "$c" --no-such-option
done
refused 2 001 detct m.yoloc x.jpg
said 'detect'
accepted 'conv2d' --list-ops
accepted 'C2f' --list-modules
accepted 'foldbn' --list-passes
refused 2 001 --explain E999
accepted 'known' --explain E106
accepted 'cpu' devices

# --- limits: each named, refused by that name, and raised by the option ---
accepted 'yaml-depth +32 +512' --list-limits
for c in compile predict detect run bench inspect verify sign tune cache weights opt; do
    accepted '--limit NAME=N' "$c" --help
done
refused 2 001 weights models/yolov8.yaml --limit yaml-dept=40
said 'did you mean yaml-depth'
refused 2 001 weights models/yolov8.yaml --limit yaml-depth
refused 2 001 weights models/yolov8.yaml --limit yaml-depth=0
refused 1 005 weights models/yolov8.yaml --limit yaml-bytes=100
said 'raise it with --limit yaml-bytes=N'
refused 1 005 weights models/yolov8.yaml --limit yaml-values=9 --limit yaml-bytes=10M
accepted 'model.0.conv.weight' weights models/yolov8.yaml --limit yaml-values=200000 --limit yaml-bytes=10M,layers=20K
refused 1 113 compile models/yolov8.yaml --weights rule --imgsz 8224 -o "$work/out"
said 'limit image-size=N'
refused 1 005 compile models/yolox.yaml --weights $demo/yolox_nano.safetensors --limit tensors=10 -o "$work/out"
refused 1 005 compile models/yolox.yaml --weights $demo/yolox_nano.safetensors --limit weights-bytes=1M -o "$work/out"
refused 1 005 compile models/yolov8.yaml --weights rule --imgsz 64 --limit activation-bytes=1K -o "$work/out"
"$yoloc" >"$work/stdout" 2>"$work/stderr"
[ $? -eq 2 ] || { bad=$((bad + 1)); echo "FAIL: yoloc without words does not end with 2"; }

# --- model descriptions ---
refused 1 002 compile "$work/absent.yaml" --weights rule -o "$work/out"
printf 'nc: 3\nbackbone:\n  - [-1, 1, Convv, [16, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]\n' >"$work/unknown.yaml"
refused 1 106 compile "$work/unknown.yaml" --weights rule -o "$work/out"
said 'unknown\.yaml:3:13: error:'
said 'Conv'
printf 'nc: 3\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\nhead:\n  - [[7], 1, Detect, [nc]]\n' >"$work/from.yaml"
refused 1 105 compile "$work/from.yaml" --weights rule -o "$work/out"
said 'from\.yaml:5:'
printf 'nc: 3\nbackbone:\n  - [-1, 1, Conv]\nhead:\n  - [[0], 1, Detect, [nc]]\n' >"$work/row.yaml"
refused 1 104 compile "$work/row.yaml" --weights rule -o "$work/out"
said 'row\.yaml:3:'
printf 'nc: 3\nbackbone:\n  - [-1, 1, Conv, [wide, 3, 2]]\nhead:\n  - [[0], 1, Detect, [nc]]\n' >"$work/args.yaml"
refused 1 '107|110' compile "$work/args.yaml" --weights rule -o "$work/out"
printf 'nc: [3\n' >"$work/syntax.yaml"
refused 1 101 compile "$work/syntax.yaml" --weights rule -o "$work/out"
refused 1 108 compile models/yolov8.yaml --weights rule --scale q -o "$work/out"
refused 1 '007|101|102|103|203' compile "$photos/chelsea.png" --weights rule -o "$work/out"
refused 2 001 compile
refused 2 001 compile models/yolov8.yaml --weights rule --nc -3 -o "$work/out"
refused 2 '001|113' compile models/yolov8.yaml --weights rule --imgsz 0 -o "$work/out"
refused 2 402 compile models/yolov8.yaml --weights rule --scale n --imgsz 32 --target cpu:none -o "$work/out"
refused 1 002 compile models/yolov8.yaml --weights "$work/absent.pt" -o "$work/out"
refused 3 003 compile models/yolov3-tiny.yaml --weights rule --imgsz 32 -o "$work/no/folder/out"

# An output never takes the place of an input.
cp "$demo/yolox_nano.safetensors" "$work/keep.safetensors"
refused 2 001 compile models/yolox.yaml --scale nano --weights "$work/keep.safetensors" -o "$work/keep.safetensors"
cp models/yolox.yaml "$work/keep.yaml"
refused 2 001 opt "$work/keep.yaml" --scale nano --weights rule -o "$work/keep.yaml"
refused 2 001 opt "$work/keep.yaml" --scale nano --weights rule --save-weights "$work/keep.yaml"
refused 2 001 opt "$work/keep.yaml" --scale nano --weights "$work/keep.safetensors" --save-weights "$work/keep.safetensors"
cmp -s models/yolox.yaml "$work/keep.yaml" && cmp -s "$demo/yolox_nano.safetensors" "$work/keep.safetensors" ||
    { bad=$((bad + 1)); echo "FAIL: an input was overwritten"; }

# The weights that IR text names, as numbers: those of the text after its passes.
accepted '^%1 = conv2d .* @6:5 model\.0\.conv$' opt tests/tiny.yaml --locs
accepted 'fold' opt tests/tiny.yaml --weights rule --passes foldbn,dce --save-weights "$work/named.safetensors"
sed -n 's/^w  *\$\([^ ]*\).*/\1/p' "$work/stdout" | sort >"$work/named"
accepted 'bias-folded f32' weights "$work/named.safetensors"
sed -n 's/^  \([^ ]*\) f32 .*/\1/p' "$work/stdout" | sort | cmp -s - "$work/named" ||
    { bad=$((bad + 1)); echo "FAIL: opt --save-weights wrote other weights than its text names"; }
refused 2 001 opt tests/tiny.yaml --save-weights "$work/none.safetensors"
printf 'in %%x : f32[1,1,4,4] nchw\n%%1 = relu %%x : f32[1,1,4,4] nchw\nout y = %%1\n' >"$work/relu.yir"
refused 2 001 opt "$work/relu.yir" --save-weights "$work/none.safetensors"
[ ! -e "$work/none.safetensors" ] || { bad=$((bad + 1)); echo "FAIL: weights were written after an error"; }

# A NaN among the weights: a warning with count, or with --strict an error. The first four bytes of the data become it.
accepted 'conv2d' opt tests/tiny.yaml --weights rule --save-weights "$work/nan.safetensors"
printf '\0\0\300\177' |
    dd of="$work/nan.safetensors" bs=1 seek=$((8 + $(od -An -tu8 -N8 "$work/nan.safetensors"))) conv=notrunc 2>/dev/null
accepted 'f32' weights "$work/nan.safetensors"
said 'warning: NaN or infinite values: 1 in 1 tensor.*W252'
refused 1 209 weights "$work/nan.safetensors" --strict
refused 1 209 compile tests/tiny.yaml --weights "$work/nan.safetensors" --strict -o "$work/out"
said 'note: .*: 1 of '
if "$yoloc" compile tests/tiny.yaml --weights "$work/nan.safetensors" -o "$work/nan.yoloc" >"$work/stdout" 2>"$work/stderr"; then
    said 'NaN or infinite values: 1 in 1 tensor.*W252'
    refused 1 209 compile "$work/nan.yoloc" --strict -o "$work/out"
fi

# What is no file with text in it: an error at once, no waiting and no empty success.
: >"$work/empty.yir"
refused 1 007 opt "$work/empty.yir"
rm -f "$work/fifo" && mkfifo "$work/fifo"
for words in "compile $work/fifo" "opt $work/fifo" "inspect $work/fifo" "weights $work/fifo"; do
    # shellcheck disable=SC2086
    refused 1 '002|007' $words
done
rm "$work/fifo"

# --- weights ---
printf '<!DOCTYPE html>\n<html><body>404</body></html>\n' >"$work/page.pt"
refused 1 '007|201|203' compile "$work/page.pt" -o "$work/out"
said 'web page|HTML'
refused 1 '007|201|203' weights "$work/page.pt"
: >"$work/empty.pt"
refused 1 '007|201|203' compile "$work/empty.pt" -o "$work/out"
said 'empty'
head -c 100000 "$demo/yolox_nano.safetensors" >"$work/cut.safetensors"
refused 1 205 compile models/yolox.yaml --weights "$work/cut.safetensors" -o "$work/out"
said 'cut\.safetensors'
refused 1 '114|206' compile models/yolox.yaml --weights "$demo/yolox_nano.safetensors" --nc 3 -o "$work/out"
refused 1 206 compile models/yolov8.yaml --scale n --weights "$demo/yolox_nano.safetensors" -o "$work/out"
if have_data weights/tiny_v8_detect.pt; then
    refused 1 207 compile "$demo/yolox_nano.safetensors" -o "$work/out"
    head -c 200000 "$data/weights/tiny_v8_detect.pt" >"$work/cut.pt"
    refused 1 '201|203' compile "$work/cut.pt" -o "$work/out"
    refused 1 '114|206' compile "$data/weights/tiny_v8_detect.pt" --nc 80 -o "$work/out"
    for f in "$data"/weights/bad_*; do
        refused 1 '007|201|203' compile "$f" -o "$work/out"
    done
    accepted 'model\.0\.conv\.weight' weights "$data/weights/tiny_v8_detect.pt"
    accepted '.' weights "$data/weights/tiny_v8_detect.pt" --json
    json 'isinstance(j, dict)'
    # No row of a yaml: no line.
    accepted '' compile "$data/weights/tiny_v8_detect.pt" --imgsz 64 -o "$work/pickled.yoloc"
    accepted 'ok .* \([0-9]+ elements\)$' verify "$work/pickled.yoloc" --imgsz 64 --samples 8
    accepted '\(model\.0\.conv [^,]*\)$' inspect "$work/pickled.yoloc" --kernels
fi
accepted '^model\.22\.dfl\.conv\.weight 1,16,1,1$' weights models/yolov8.yaml --scale n --nc 80
accepted '3157200' weights models/yolov8.yaml --scale n --nc 80 --params

# --- a module, and what can be done with it ---
accepted '' compile models/yolox.yaml --weights "$demo/yolox_nano.safetensors" --imgsz 416 -o "$work/m.yoloc"
accepted 'cat' detect "$work/m.yoloc" "$photos/chelsea.png"
accepted '' detect "$work/m.yoloc" "$photos/chelsea.png" --json
json 'j["version"] == 1 and len(j["images"]) == 1'
json '(j["images"][0]["width"], j["images"][0]["height"]) == (451, 300)'
json '[d["name"] for d in j["images"][0]["detections"]] == ["cat"]'
json 'all(set(d) == {"class", "name", "score", "box"} and len(d["box"]) == 4 for d in j["images"][0]["detections"])'
accepted '' detect "$work/m.yoloc" "$photos" --json
json 'len(j["images"]) == 3'
accepted '' detect "$work/m.yoloc" "$photos/chelsea.png" --json --conf 0.999
json 'j["images"][0]["detections"] == []'
accepted '' detect "$work/m.yoloc" "$photos/chelsea.png" --coco
json 'len(j) == 1 and set(j[0]) >= {"image_id", "category_id", "bbox", "score"}'
accepted '^15 0\.' detect "$work/m.yoloc" "$photos/chelsea.png" --txt
accepted '' detect "$work/m.yoloc" "$photos/chelsea.png" --save "$work/drawn" --dump-input "$work/inputs"
[ -s "$work/inputs/chelsea.png" ] && [ -n "$(ls "$work/drawn")" ] ||
    { bad=$((bad + 1)); echo "FAIL: --save or --dump-input left no picture"; }
refused 3 003 detect "$work/m.yoloc" "$photos/chelsea.png" --save "$work/m.yoloc"
refused 3 003 detect "$work/m.yoloc" "$photos/chelsea.png" --save "$work/m.yoloc/out"
refused 2 001 detect "$work/m.yoloc" "$work/inputs/chelsea.png" --save "$work/inputs"
accepted '' bench "$work/m.yoloc" --json
json 'j["version"] == 1 and {"model", "target", "precision", "batch", "threads", "images_per_s"} <= set(j)'
json '0 < j["latency_ms"]["min"] <= j["latency_ms"]["p50"] <= j["latency_ms"]["p90"] <= j["latency_ms"]["p99"]'
json 'len(j["layers"]) > 10'
json 'all(l["ms"] > 0 for l in j["layers"])'
accepted 'yolox' inspect "$work/m.yoloc"
accepted '.' verify "$work/m.yoloc"
refused 2 001 verify "$work/m.yoloc" --samples 0
refused 2 001 verify "$work/m.yoloc" --bound 0
refused 2 001 verify "$work/m.yoloc" --precision half
accepted 'fp16: worst layer' verify "$work/m.yoloc" --precision fp16 --imgsz 32 --samples 8

# Half precision on this CPU: the same cat.
accepted '' compile "$work/m.yoloc" --precision fp16 -o "$work/half.yoloc"
accepted 'fp16' inspect "$work/half.yoloc"
accepted '' detect "$work/half.yoloc" "$photos/chelsea.png" --json
json '[d["name"] for d in j["images"][0]["detections"]] == ["cat"]'
json 'abs(j["images"][0]["detections"][0]["score"] - 0.622) < 0.02'
json 'all(abs(a - b) < 4 for a, b in zip(j["images"][0]["detections"][0]["box"], (0, 0, 449.5, 300)))'

refused 1 '002' detect "$work/absent.yoloc" "$photos/chelsea.png"
printf '{nc: 1, ch: 1, backbone: [[-1, 1, Conv, [8, 3, 2]]], head: [[[0], 1, Detect, [nc]]]}' >"$work/grey.yaml"
accepted '' compile "$work/grey.yaml" --weights rule --imgsz 32 -o "$work/grey.yoloc"
refused 1 504 detect "$work/grey.yoloc" "$photos/chelsea.png"
said 'takes no pictures, which have three channels'
refused 1 '501|007' detect "$demo/yolox_nano.safetensors" "$photos/chelsea.png"
refused 1 '002' detect "$work/m.yoloc" "$work/absent.jpg"
refused 1 '008|007' detect "$work/m.yoloc" "$work/page.pt"
head -c 20000 "$photos/chelsea.png" >"$work/cut.png"
refused 1 '008' detect "$work/m.yoloc" "$work/cut.png"
said 'cut\.png'
mkdir -p "$work/nothing"
refused 1 '[0-9]+' detect "$work/m.yoloc" "$work/nothing"
refused 2 001 detect "$work/m.yoloc"
refused 2 001 detect "$work/m.yoloc" "$photos/chelsea.png" --rect
refused 2 001 detect "$work/m.yoloc" "$photos/chelsea.png" --json --txt
refused 2 001 detect "$work/m.yoloc" "$photos/chelsea.png" --conf 1.5

# --- tasks: what belongs to each, and options that mean nothing for it ---
# Of the boxes of this network one has a mask without pixels.
accepted '' compile models/yolo11-seg.yaml --scale n -w rule --imgsz 64 --nc 2 -o "$work/seg.yoloc"
accepted '' predict "$work/seg.yoloc" "$photos/chelsea.png" --json
json 'j["images"][0]["detections"] and all(len(d["mask"]["counts"]) > 1 for d in j["images"][0]["detections"])'
if have_data weights/parts_v8_pose.pt; then
    parts=$data/images/parts
    compile_part() { accepted '' compile "$data/weights/parts_$1.pt" --imgsz 160 -o "$work/$1.yoloc"; }
    compile_part v8_pose
    accepted '' predict "$work/v8_pose.yoloc" "$parts/0001.png" --json
    json 'all(len(d["keypoints"]) == 4 and len(d["keypoints"][0]) == 3 for d in j["images"][0]["detections"]) and len(j["images"][0]["detections"]) == 2'
    accepted '' predict "$work/v8_pose.yoloc" "$parts/0001.png" --coco
    json 'len(j) == 2 and all(len(d["keypoints"]) == 12 for d in j)'
    accepted '^0( 0\.[0-9]+){17}$' predict "$work/v8_pose.yoloc" "$parts/0001.png" --txt
    compile_part 11_obb
    accepted '' predict "$work/11_obb.yoloc" "$parts/0001.png" --json --save "$work/turned"
    json 'all(len(d["obb"]["corners"]) == 4 and 0 <= d["obb"]["angle"] < 1.6 for d in j["images"][0]["detections"]) and j["images"][0]["detections"]'
    [ -s "$work/turned/0001.png" ] || { bad=$((bad + 1)); echo "FAIL: no turned boxes were drawn"; }
    compile_part 11_segment
    accepted '' predict "$work/11_segment.yoloc" "$parts/0001.png" --json
    json 'all(sum(d["mask"]["counts"]) == 150 * 200 for d in j["images"][0]["detections"]) and j["images"][0]["detections"]'
    accepted '' predict "$work/11_segment.yoloc" "$parts/0001.png" --coco
    json 'all(isinstance(d["segmentation"]["counts"], str) for d in j)'
    accepted '' compile "$data/weights/parts_26_detect.pt" --imgsz 160 --head one2one -o "$work/one.yoloc"
    accepted '"head":"best"' inspect "$work/one.yoloc" --json
    accepted 'disc' predict "$work/one.yoloc" "$parts/0001.png"
    refused 2 001 predict "$work/one.yoloc" "$parts/0001.png" --iou 0.5
fi
if have_data weights/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt; then
    accepted '' compile "$data/weights/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt" --imgsz 64 -o "$work/cls.yoloc"
    accepted 'rain' predict "$work/cls.yoloc" "$data/images/bus.jpg"
    accepted '' predict "$work/cls.yoloc" "$data/images/bus.jpg" --json
    json 'j["images"][0]["detections"] == [] and j["images"][0]["probs"][0]["name"] == "rain"'
    refused 2 001 predict "$work/cls.yoloc" "$data/images/bus.jpg" --conf 0.5
    refused 2 001 predict "$work/cls.yoloc" "$data/images/bus.jpg" --coco
fi

# --- networks that compare with texts ---
# texts FILE ROWS: zeros for so many classes.
texts() {
    local header size=$(($2 * 512 * 4))
    header=$(printf '%-120s' "{\"txt_feats\":{\"dtype\":\"F32\",\"shape\":[$2,512],\"data_offsets\":[0,$size]}}")
    { printf '\170\0\0\0\0\0\0\0%s' "$header"; head -c "$size" /dev/zero; } >"$1"
}
accepted '' compile models/yolov8-worldv2.yaml --scale n --nc 3 --weights rule --imgsz 32 --tune off -o "$work/world.yoloc"
texts "$work/three.safetensors" 3
texts "$work/two.safetensors" 2
refused 2 001 predict "$work/world.yoloc" "$photos/chelsea.png"
said 'embeddings FILE brings txt_feats, F32 \[3,512\]'
accepted '' predict "$work/world.yoloc" "$photos/chelsea.png" --embeddings "$work/three.safetensors" --json
accepted '' predict "$work/world.yoloc" "$photos/chelsea.png" --embeddings "$work/three.safetensors" --imgsz 64
refused 1 '[0-9]+' predict "$work/world.yoloc" "$photos/chelsea.png" --embeddings "$work/two.safetensors"
said 'holds no txt_feats'
refused 1 '[0-9]+' predict "$work/world.yoloc" "$photos/chelsea.png" --embeddings "$work/nowhere"
refused 2 001 predict "$work/m.yoloc" "$photos/chelsea.png" --embeddings "$work/three.safetensors"

refused 1 '[0-9]+' run "$work/m.yoloc" --in "$demo/yolox_nano.safetensors" --out "$work/out"
python3 - "$work/half.safetensors" <<'EOF'
import struct, sys
n = 3 * 416 * 416 * 2
head = b'{"images":{"dtype":"F16","shape":[1,3,416,416],"data_offsets":[0,%d]}}' % n
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + bytes(n))
EOF
refused 1 506 run "$work/m.yoloc" --in "$work/half.safetensors" --out "$work/out"
said 'is 1x3x416x416 \(F16\), the module wants Bx3x416x416 \(F32\)'
# Tensors in, every output out: one picture as bytes is the same picture as numbers, alone and in a batch.
printf '{nc: 1, backbone: [[-1, 1, Conv, [8, 3, 2]]], head: [[[0], 1, Detect, [nc]]]}' >"$work/small.yaml"
accepted '.' compile "$work/small.yaml" --weights rule --imgsz 32 --batch 2 -o "$work/small.yoloc"
"$yoloc" inspect "$work/small.yoloc" --json >"$work/small.json"
# What --keep-kernels is for, in a build that has LLVM; twice, as the second time the cache has the code.
rm -rf "$work"/kept*
for i in 1 2; do
    accepted '.' compile "$work/small.yaml" --weights rule --imgsz 32 --batch 2 --keep-kernels "$work/kept$i" -o "$work/kept.yoloc"
    cmp -s "$work/kept.yoloc" "$work/small.yoloc" && grep -q '^kernel ' "$work/kept$i/fused.yir" && grep -q ' = LOAD ' "$work/kept$i/programs.kb" &&
        grep -q '^define ' "$work/kept$i/kernels.ll" && [ -s "$work/kept$i/code.bin" ] ||
        { bad=$((bad + 1)); echo "FAIL: --keep-kernels kept something else: $(ls "$work/kept$i")"; }
done
# What a file says stays on its line of a listing, and moves no cursor.
head='{"a\n\u001b[31m":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}'
printf "\\$(printf %03o ${#head})\\0\\0\\0\\0\\0\\0\\0%sx" "$head" >"$work/odd.safetensors"
accepted '^  a\\x0a\\x1b\[31m u8 -$' weights "$work/odd.safetensors"
printf '{nc: 1, names: ["b\\n\\e[31m"], backbone: [[-1, 1, Conv, [8, 3, 2]]], head: [[[0], 1, Detect, [nc]]]}' >"$work/odd.yaml"
accepted '.' compile "$work/odd.yaml" --weights rule --imgsz 32 -o "$work/odd.yoloc"
accepted '^class 0 b\\x0a\\x1b\[31m$' inspect "$work/odd.yoloc"
cat >"$work/tensors.py" <<'EOF'
import array, json, struct, sys

def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    at = lambda t: [8 + n + x for x in t["data_offsets"]]
    return {k: (t["dtype"], t["shape"], data[slice(*at(t))]) for k, t in head.items()}

def write(path, gap=0, **tensors): # gap: of the data from a multiple of 8
    head, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * ((gap - len(text)) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)

def floats(pixels): # RGB rows to planes
    return array.array("f", (struct.unpack("f", struct.pack("f", p / 255))[0] for c in range(3) for p in pixels[c::3])).tobytes()

work = sys.argv[1]
a, b = (bytes((i * step + 7) % 256 for i in range(32 * 32 * 3)) for step in (11, 5))
if len(sys.argv) == 2:
    write(work + "/a8.st", other=("I64", [1], bytes(8)), input_u8=("U8", [32, 32, 3], a))
    write(work + "/a.st", 3, images=("F32", [1, 3, 32, 32], floats(a)))
    write(work + "/ba8.st", input_u8=("U8", [2, 32, 32, 3], b + a))
    write(work + "/three.st", input_u8=("U8", [3, 32, 32, 3], b + a + b))
    write(work + "/none.st", input_u8=("U8", [0, 32, 32, 3], b""))
    write(work + "/wide.st", images=("F32", [1, 3, 32, 33], bytes(4 * 3 * 32 * 33)))
    write(work + "/named.st", image=("F32", [1, 3, 32, 32], floats(a)))
    sys.exit()
one, same, two = (read(work + name) for name in ("/a8.out", "/a.out", "/ba8.out"))
io = {x["name"]: x["shape"] for x in json.load(open(work + "/small.json"))["io"] if x["output"]}
assert io and set(one) == set(same) == set(two) == set(io), "other outputs than inspect names"
for name, shape in io.items():
    assert one[name][:2] == ("F32", [1] + shape[1:]) and two[name][:2] == ("F32", [2] + shape[1:]), name + ": another shape"
    assert any(one[name][2]) and one[name][2] == two[name][2][len(one[name][2]):] != two[name][2][:len(one[name][2])], name
    near = zip(array.array("f", one[name][2]), array.array("f", same[name][2]))
    assert all(abs(x - y) <= 1e-4 * (1 + abs(x)) for x, y in near), name + ": bytes and numbers differ"
EOF
python3 "$work/tensors.py" "$work"
for name in a8 a ba8; do
    echo 'an older file' >"$work/$name.out"
    count=$((count + 1))
    "$yoloc" run "$work/small.yoloc" --in "$work/$name.st" --out "$work/$name.out" >"$work/stdout" 2>"$work/stderr" </dev/null ||
        report "exit code $?" run "$name.st"
    [ ! -s "$work/stderr" ] || report "a message" run "$name.st"
done
count=$((count + 1))
python3 "$work/tensors.py" "$work" compare || { bad=$((bad + 1)); echo "FAIL: run --out writes other tensors"; }
accepted 'decoded' weights "$work/a8.out"
for name in three none wide named; do
    refused 1 506 run "$work/small.yoloc" --in "$work/$name.st" --out "$work/out"
done
refused 1 '002' run "$work/small.yoloc" --in "$work/absent.st" --out "$work/out"
refused 3 '003' run "$work/small.yoloc" --in "$work/a.st" --out "$work/no/such/folder"
refused 3 '003' run "$work/small.yoloc" --in "$work/a.st" --out "$work/nothing"
cp "$work/a.st" "$work/kept.st"
refused 2 '[0-9]+' run "$work/small.yoloc" --in "$work/a.st" --out "$work/a.st"
refused 2 '[0-9]+' run "$work/small.yoloc" --in "$work/a.st" --out "$work/small.yoloc"
cmp -s "$work/a.st" "$work/kept.st" || { bad=$((bad + 1)); echo "FAIL: run --out wrote over its input"; }
refused 2 001 run "$work/small.yoloc" --in "$work/a.st"
refused 2 001 run "$work/small.yoloc" --out "$work/out"

head -c 500000 "$work/m.yoloc" >"$work/cut.yoloc"
refused 1 501 detect "$work/cut.yoloc" "$photos/chelsea.png"
refused 1 501 inspect "$work/cut.yoloc"

# --- the caches of compilation ---
export YOLOC_CACHE_DIR=$work/cache
accepted '' compile models/yolov8.yaml --scale n --weights rule --imgsz 32 -o "$work/cached.yoloc"
accepted 'results +1 modules' cache stats
accepted '"modules":1' cache stats --json
json 'j["version"] == 1 and j["path"].endswith("/cache") and j["results"]["bytes"] > 1e6 and j["results"]["damaged"] == 0'
accepted ' module ' cache list
accepted '' cache list --json
json 'j["version"] == 1 and sum(r["kind"] == "module" for r in j["results"]) == 1 and len(j["results"][0]["name"]) == 32'
accepted 'kB of records' cache export -o "$work/records"
accepted '0 records taken' cache merge "$work/records" "$work/records"
refused 1 007 cache merge README.md
refused 1 002 cache merge "$work/absent"
refused 1 005 cache merge "$work/records" --limit records-bytes=1K
accepted '^0 records, 0 results and 0 other files removed' cache prune --older-than 1d --max-size 1G --max-records-size 1M
accepted 'results and 0 other files removed' cache prune --all
accepted 'results +0 modules, 0 kernels' cache stats
for words in '' foo 'list x' merge export 'prune --older-than x' 'prune --max-size 1T' 'prune --all --max-size 1G' 'list --all' 'stats -o x' \
    'prune --json'; do
    # shellcheck disable=SC2086
    refused 2 001 cache $words
done
accepted '.' detect "$work/small.yoloc" models/demo/photos/chelsea.png --json --threads 1000
said '--threads 1000: '
YOLOC_CACHE_DIR=/dev/null refused 3 009 cache stats
unset YOLOC_CACHE_DIR

# A disk that is full: nothing is left, exit code 1 or 3.
"$yoloc" detect "$work/m.yoloc" "$photos/chelsea.png" >/dev/full 2>"$work/stderr"
[ $? -ne 0 ] || { bad=$((bad + 1)); echo "FAIL: a full output device is not noticed"; }
# A module whose text nobody could read is whole all the same, and the message says so.
if "$yoloc" compile tests/tiny.yaml --weights rule --strip -o "$work/stripped.yoloc" >"$work/stdout" 2>"$work/stderr"; then
    rm -f "$work/full.yoloc"
    "$yoloc" compile tests/tiny.yaml --weights rule --strip -o "$work/full.yoloc" >/dev/full 2>"$work/stderr"
    [ $? -eq 3 ] && cmp -s "$work/stripped.yoloc" "$work/full.yoloc" ||
        { bad=$((bad + 1)); echo "FAIL: compile with a full standard output"; }
    said 'standard output could not be written; files that were asked for are complete'
    # Messages about a module name its file.
    for words in compile verify; do
        refused 1 501 $words "$work/stripped.yoloc"
        said "$work/stripped.yoloc: error: the module was stripped"
    done
    rm -f stripped.yoloc
fi
"$yoloc" opt - <tests 2>"$work/stderr" && { bad=$((bad + 1)); echo "FAIL: opt reads a folder"; }
said 'stdin: is a folder'

echo "$count commands, $bad faults, $skipped groups skipped for lack of data"
[ "$bad" -eq 0 ]
