#!/bin/sh
# Fuzzes the readers: tests/fuzz/run.sh BUILD [KIND...], where BUILD was
# configured with -DTDSL_FUZZ=ON and holds tdslc too. A kind is a file
# fuzz_KIND.c here; all of them by default.
#
# Each target starts from its own seeds, the tree's files of its kind, and
# what the compiler prints of small programs. One seed, one order of files,
# addresses that stay the same and a number of runs instead of a time: who
# runs it again walks the same way. FUZZ_SEED draws another way; FUZZ_RUNS
# (-1: no limit) and FUZZ_SECONDS, a limit for slow machines, go farther.
set -u
cd "$(dirname -- "$0")/../.." || exit 2
build=$1
shift
kinds=$*
if [ -z "$kinds" ]; then
  for source in tests/fuzz/fuzz_*.c; do
    kind=${source##*/fuzz_}
    kinds="$kinds ${kind%.c}"
  done
fi
same_addresses=''
if setarch -R true 2>/dev/null; then same_addresses='setarch -R'; fi
mkdir -p "$build/crashes" "$build/seeds"

# What the compiler prints of the small programs: $1 is the stage.
printed() {
  mkdir -p "$build/seeds/$1"
  find examples tests -name '*.tdsl' -size -2k | LC_ALL=C sort |
    while read -r file; do
      out=$build/seeds/$1/$(echo "$file" | tr / -)
      "$build/tdslc" dump -q "$1" "$file" >"$out" 2>/dev/null || : >"$out"
    done
  find "$build/seeds/$1" -type f -size +0 -size -12k
}

seeds_of() {
  [ ! -d "tests/fuzz/seeds/$1" ] || find "tests/fuzz/seeds/$1" -type f
  case $1 in
    tdsl) find examples stdlib tests -name '*.tdsl' ;;
    tir | passes) find tests -name '*.tir' ;;
    kir) find tests -name '*.kir' && printed kir ;;
    plan) printed plan ;;
    npy) find examples tests -name '*.npy' -size -64k ;;
    ptx) find tests -name '*.ptx' -size -64k ;;
    config) find examples tests -name '*.json' -size -8k ;;
    safetensors)
      find examples tests -name '*.safetensors' -size -64k \
        ! -path '*/minilm/data/*'
      ;;
  esac
}

# About a minute on one core of 2024.
runs_of() {
  case $1 in
    ptx) echo 10000 ;;
    tdsl) echo 20000 ;;
    kir | passes) echo 120000 ;;
    plan | tir) echo 200000 ;;
    config) echo 400000 ;;
    safetensors) echo 1200000 ;;
    npy) echo 2000000 ;;
    *) echo 100000 ;;
  esac
}

result=0
for kind in $kinds; do
  # no newline behind the last name: it would be taken for part of it
  seeds_of "$kind" | LC_ALL=C sort -u | paste -s -d , - | tr -d '\n' \
    >"$build/$kind.seeds"
  if ! $same_addresses "$build/fuzz/fuzz_$kind" \
    -runs="${FUZZ_RUNS:-$(runs_of "$kind")}" -seed="${FUZZ_SEED:-1}" \
    -max_total_time="${FUZZ_SECONDS:-120}" \
    -shuffle=0 -seed_inputs="@$build/$kind.seeds" \
    -rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=20 \
    -print_final_stats=1 -artifact_prefix="$build/crashes/$kind-" \
    -verbosity="${FUZZ_VERBOSITY:-0}" >"$build/fuzz_$kind.log" 2>&1; then
    tail -60 "$build/fuzz_$kind.log"
    echo "FAILED fuzz_$kind; the input is kept in $build/crashes"
    result=1
  fi
  grep -h number_of_executed_units "$build/fuzz_$kind.log" |
    sed "s/.*: */fuzz_$kind, runs: /"
done
exit "$result"
