# What the tests of kernels for GPUs share; sourced by scripts that have set `yoloc` to the command and `work` to a folder of theirs.

# find_gpu: sets `target` to that of GPU 0; ends the script with 77 where there is no GPU.
find_gpu() {
    target=$("$yoloc" devices | sed -n 's/^\(cuda:sm_[0-9a-z]*\)  *device 0:.*/\1/p')
    [ -n "$target" ] || { echo "skipped: no GPU"; exit 77; }
}

# not_compiled: prints $work/log, what a failed compile for a GPU said; ends the script with 77 when there is no NVRTC, else with 1.
not_compiled() {
    cat "$work/log"
    ! grep -q 'no NVRTC found' "$work/log" || exit 77
    exit 1
}
