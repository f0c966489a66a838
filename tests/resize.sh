#!/bin/bash
# resize.sh YOLOC: a module compiled again for another size and batch is the module of that size: networks whose shapes follow
# from their maps in every way there is (attention, queries, texts, areas, levels at the size of others).
set -u
yoloc=$1
work=$YOLOC_TEST_SCRATCH/resize
mkdir -p "$work"
cat >"$work/texts.yaml" <<'END'
nc: 3
backbone:
  - [-1, 1, Conv, [32, 3, 4]]
  - [-1, 1, Conv, [64, 3, 2]]
head:
  - [-1, 1, C2fAttn, [64, 32, 2]]
  - [[1, 2], 1, ImagePoolingAttn, [64]]
  - [2, 1, Conv, [64, 3, 2]]
  - [-1, 1, C2fAttn, [64, 32, 2]]
  - [[2, 5], 1, WorldDetect, [nc, 512, True]]
END
cat >"$work/queries.yaml" <<'END'
nc: 3
backbone:
  - [-1, 1, HGStem, [8, 16]]
  - [-1, 1, Conv, [32, 3, 2]]
  - [-1, 1, AIFI, [32, 8]]
head:
  - [-1, 1, Conv, [32, 3, 2]]
  - [[2, 3], 1, RTDETRDecoder, [nc]]
END
cat >"$work/areas.yaml" <<'END'
nc: 3
backbone:
  - [-1, 1, Conv, [16, 3, 4]]
  - [-1, 1, Conv, [64, 3, 4]]
  - [-1, 1, A2C2f, [64, True, 4]]
  - [-1, 1, CBLinear, [[8, 32]]]
  - [0, 1, Conv, [32, 3, 2]]
  - [[3, -1], 1, CBFuse, [[1]]]
head:
  - [-1, 1, ConvTranspose, [16, 2, 2]]
  - [-1, 1, C3TR, [16]]
  - [[7, 2], 1, Segment26, [nc, 8, 16]]
END
faults=0
for name in texts queries areas; do
    "$yoloc" compile "$work/$name.yaml" --weights rule --imgsz 64 -o "$work/small" >"$work/log" 2>&1 &&
        "$yoloc" compile "$work/small" --imgsz 96,128 -b 2 -o "$work/again" >"$work/log" 2>&1 &&
        "$yoloc" compile "$work/$name.yaml" --weights rule --imgsz 96,128 -b 2 -o "$work/direct" >"$work/log" 2>&1 &&
        "$yoloc" inspect "$work/again" --ir >"$work/again.yir" 2>"$work/log" &&
        "$yoloc" inspect "$work/direct" --ir >"$work/direct.yir" 2>"$work/log" &&
        cmp "$work/again.yir" "$work/direct.yir" && continue
    echo "$name: $(head -n 2 "$work/log")"
    faults=$((faults + 1))
done
[ "$faults" = 0 ] && echo "3 networks at another size"
