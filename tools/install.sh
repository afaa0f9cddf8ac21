#!/bin/bash
# Puts the programs and the C library under PREFIX: bazel run //tools:install -- PREFIX
set -eu
[ $# = 1 ] && [ -n "$1" ] || { echo "usage: bazel run //tools:install -- PREFIX" >&2; exit 2; }
prefix=$(cd "${BUILD_WORKING_DIRECTORY:-.}" && realpath -m -- "$1")
version=$(cli/nabla-run --version | cut -d' ' -f2)

mkdir -p "$prefix/bin" "$prefix/include/nabla" "$prefix/lib/pkgconfig"
install -m 755 cli/nablac cli/nabla-run "$prefix/bin"
install -m 644 cli/libnabla_mpi.so "$prefix/bin"  # where nabla-run looks for it
install -m 644 runtime/nabla_run.h "$prefix/include/nabla"
install -m 644 runtime/lib/libnabla_run.a "$prefix/lib"
cat > "$prefix/lib/pkgconfig/libnabla_run.pc" <<END
prefix=${prefix// /\\ }
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: libnabla_run
Description: Runs programs that nablac compiled
Version: $version
Libs: -L\${libdir} -lnabla_run -lstdc++ -lm -ldl -lpthread
Cflags: -I\${includedir}
END
echo "installed nabla $version under $prefix"
