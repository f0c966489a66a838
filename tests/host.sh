#!/bin/bash
# The command where the machine or the caller is odd, full, slow or rude: host.sh YOLOC [long]
#
# Wanted in every case: the same bytes as ever, or one clear error; an output file whole or absent; nothing left behind.
set -u
yoloc=$(realpath "$1") kills=100
[ "${2:-}" = long ] && kills=1000
work=$YOLOC_TEST_SCRATCH/host
mkdir -p "$work/out"
cp models/demo/photos/chelsea.png "$work/cat.png"
cd "$work" || exit 2
ulimit -c 0
sanitized=
nm "$yoloc" 2>/dev/null | grep -q __asan_init && sanitized=1
count=0 bad=0 skipped=0

cat >net.yaml <<'END'
nc: 2
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, C2f, [8, True]]
head:
  - [-1, 1, nn.Upsample, [None, 2, 'nearest']]
  - [[-1, 1], 1, Detect, [nc]]
END
compile=(compile net.yaml --weights rule --imgsz 32)

fail() {
    bad=$((bad + 1))
    echo "FAIL: $*"
    [ -s stderr ] && head -c 400 stderr | sed 's/^/    /'
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped: $*"
}

# temporary FOLDER: names that writers use until a file is complete.
temporary() { find "$1" -name '.yoloc-*' -o -name '*.??????' ! -name '*.yoloc' ! -name '*.safetensors' -type f | head -1; }

# clean WHAT: out/ holds nothing but a whole m.yoloc, or nothing.
clean() {
    [ ! -e out/m.yoloc ] || cmp -s out/m.yoloc m.yoloc || fail "$1: out/m.yoloc is not whole"
    [ -z "$(temporary out)" ] || fail "$1: $(temporary out) is left"
    rm -rf out/* out/.yoloc-*
}

# same WHAT WORDS...: WORDS, which compile to out/m.yoloc, give the bytes that they always give.
same() {
    local what=$1 code
    shift
    count=$((count + 1))
    "$@" >stdout 2>stderr </dev/null
    code=$?
    [ "$code" -eq 0 ] || fail "$what: exit code $code"
    cmp -s out/m.yoloc m.yoloc || fail "$what: another module"
    clean "$what"
}

# refused CODES WHAT WORDS...: ends with one of CODES (a|b), an error, and no output.
refused() {
    local codes=$1 what=$2 code
    shift 2
    count=$((count + 1))
    "$@" >stdout 2>stderr </dev/null
    code=$?
    [[ $code =~ ^($codes)$ ]] || fail "$what: exit code $code, wanted $codes"
    [ "$code" -ge 128 ] || grep -q 'error: ' stderr || fail "$what: no error"
    [ ! -e out/m.yoloc ] || fail "$what: left a file"
    clean "$what"
}

# either WHAT WORDS...: one of the two above; never a signal.
either() {
    local what=$1 code
    shift
    count=$((count + 1))
    "$@" >stdout 2>stderr </dev/null
    code=$?
    case $code in
        0) ;;
        1|2|3) grep -q 'error: ' stderr || fail "$what: no error" ;;
        *) fail "$what: exit code $code" ;;
    esac
    clean "$what"
}

# Descriptors that the caller left open would count against the limit, so they are closed first.
limited() {
    (
        for fd in /proc/self/fd/*; do # no redirection here: it would be undone from a descriptor that is closed by then
            fd=${fd##*/}
            [ "$fd" -gt 2 ] && [ "$fd" -lt 255 ] && eval "exec $fd>&-"
        done
        ulimit "$1" "$2" && shift 2 && exec "$@"
    )
}

"$yoloc" "${compile[@]}" -o m.yoloc >/dev/null || exit 1
"$yoloc" detect m.yoloc cat.png --txt --conf 0.001 >boxes || exit 1
[ -s boxes ] || fail "the test network finds nothing"

# --- the same bytes, whatever surrounds the command ---
same plain "$yoloc" "${compile[@]}" -o out/m.yoloc
same "one thread" taskset -c 0 "$yoloc" "${compile[@]}" -o out/m.yoloc
same "another folder" env -C / "$yoloc" compile "$work/net.yaml" --weights rule --imgsz 32 -o "$work/out/m.yoloc"
for setting in LC_ALL=de_DE.UTF-8 LC_ALL=C LANG=tr_TR.UTF-8 LC_ALL=garbage TZ=Asia/Kathmandu TZ=:/dev/zero COLUMNS=-1 TERM=; do
    same "$setting" env "$setting" "$yoloc" "${compile[@]}" -o out/m.yoloc
done
same "no environment" env -i "$yoloc" "${compile[@]}" -o out/m.yoloc
for mask in 000 077 777; do
    (umask $mask && "$yoloc" "${compile[@]}" -o out/m.yoloc >/dev/null 2>stderr) || fail "umask $mask"
    wanted=$(printf %o $((0666 & ~0$mask)))
    [ "$(stat -c %a out/m.yoloc)" = "$wanted" ] || fail "umask $mask: mode $(stat -c %a out/m.yoloc), not $wanted"
    clean "umask $mask"
done
for threads in 1 2 7; do
    "$yoloc" detect m.yoloc cat.png --txt --conf 0.001 --threads $threads | cmp -s - boxes || fail "other boxes with $threads threads"
done

# Standard streams that are closed, alone and all: their numbers must not go to the module.
closed() {
    local what=$1
    count=$((count + 1))
    shift
    eval '"$yoloc" "${compile[@]}" -o out/m.yoloc '"$*" || fail "$what closed: exit code $?"
    cmp -s out/m.yoloc m.yoloc || fail "$what closed: another module"
    clean "$what closed"
}
: >stderr
closed stdin '<&- >stdout 2>stderr'
closed stdout '</dev/null >&- 2>stderr'
closed stderr '</dev/null >stdout 2>&-'
closed everything '<&- >&- 2>&-'
"$yoloc" detect m.yoloc cat.png --txt >&- 2>stderr
[ $? -eq 3 ] || fail "boxes that nobody could receive are no failure"
"$yoloc" detect m.yoloc cat.png --save out >&- 2>&- <&-
[ -s out/cat.png ] && "$yoloc" detect m.yoloc out/cat.png >/dev/null || fail "a picture saved without standard streams is damaged"
rm -rf out/*

# Names that are odd but allowed, and names that no system takes.
for name in $'new\nline' '%s%n%d' "it's \"quoted\"" $'\xff\xfe' '-o' ' ' "$(printf 'n%.0s' {1..250})"; do
    count=$((count + 1))
    "$yoloc" "${compile[@]}" -o "out/$name" >stdout 2>stderr && cmp -s "out/$name" m.yoloc || fail "output named $name"
    cp net.yaml "out/$name.yaml" 2>/dev/null && {
        "$yoloc" compile "out/$name.yaml" --weights rule --imgsz 32 -o out/m.yoloc >stdout 2>stderr || fail "input named $name.yaml"
    }
    rm -rf out/*
done
long=$(printf 'x%.0s' {1..100000})
refused '1|3' "100 kB name" "$yoloc" "${compile[@]}" -o "$long"
refused 1 "100 kB model" "$yoloc" compile "$long.yaml" --weights rule -o out/m.yoloc
refused 2 "100 kB option" "$yoloc" "${compile[@]}" "--$long" -o out/m.yoloc
refused 1 "a folder as model" "$yoloc" compile out.yaml/ --weights rule -o out/m.yoloc

# --- places that cannot be written ---
mkdir -p out/folder && refused 3 "a folder as output" "$yoloc" "${compile[@]}" -o out/folder
mkfifo out/fifo && refused 3 "a FIFO as output" timeout 20 "$yoloc" "${compile[@]}" -o out/fifo
refused 3 "a device as output" "$yoloc" "${compile[@]}" -o /dev/full
refused 3 "no such folder" "$yoloc" "${compile[@]}" -o out/none/m.yoloc
refused 3 "a file for a folder" "$yoloc" "${compile[@]}" -o m.yoloc/m.yoloc
refused 2 "an empty name" "$yoloc" "${compile[@]}" -o ""
mkfifo pipe.png && either "a FIFO as picture" timeout 20 "$yoloc" detect m.yoloc cat.png --save pipe.png
mkfifo pipe.yaml && refused 1 "a FIFO as model" timeout 20 "$yoloc" compile pipe.yaml --weights rule -o out/m.yoloc
refused 1 "a FIFO as module" timeout 20 "$yoloc" detect pipe.yaml cat.png
cp m.yoloc target.yoloc && ln -s ../target.yoloc out/link && "$yoloc" "${compile[@]}" --nc 3 -o out/link >/dev/null 2>stderr
[ -L out/link ] && ! cmp -s target.yoloc m.yoloc || fail "a link as output is not followed"
rm -rf out/*

# --- the cache folder ---
# sized WHAT: detect at another size works with the cache as it is, and gives what it gives without.
sized() {
    count=$((count + 1))
    "${@:2}" "$yoloc" detect m.yoloc cat.png --imgsz 64 --txt --conf 0.001 >stdout 2>stderr </dev/null || fail "$1: exit code $?"
    [ ! -e sized ] && cp stdout sized
    cmp -s stdout sized || fail "$1: other boxes"
    [ "$(grep -c warning: stderr)" -le 1 ] || fail "$1: more than one warning"
    ! grep -q error: stderr || fail "$1: an error"
}
mkdir -p cache ro && : >file && chmod 0500 ro
sized fresh env XDG_CACHE_HOME="$work/cache"
[ "$(find cache -name '*.yoloc' | wc -l)" -eq 1 ] || fail "the cache was not written"
sized again env XDG_CACHE_HOME="$work/cache"
entry=$(find cache -name '*.yoloc')
cp "$entry" entry
for damage in 'head -c 1000 entry' 'true' 'cat cat.png' 'cat m.yoloc'; do
    $damage >"$entry"
    sized "entry made by $damage" env XDG_CACHE_HOME="$work/cache"
    cmp -s "$entry" entry || fail "a bad entry was not written anew ($damage)"
done
sized "no HOME" env -u HOME -u XDG_CACHE_HOME
for home in /nonexistent "" relative "$work/file" "$work/ro" /dev/null $'/tmp/\nx' "/$long"; do
    sized "cache in ${home:0:40}" env XDG_CACHE_HOME="$home" HOME="$home"
done
rm -rf $'/tmp/\nx'
chmod 0777 cache/yoloc && sized "open cache" env XDG_CACHE_HOME="$work/cache" && chmod 0700 cache/yoloc
ln -s cache/yoloc linked 2>/dev/null
mkdir -p viaLink && ln -s ../cache/yoloc viaLink/yoloc && sized "linked cache" env XDG_CACHE_HOME="$work/viaLink"

# --- a full disk, small limits ---
mkdir -p small
if mount -t tmpfs -o size=64k none small 2>/dev/null; then
    refused 3 "full disk" "$yoloc" "${compile[@]}" -o small/m.yoloc
    [ -z "$(ls -A small)" ] || fail "full disk: something is left"
    sized "cache on a full disk" env XDG_CACHE_HOME="$work/small"
    refused 3 "drawing on a full disk" "$yoloc" detect m.yoloc cat.png --save small/drawn
    [ -z "$(find small -type f)" ] || fail "drawing on a full disk: something is left: $(find small -type f)"
    umount small
    mount -t tmpfs -o ro none small
    refused 3 "read-only disk" "$yoloc" "${compile[@]}" -o small/m.yoloc
    sized "cache on a read-only disk" env XDG_CACHE_HOME="$work/small"
    umount small
else
    skip "no tmpfs can be mounted here"
fi
(ulimit -f 16 && cd out && exec "$yoloc" compile ../net.yaml --weights rule --imgsz 32 -o m.yoloc) >stdout 2>stderr
[ $? -eq 3 ] && grep -q 'E003' stderr || fail "RLIMIT_FSIZE: no clear error"
clean "RLIMIT_FSIZE"
limited -f 16 "$yoloc" detect m.yoloc cat.png --save out >stdout 2>stderr
[ $? -ne 0 ] && [ -z "$(ls -A out)" ] || fail "RLIMIT_FSIZE: a part of a picture"
for n in 16 8 6 5; do either "$n files" limited -n $n "$yoloc" "${compile[@]}" -o out/m.yoloc; done
for n in 16 6 5; do either "$n files, detect" limited -n $n "$yoloc" detect m.yoloc cat.png --save out; rm -rf out/*; done
if [ -z "$sanitized" ]; then
    for kb in 256 64; do same "stack of $kb KiB" limited -s $kb "$yoloc" "${compile[@]}" --no-cache -o out/m.yoloc; done
    limited -s 256 "$yoloc" detect m.yoloc cat.png --txt --conf 0.001 2>stderr | cmp -s - boxes || fail "detect on a stack of 256 KiB"
    either "weights on a stack of 256 KiB" limited -s 256 "$yoloc" weights net.yaml
    for mb in 1024 256 64 32 16; do
        either "detect in $mb MiB" limited -v $((mb * 1024)) "$yoloc" detect m.yoloc cat.png --threads 1 --txt
        either "weights in $mb MiB" limited -v $((mb * 1024)) "$yoloc" weights net.yaml
    done
    # LLVM ends the process when its own memory runs out; our part is that nothing is left.
    for mb in 1024 256; do limited -v $((mb * 1024)) "$yoloc" "${compile[@]}" -o out/m.yoloc >stdout 2>stderr; clean "compile in $mb MiB"; done
fi

# in_group MIB WORDS...: in a control group of so much memory (version 2, or 1); 125: there is none.
in_group() (
    group=/sys/fs/cgroup/yoloc-test-$$ limit=memory.max
    [ -e /sys/fs/cgroup/cgroup.controllers ] || group=/sys/fs/cgroup/memory/yoloc-test-$$ limit=memory.limit_in_bytes
    mkdir -p "$group" && [ -w "$group/$limit" ] && echo $(($1 << 20)) >"$group/$limit" && echo "$BASHPID" >"$group/cgroup.procs" &&
        shift && exec "$@"
    exit 125
) 2>>stderr
in_group 512 true
if [ $? -ne 125 ]; then
    same "a group of 512 MiB" in_group 512 "$yoloc" "${compile[@]}" -o out/m.yoloc
    in_group 512 "$yoloc" detect m.yoloc cat.png --txt --conf 0.001 2>stderr | cmp -s - boxes || fail "detect in a group of 512 MiB"
else
    skip "no control group of memory can be made here"
fi
rmdir /sys/fs/cgroup/yoloc-test-$$ /sys/fs/cgroup/memory/yoloc-test-$$ 2>/dev/null

# --- signals ---
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
start=$(milliseconds)
"$yoloc" "${compile[@]}" --no-cache -o out/m.yoloc >/dev/null
took=$(($(milliseconds) - start + 1))
clean timing
# after FRACTION-IN-THOUSANDTHS: a part of the time that a compile takes.
after() { sleep "$(printf '%d.%03d' $((took * $1 / 1000000)) $((took * $1 / 1000 % 1000)))"; }
for signal in INT:130 TERM:143 HUP:129 PIPE:141; do
    for part in 100 300 500 700 900; do
        count=$((count + 1))
        setsid "$yoloc" "${compile[@]}" --no-cache -o out/m.yoloc >/dev/null 2>stderr </dev/null &
        pid=$!
        after $part
        python3 -c 'import os, sys; os.kill(int(sys.argv[1]), int(sys.argv[2]))' $pid $((${signal#*:} - 128)) 2>/dev/null
        wait $pid
        code=$?
        # Background children of a shell ignore SIGINT, as nohup's ignore SIGHUP.
        [ $code -eq ${signal#*:} ] || [ $code -eq 0 ] || fail "SIG$signal: exit code $code"
        clean "SIG$signal"
    done
done

# Killed at random: a module or a cache entry is there as a whole, or not at all.
RANDOM=${SEED:-1}
rm -rf cache
for ((i = 0; i < kills; i++)); do
    count=$((count + 1))
    case $((i % 3)) in
        0) words=("${compile[@]}" $([ $((i % 2)) -eq 0 ] && echo --no-cache) -o out/m.yoloc) ;;
        1) words=(detect m.yoloc cat.png --imgsz 64 --txt); rm -f cache/yoloc/*.yoloc ;;
        2) words=(detect m.yoloc cat.png --save out) ;;
    esac
    XDG_CACHE_HOME=$work/cache "$yoloc" "${words[@]}" >/dev/null 2>&1 </dev/null &
    pid=$!
    after $((RANDOM % 1100))
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ ! -e out/m.yoloc ] || cmp -s out/m.yoloc m.yoloc || fail "kill $i: out/m.yoloc is not whole"
    for f in cache/yoloc/*.yoloc; do
        [ ! -e "$f" ] || cmp -s "$f" entry || fail "kill $i: $f is not whole"
    done
    [ ! -e out/cat.png ] || python3 -c 'import sys; sys.exit(open("out/cat.png", "rb").read()[-8:] != b"IEND\xaeB`\x82")' ||
        fail "kill $i: out/cat.png is not whole"
    rm -rf out/*.yoloc out/*.png
done 2>/dev/null
rm -rf out/* out/.yoloc-*
sized "after kills" env XDG_CACHE_HOME="$work/cache"

# --- every call of the writers, stdio's included ---
if strace -o /dev/null true 2>/dev/null; then
    [ -z "$sanitized" ] || export ASAN_OPTIONS=detect_leaks=0
    for inject in write:error=ENOSPC write:error=EIO fsync:error=EIO rename:error=EROFS fchmod:error=EPERM; do
        for n in 1 2 3 5 9; do
            count=$((count + 1))
            strace -f -qq -o /dev/null -e trace=${inject%%:*} -e inject=$inject:when=$n+ \
                "$yoloc" detect m.yoloc cat.png --save out >stdout 2>stderr </dev/null
            code=$?
            [ $code -le 3 ] || fail "$inject from $n: exit code $code"
            [ -z "$(temporary out)" ] || fail "$inject from $n: $(temporary out) is left"
            [ ! -e out/cat.png ] || "$yoloc" detect m.yoloc out/cat.png >/dev/null 2>&1 || fail "$inject from $n: a part of a picture"
            [ ! -e out/cat.png ] || [ $code -eq 0 ] || fail "$inject from $n: a picture, but exit code $code"
            rm -rf out/*
        done
    done
else
    skip "strace cannot trace here"
fi

echo "$count cases, $bad faults, $skipped groups skipped"
[ "$bad" -eq 0 ]
