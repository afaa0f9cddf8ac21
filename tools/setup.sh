# Sourced by ./quickstart and ./run_tests: installs what is missing (Debian packages) and prepares Bazel. Needs no network
# beyond the package manager; does nothing on a machine that has everything.

core_packages=(
  ca-certificates git g++ python3
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  flatbuffers-compiler libflatbuffers-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libdnnl-dev libgtest-dev
  pkgconf
)
# The second configuration: libFuzzer and the sanitizers.
fuzz_packages=(clang libclang-rt-14-dev lld)

# The browser that tests/page opens pages in.
page_packages=(chromium)

say() { printf '\n== %s\n' "$*"; }

# install_packages NAME...: installs those that are missing, with sudo unless root.
install_packages() {
  local missing=() package as_root=()
  command -v dpkg-query > /dev/null || { echo "this is no Debian system: install by hand: $*" >&2; return 1; }
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${Status}' "$package" 2> /dev/null)" = "install ok installed" ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "these packages are missing, and there is no sudo: ${missing[*]}" >&2; return 1; }
    as_root=(sudo)
  fi
  say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

# Bazel and the kernel cache want a home, and the disk cache's folder must exist.
prepare_bazel() {
  if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    export HOME="${HOME:-/tmp}"
  fi
  mkdir -p "$HOME/.cache/nabla-bazel"
}
