#!/bin/sh
# run.sh BUILD_DIR [--device NAME]: the comparisons that llama.c describes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
  echo "usage: $0 BUILD_DIR [--device NAME]" >&2
  exit 2
fi
build=$1
shift
# llama_f32.tdsl is llama.tdsl with other types, and nothing else.
want=$(sed -e 1d -e '/^struct Cache/,$s/bf16/f32/g' "$here/llama.tdsl")
if [ "$want" != "$(sed 1d "$here/llama_f32.tdsl")" ]; then
  echo "llama: llama_f32.tdsl is not llama.tdsl in f32" >&2
  exit 1
fi
exec "$build/examples/example_llama" --dir "$here" "$@"
