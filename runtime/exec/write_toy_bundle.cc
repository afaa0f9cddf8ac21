// Writes the toy bundle to the path given, for tests that are not C++.
#include <cstdio>

#include "runtime/exec/test_bundle.h"
#include "runtime/format/file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto status = nabla::format::write_file(argv[1], nabla::exec::toy_bundle());
  if (!status.ok()) std::fputs(nabla::to_string(status.errors()).c_str(), stderr);
  return status.ok() ? 0 : 1;
}
