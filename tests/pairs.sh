#!/bin/bash
# pairs.sh YOLOC: a checkpoint alone gives the same network as its weights with a description from elsewhere: the one beside it,
# or the family's, with the activation that a checkpoint knows of itself.
set -u
yoloc=$1
weights=$YOLOC_TEST_DATA/weights
work=$YOLOC_TEST_SCRATCH/pairs
if [ ! -d "$weights" ]; then
    echo "skipped: no weights below the test data folder"
    exit 77
fi
mkdir -p "$work"
count=0 faults=0

# pair CHECKPOINT DESCRIPTION [OPTION...]
pair() {
    local file=$1 yaml=$2
    shift 2
    count=$((count + 1))
    if ! "$yoloc" opt "$file" -o "$work/alone" >/dev/null 2>"$work/err" ||
        ! "$yoloc" opt "$yaml" --weights "$file" "$@" -o "$work/with" >/dev/null 2>"$work/err"; then
        echo "$file, $yaml: $(head -n 1 "$work/err")"
    elif diff <(grep -v '^model ' "$work/alone") <(grep -v '^model ' "$work/with") >"$work/diff"; then
        return
    else
        echo "$file and $yaml give different networks:"
        head -n 6 "$work/diff"
    fi
    faults=$((faults + 1))
}

for yaml in "$weights"/*.yaml; do
    pair "${yaml%.yaml}.pt" "$yaml"
done
pair "$weights/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt" models/yolov8-cls.yaml --scale n
pair "$weights/pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.pt" models/yolo11-cls.yaml --scale n
pair "$weights/pt_yolov5n_coco80_tobymuller233.pt" models/yolov5-anchor.yaml --scale n
pair "$weights/pt_yolov5n_duckie_danhgithub.pt" models/yolov5-anchor.yaml --scale n
for file in "$weights"/*espdet*.pt; do
    pair "$file" "$YOLOC_TEST_DATA/models/wild/020_espressif_espdet_pico.yaml"
done
echo "$count checkpoints, $faults that differ"
[ "$faults" = 0 ]
