#!/bin/sh
# run.sh [--device NAME] [--beside MACHINE] [--build DIR] [--minutes N]
#
# The agreement of a real GPU and the simulated one, in under six minutes.
# Builds what it needs, runs the corpus on both, compares results to the bit
# and counters where the toolkit's profiler may count, prints one table and
# keeps it in DIR/gpu/report.txt. Exit 0: they agree, or there is no GPU here,
# which it says; 1: they do not.
#
#   --device cuda:1     another GPU than the first
#   --device sim:a100   a simulated machine stands in for the GPU, to try
#                       this script itself on a machine without one
#   --beside h100       another simulated machine than the nearest
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
device=cuda
build=${DEV_BUILD_DIR:-$root/build}
minutes=5.5
beside=''
while [ $# -gt 0 ]; do
  case $1 in
    --device | --build | --minutes | --beside)
      if [ $# -lt 2 ]; then
        echo "$0: $1 needs a value" >&2
        exit 2
      fi
      case $1 in
        --device) device=$2 ;;
        --build) build=$2 ;;
        --beside) beside=$2 ;;
        *) minutes=$2 ;;
      esac
      shift 2
      ;;
    *)
      sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
done
started=$(date +%s)

# No GPU: said before anything is built or installed.
if ! reason=$(python3 -B "$here/card.py" "$device"); then
  echo "skipped: no GPU ($reason)"
  exit 0
fi
DEV_BUILD_DIR=$build "$root/dev" tdslc version >/dev/null
log=$build/gpu/build.log
mkdir -p "$build/gpu"
ninja -C "$build" tdsl_simgpu example_digits example_llama unit_cuda \
  unit_cuda_large simgpu_float simgpu_int simgpu_convert simgpu_warp \
  simgpu_cu_scalar simgpu_cu_memory simgpu_cu_parallel >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
exec python3 -B "$here/agree.py" --device "$device" --build "$build" \
  ${beside:+--beside "$beside"} \
  --seconds "$(python3 -c 'import sys
print(float(sys.argv[1]) * 60 - float(sys.argv[2]))' "$minutes" \
  "$(($(date +%s) - started))")"
