#!/bin/bash
# Signatures of modules: made, required, and refused in every way that they can be wrong: sign.sh YOLOC EXAMPLE PPM
set -u
yoloc=$1 example=$2 ppm=$3
work=$YOLOC_TEST_SCRATCH/sign
mkdir -p "$work"
cd "$work" || exit 1
top=$OLDPWD
photo=$top/models/demo/photos/chelsea.png
count=0 bad=0
unset YOLOC_REQUIRE_SIGNATURE

fail() { bad=$((bad + 1)); echo "FAIL $*"; sed 's/^/    /' stderr; }

# ok WORDS...: ends with 0 and no error.
ok() {
    count=$((count + 1))
    "$@" >stdout 2>stderr </dev/null && ! grep -q 'error: ' stderr || fail "$*"
}

# no CODE PATTERN WORDS...: ends with CODE and one line of error that matches, and prints and writes nothing else.
no() {
    local code=$1 pattern=$2 got
    shift 2
    count=$((count + 1))
    rm -f out
    "$@" >stdout 2>stderr </dev/null
    got=$?
    [ "$got" -eq "$code" ] || { fail "$*: exit code $got, wanted $code"; return; }
    [ "$(wc -l <stderr)" -eq 1 ] || { fail "$*: not one line"; return; }
    grep -q -E -- "error: .*($pattern)" stderr || { fail "$*: does not say '$pattern'"; return; }
    [ ! -s stdout ] && [ ! -e out ] || fail "$*: left output"
}

compile() {
    "$yoloc" compile "$top/models/yolox.yaml" --scale nano --weights "$top/models/demo/yolox_nano.safetensors" \
        --imgsz 64 "$@" 2>stderr >stdout || { cat stderr; exit 1; }
}
compile -o m.yoloc
compile --batch 2 -o other.yoloc

# --- keys: whole, private, never over others ---
ok "$yoloc" sign --new-key a
ok "$yoloc" sign --new-key b
count=$((count + 2))
[ "$(stat -c %a a.key)" = 600 ] || fail "mode of the secret key: $(stat -c %a a.key)"
[ "$(wc -l <a.pub)" -eq 1 ] && ! cmp -s a.pub b.pub || fail "public keys"
cp a.key kept.key
no 3 'a.key: File exists' "$yoloc" sign --new-key a
cmp -s a.key kept.key || fail "a key was overwritten"
echo mine >c.pub
no 3 'c.pub: File exists' "$yoloc" sign --new-key c
[ ! -e c.key ] && [ "$(cat c.pub)" = mine ] || fail "half a pair of keys"
echo mine >d.key
no 3 'd.key: File exists' "$yoloc" sign --new-key d
[ ! -e d.pub ] || fail "half a pair of keys"
no 3 'No such file' "$yoloc" sign --new-key nowhere/x
[ -z "$(find . -name '*.key.*' -o -name '*.pub.*')" ] || fail "left a temporary file"
no 2 'is needed' "$yoloc" sign m.yoloc
no 2 'exclude' "$yoloc" sign m.yoloc --key a.key --new-key e
no 2 'neither' "$yoloc" sign m.yoloc --new-key e
no 2 'needs the module' "$yoloc" sign --key a.key

# --- signatures ---
ok "$yoloc" sign m.yoloc --key a.key
ok "$yoloc" sign other.yoloc --key a.key
ok "$yoloc" sign m.yoloc --key b.key -o by-b.sig
cp m.yoloc.sig first.sig
ok "$yoloc" sign m.yoloc --key a.key
cmp -s m.yoloc.sig first.sig || fail "signing twice gives two signatures"
no 1 'a.pub: not a secret key' "$yoloc" sign m.yoloc --key a.pub -o out
no 1 'none.key: No such file' "$yoloc" sign m.yoloc --key none.key -o out
no 2 'overwritten' "$yoloc" sign m.yoloc --key a.key -o m.yoloc
no 2 'overwritten' "$yoloc" sign m.yoloc --key a.key -o a.key
cmp -s a.key kept.key || fail "a key was overwritten"
sed 's/ ./ 0/; s/.$/1/' a.key >broken.key
no 1 'broken.key: not a secret key' "$yoloc" sign m.yoloc --key broken.key -o out
head -c 5000 m.yoloc >cut.yoloc
no 1 'cut.yoloc' "$yoloc" sign cut.yoloc --key a.key -o out
no 1 'not a yoloc module' "$yoloc" sign "$photo" --key a.key -o out

# --- every command that loads a module ---
cat >in.py <<'P'
import struct
head = b'{"input_u8":{"dtype":"U8","shape":[64,64,3],"data_offsets":[0,12288]}}'
open("in.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(12288))
P
python3 in.py || exit 1

# each SAY WORDS...: `SAY WORDS` of every loading command with these words at its end.
each() {
    local say=("$1")
    [ "$1" = no ] && say=("$1" "$2" "$3") && shift 2
    shift
    "${say[@]}" "$yoloc" detect "$@" "$photo"
    "${say[@]}" "$yoloc" run "$@" --in in.safetensors --out out
    "${say[@]}" "$yoloc" bench "$@" --runs 1 --warmup 0
    "${say[@]}" "$yoloc" inspect "$@"
    "${say[@]}" "$yoloc" inspect "$@" --json
    "${say[@]}" "$yoloc" verify "$@" --imgsz 32 --samples 8
    "${say[@]}" "$yoloc" compile "$@" --imgsz 32 -o out
}
# tried WORDS...: as each, but by one command that is quick.
tried() { no "$1" "$2" "$yoloc" inspect "${@:3}"; }

each ok m.yoloc --require-signature a.pub
ok "$yoloc" inspect m.yoloc --require-signature b.pub --signature by-b.sig
each no 1 'by-b.sig: made with another key.*E507' m.yoloc --require-signature a.pub --signature by-b.sig
each no 1 'm.yoloc.sig: made with another key.*E507' m.yoloc --require-signature b.pub
mv m.yoloc.sig away
each no 1 'm.yoloc.sig: No such file.*E507' m.yoloc --require-signature a.pub
mv away m.yoloc.sig
YOLOC_REQUIRE_SIGNATURE=a.pub each ok m.yoloc
YOLOC_REQUIRE_SIGNATURE=b.pub each no 1 'made with another key' m.yoloc
YOLOC_REQUIRE_SIGNATURE=b.pub ok "$yoloc" inspect m.yoloc --require-signature a.pub
YOLOC_REQUIRE_SIGNATURE='' each no 2 'YOLOC_REQUIRE_SIGNATURE is empty' m.yoloc
YOLOC_REQUIRE_SIGNATURE=none.pub tried 1 'none.pub: No such file' m.yoloc
tried 2 'of no use' m.yoloc --signature by-b.sig
tried 1 'a.key: not a public key' m.yoloc --require-signature a.key
tried 1 'm.yoloc.sig: not a public key' m.yoloc --require-signature m.yoloc.sig
tried 1 'a.pub: not a signature of' m.yoloc --require-signature a.pub --signature a.pub
mkfifo pipe
tried 1 'pipe: not a regular file' m.yoloc --require-signature a.pub --signature pipe
tried 1 'pipe: not a regular file' m.yoloc --require-signature pipe
tried 1 'pipe: not a regular file' pipe --require-signature a.pub

# A yaml has no signature: asking for one on the command line is a mistake, the environment is about modules only.
no 2 'only modules have signatures' "$yoloc" compile "$top/models/yolov8.yaml" --weights rule --require-signature a.pub -o out
ok env YOLOC_REQUIRE_SIGNATURE=a.pub "$yoloc" compile "$top/models/yolox.yaml" --scale nano --weights rule --imgsz 32 -o out

# --- swapped, changed, cut ---
cp other.yoloc.sig swapped.sig
tried 1 'changed or swapped' m.yoloc --require-signature a.pub --signature swapped.sig
cp other.yoloc n.yoloc && cp m.yoloc.sig n.yoloc.sig
tried 1 'n.yoloc.sig: not a signature of this file' n.yoloc --require-signature a.pub

# flipped FILE AT BIT: FILE with one bit changed, as `flip`.
flipped() {
    cp "$1" flip
    printf "\\x$(printf %x $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ (1 << $3))))" |
        dd of=flip bs=1 seek="$2" conv=notrunc status=none
}
size=$(stat -c %s m.yoloc)
for at in 0 8 30 60 100 $((size / 3)) $((size / 2)) $((size - 1)); do
    flipped m.yoloc "$at" $((at % 8))
    tried 1 'changed or swapped' flip --require-signature a.pub --signature m.yoloc.sig
done
# Bytes of the small files, bits in turn: refused, whatever is said. (The unit test takes every bit.)
for file in m.yoloc.sig a.pub; do
    for ((at = 0; at < $(stat -c %s $file); at += 9)); do
        flipped $file "$at" $((at % 8))
        words=(--require-signature a.pub --signature m.yoloc.sig)
        [ $file = a.pub ] && words[1]=flip || words[3]=flip
        tried 1 'E507' m.yoloc "${words[@]}"
    done
done
for n in 0 1 19 20 21 100 $(($(stat -c %s m.yoloc.sig) - 1)); do
    head -c "$n" m.yoloc.sig >cut.sig
    tried 1 'cut.sig: not a signature of' m.yoloc --require-signature a.pub --signature cut.sig
done
{ cat m.yoloc.sig; echo; } >long.sig
tried 1 'long.sig: not a signature of' m.yoloc --require-signature a.pub --signature long.sig
cat m.yoloc.sig m.yoloc.sig >long.sig
tried 1 'long.sig: not a signature of' m.yoloc --require-signature a.pub --signature long.sig
tr a-f A-F <m.yoloc.sig >capital.sig
tried 1 'capital.sig: not a signature of' m.yoloc --require-signature a.pub --signature capital.sig
head -c 100000 /dev/zero >zero.sig
tried 1 'zero.sig: not a signature of' m.yoloc --require-signature a.pub --signature zero.sig
head -c $((size / 2)) m.yoloc >half.yoloc
tried 1 'changed or swapped' half.yoloc --require-signature a.pub --signature m.yoloc.sig

# --- other sizes: from the verified bytes, never from the cache nor into it ---
export XDG_CACHE_HOME=$work/cache
ok "$yoloc" detect m.yoloc "$photo" --imgsz 96 --require-signature a.pub
[ ! -e cache ] || fail "the cache was used"
ok "$yoloc" detect m.yoloc "$photo" --imgsz 96
for f in cache/yoloc/*.yoloc; do echo broken >"$f"; done
before=$(cat cache/yoloc/*)
ok "$yoloc" detect m.yoloc "$photo" --imgsz 96 --require-signature a.pub
[ "$(cat cache/yoloc/*)" = "$before" ] || fail "the cache was written"

# --- the library, without the command ---
ok "$example" m.yoloc a.pub
no() { :; }
"$example" m.yoloc b.pub >stdout 2>stderr && fail "the example takes another key"
grep -q 'made with another key' stderr || fail "the example does not say why"
"$example" n.yoloc a.pub >stdout 2>stderr && fail "the example takes a swapped signature"

echo "$count checks, $bad failures"
[ "$bad" -eq 0 ]
