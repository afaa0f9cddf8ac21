#include "tests/ranks/digits.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/format/file.h"

namespace nabla::tests {

std::string path(const std::string& name) { return testing::TempDir() + name; }

void write_digits() { ASSERT_EQ(std::system(("examples/digits/mlp_ranks " + path("m.nir") + " > /dev/null").c_str()), 0); }

void compile_digits(const std::string& mesh, const std::string& name, const std::string& target) {
  ASSERT_EQ(std::system(("cli/nablac compile " + path("m.nir") + " --no-library --mesh " + mesh + " --target " + target + " -o " +
                         path(name) + ".nbundle > /dev/null").c_str()), 0);
}

std::vector<std::string> train_digits(const std::string& name, int64_t steps, const std::vector<std::string>& more) {
  std::vector<std::string> out{path(name + ".nbundle")};
  out.insert(out.end(), more.begin(), more.end());
  out.insert(out.end(), {"--threads", "1", "--entry", "step", "--data", "examples/digits/digits.npz", "--map", "x=x_train", "--map",
                         "y=y_train", "--steps", std::to_string(steps)});
  return out;
}

void expect_same_file(const std::string& a, const std::string& b) {
  auto first = format::FileBytes::map(path(a)), second = format::FileBytes::map(path(b));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(format::as_text((*first)->bytes()) == format::as_text((*second)->bytes())) << a << " and " << b << " differ";
}

std::vector<std::string> mpirun(int ranks) {
  return {"mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
          "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo", "-np", std::to_string(ranks)};
}

}  // namespace nabla::tests
