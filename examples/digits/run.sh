#!/bin/sh
# run.sh BUILD_DIR [--device NAME] [--checks C] [--plan P] [--images N]
#        [--repeat N]: what `./dev run` runs. Reads the held-out images.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
  echo "usage: $0 BUILD_DIR [options]" >&2
  exit 2
fi
build=$1
shift
exec "$build/examples/example_digits" --dir "$here" "$@"
