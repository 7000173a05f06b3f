#!/bin/sh
# Programs outside the tree, against an installed copy that has been moved:
# plain cc, pkg-config, static, find_package, dlopen, and the headers as C++.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if grep -q '^TDSL_SANITIZE:STRING=.' "$TDSL_TEST_BUILD/CMakeCache.txt"; then
  echo 'ok consumers are built without sanitizers'
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
failed=0
report() {
  if [ "$2" -eq 0 ]; then echo "ok $1"; else
    echo "not ok $1"
    cat "$work/log"
    failed=1
  fi
}
try() {
  name=$1
  shift
  code=0
  "$@" >"$work/log" 2>&1 || code=$?
  report "$name" "$code"
}

cmake --install "$TDSL_TEST_BUILD" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
prefix=$work/moved
lib=$(dirname "$(find "$prefix" -name libtdsl.a | head -1)")
LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH
strict='-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Werror'

plain() {
  # shellcheck disable=SC2086
  $CC $strict "$here/consumer.c" -I"$prefix/include" -L"$lib" -ltdsl \
    -o "$work/plain" && "$work/plain"
}
packaged() {
  PKG_CONFIG_PATH=$lib/pkgconfig
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  $CC "$here/consumer.c" $(pkg-config --cflags --libs tdsl) \
    -o "$work/packaged" && "$work/packaged"
}
static() {
  private=$(sed -n 's/^Libs.private: //p' "$lib/pkgconfig/tdsl.pc")
  # shellcheck disable=SC2086
  $CC "$here/consumer.c" -I"$prefix/include" "$lib/libtdsl.a" $private \
    -o "$work/static" && "$work/static"
}
# The command finds what it opens by name, wherever it was moved.
moved() {
  "$prefix/bin/tdslc" version | grep "^simulator  *version 1 ($prefix/"
}
found() {
  mkdir -p "$work/found" && cat >"$work/found/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(consumer C)
find_package(tdsl 0.1 REQUIRED)
add_executable(shared $here/consumer.c)
target_link_libraries(shared PRIVATE tdsl::tdsl)
END
  cmake -S "$work/found" -B "$work/found/b" -G Ninja \
    -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build "$work/found/b" && "$work/found/b/shared"
}
opened() {
  cat >"$work/opened.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void *library = dlopen("libtdsl.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return puts(dlerror()), 1;
  return dlsym(library, "tdsl_context_create") == NULL;
}
END
  $CC "$work/opened.c" -ldl -o "$work/opened" && "$work/opened"
}
as_cxx() {
  printf '#include <tdsl/tdsl.h>\nint main() { return 0; }\n' \
    >"$work/header.cpp" &&
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror \
      -I"$prefix/include" -c "$work/header.cpp" -o "$work/header.o"
}

try moved moved
try plain plain
if command -v pkg-config >/dev/null 2>&1; then try packaged packaged; fi
try static static
try found found
try opened opened
if command -v c++ >/dev/null 2>&1; then try cxx as_cxx; fi
exit "$failed"
