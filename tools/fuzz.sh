# Sourced by ./run_tests and tools/nightly, after tools/setup.sh: builds and runs the libFuzzer programs of tests/fuzz.

# The fuzzers of files and messages that strangers may give to nabla-run. They need a third of the sources.
runtime_fuzzers=(bundle control cubin)
# The fuzzers of the compiler's input need every op. Compiling all ops with sanitizers takes ten minutes, so these run in
# tools/nightly. In every run, //tests/fuzz:NAME_corpus_test reads the same corpora and damages them.
module_fuzzers=(binary json text)

# run_fuzzers ITERATIONS WORK NAME...: runs each fuzzer over its kept corpus, with AddressSanitizer and
# UndefinedBehaviorSanitizer. WORK is a folder for new inputs and logs. Adds to the counts `passed` and `failed`.
run_fuzzers() {
  local iterations=$1 work=$2 name corpus programs targets=()
  shift 2
  for name in "$@"; do targets+=("//tests/fuzz:${name}_fuzz"); done
  if ! bazel build --config=fuzz "${targets[@]}"; then
    failed=$((failed + $#))
    return
  fi
  programs=$(bazel info --config=fuzz bazel-bin 2> /dev/null)/tests/fuzz
  for name in "$@"; do
    corpus=tests/fuzz/${name}_corpus
    mkdir -p "$work/$name"
    # New inputs are written to the first folder. The kept corpus is only read.
    if "$programs/${name}_fuzz" -runs="$iterations" -seed=1 -timeout=20 -rss_limit_mb=4096 -print_final_stats=0 \
        -artifact_prefix="$work/" "$work/$name" $([ -d "$corpus" ] && echo "$corpus") > "$work/$name.log" 2>&1; then
      echo "${name}_fuzz: passed"
      passed=$((passed + 1))
    else
      tail -40 "$work/$name.log"
      echo "${name}_fuzz: FAILED"
      failed=$((failed + 1))
    fi
  done
}
