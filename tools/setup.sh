# Sourced by ./quickstart and ./run_tests: installs what is missing (Debian packages; NVRTC as a Python package) and
# prepares Bazel. Needs no network beyond the two package managers; does nothing on a machine that has everything.

core_packages=(
  ca-certificates git g++ python3
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  flatbuffers-compiler libflatbuffers-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libjemalloc-dev libdnnl-dev
  coinor-libcbc-dev libopenmpi-dev openmpi-bin libsodium-dev iproute2
  libgtest-dev pkgconf python3-dev pybind11-dev
)
# The second configuration: libFuzzer and the sanitizers.
fuzz_packages=(clang libclang-rt-14-dev lld)

# Tests of the Python package, frontend/python; mypy checks its types.
python_packages=(python3-pytest python3-numpy mypy)

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

# The folder that nablac searches first: see nvrtc_candidates in codegen/cuda/nvrtc_library.h.
nvrtc_folder() { echo "${NABLA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nabla}/nvrtc"; }

# find_nvrtc: prints the first NVRTC that opens, in nablac's order; fails when there is none.
find_nvrtc() {
  python3 - "${NABLA_NVRTC:-}" "$(nvrtc_folder)" << 'PYTHON'
import ctypes, os, sys
names = ["libnvrtc.so.13", "libnvrtc.so.12"]
own, folder = sys.argv[1:]
inside = lambda place: [os.path.join(place, n) for n in names]
if own:
    tried = inside(own) if os.path.isdir(own) else [own]
else:
    tried = inside(folder) + names + inside("/usr/local/cuda/lib64")
for path in tried:
    try:
        ctypes.CDLL(path)
    except OSError:
        continue
    print(path)
    sys.exit(0)
sys.exit(1)
PYTHON
}

# unpack_nvrtc WHEEL FOLDER: the libraries and their licence, without the folders around them.
unpack_nvrtc() {
  python3 - "$1" "$2" << 'PYTHON'
import os, shutil, sys, zipfile
wheel, folder = sys.argv[1:]
os.makedirs(folder)
with zipfile.ZipFile(wheel) as archive:
    for member in archive.namelist():
        name = os.path.basename(member)
        if name.startswith("libnvrtc") and ".alt." not in name or name == "License.txt":
            with archive.open(member) as source, open(os.path.join(folder, name), "wb") as target:
                shutil.copyfileobj(source, target)
if not os.path.exists(os.path.join(folder, "libnvrtc.so.13")):
    sys.exit("no libnvrtc.so.13 in " + wheel)
PYTHON
}

# pin PACKAGE: its line of tools/pins.txt.
pin() { grep "^$1==" tools/pins.txt; }

# fetch_nvrtc FOLDER REQUIREMENT [OPTION...]: fetches the package that a line of requirements names by pip and unpacks it
# into the folder, with the line in its file PIN.
fetch_nvrtc() {
  local folder=$1 requirement=$2 work code=0
  shift 2
  install_packages python3-pip || return 1
  say "Fetching ${requirement%% *} into $folder"
  work=$(mktemp -d)
  echo "$requirement" > "$work/requirements.txt"
  if /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: "$@" \
      --dest "$work" --requirement "$work/requirements.txt" && unpack_nvrtc "$work"/*.whl "$work/new"; then
    echo "$requirement" > "$work/new/PIN"
    mkdir -p "$(dirname "$folder")"
    rm -rf "$folder"
    mv "$work/new" "$folder"
  else
    code=1
  fi
  rm -rf "$work"
  return $code
}

# bring_nvrtc: sees to it that nablac finds NVRTC, which compiles CUDA kernels: where it finds none, the pinned package is
# fetched into the folder that nablac searches. Fails, and says so, when it cannot be had.
bring_nvrtc() {
  local found
  if found=$(find_nvrtc); then
    say "NVRTC is there: $found"
  elif [ -n "${NABLA_NVRTC:-}" ]; then
    echo "NABLA_NVRTC is $NABLA_NVRTC, where no NVRTC can be opened" >&2
    return 1
  else
    fetch_nvrtc "$(nvrtc_folder)" "$(pin nvidia-cuda-nvrtc)" --require-hashes && find_nvrtc > /dev/null ||
      { echo "NVRTC cannot be had: install nvidia-cuda-nvrtc by hand, set NABLA_NVRTC" >&2; return 1; }
  fi
}

# bring_pinned_nvrtc: for tests, whose budgets hold for the pinned version: whatever else the machine has, the pinned
# package is what NABLA_NVRTC names after it (tests have another home). A NABLA_NVRTC of the caller's is left as it is.
bring_pinned_nvrtc() {
  local folder requirement
  folder=$(nvrtc_folder)
  requirement=$(pin nvidia-cuda-nvrtc)
  if [ -z "${NABLA_NVRTC:-}" ]; then
    [ "$(cat "$folder/PIN" 2> /dev/null)" = "$requirement" ] || fetch_nvrtc "$folder" "$requirement" --require-hashes || return 1
    export NABLA_NVRTC=$folder/libnvrtc.so.13
  fi
  find_nvrtc > /dev/null || { echo "NABLA_NVRTC is $NABLA_NVRTC, where no NVRTC can be opened" >&2; return 1; }
  say "Tests compile CUDA kernels by $NABLA_NVRTC"
}
