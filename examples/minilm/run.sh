#!/bin/sh
# run.sh BUILD_DIR [--short] [options of tdslc run]: embed the sentences with
# the real weights and compare with the stored reference.  --short takes the
# first eight, none of which has more than 32 tokens.  Exit 0: they agree;
# 1: they do not; 77: the weights have not been fetched.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
  echo "usage: $0 BUILD_DIR [--short] [options of tdslc run]" >&2
  exit 2
fi
tdslc=$1/tdslc
shift
batch=$here rows=''
if [ "${1:-}" = --short ]; then
  rows=8
  shift
fi
if [ ! -f "$here/data/model.safetensors" ]; then
  echo "minilm: skipped: the weights are not here; run $here/fetch.sh"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# embed TOKENS LENGTHS OUT [options]
embed() {
  tokens=$1 lengths=$2 out=$3
  shift 3
  "$tdslc" run "$here/minilm.tdsl" --entry encode \
    --weights "$here/data/model.safetensors" \
    --config "$here/data/config.json" \
    --in "tok=$tokens" --in "len=$lengths" --out "e=$out" "$@"
}

if [ -n "$rows" ]; then
  batch=$work/short
  mkdir "$batch"
  python3 "$here/compare.py" rows $rows 32 "$batch"
fi
embed "$batch/tokens.npy" "$batch/length.npy" "$work/batch.npy" "$@"
python3 "$here/compare.py" reference "$work/batch.npy" $rows
# The same sentence without padding: the masked terms may not change a bit.
python3 "$here/compare.py" row 1 "$work"
embed "$work/tokens.npy" "$work/length.npy" "$work/row.npy" "$@"
python3 "$here/compare.py" same "$work/batch.npy" 1 "$work/row.npy"
