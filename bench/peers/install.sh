#!/bin/sh
# install.sh [FOLDER]: the peers of bench_matrix that come as Python packages,
# into a virtual environment (build/peers, where bench_matrix looks; for
# another FOLDER set TDSL_PEERS_PYTHON=FOLDER/bin/python3). llama.cpp is built
# for this machine, which takes some minutes. PyTorch is Debian's:
# apt-get install --no-install-recommends python3-torch.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$root/build/peers}
python3 -m venv "$folder"
"$folder/bin/pip" install -q numpy onnx onnxruntime openvino jax gguf
CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF \
-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
-DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF" \
  "$folder/bin/pip" install -q --no-binary llama-cpp-python llama-cpp-python
