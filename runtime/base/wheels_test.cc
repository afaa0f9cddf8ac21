#include "runtime/base/wheels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace nabla {
namespace {

namespace fs = std::filesystem;

std::string install(const std::string& prefix, const std::string& package) {
  fs::path folder = fs::path(prefix) / "lib/python3.12/site-packages/nvidia" / package / "lib";
  fs::create_directories(folder);
  std::ofstream(folder / "libtoy.so.1") << "";
  return folder / "libtoy.so.1";
}

TEST(Wheels, AreFoundInTheEnvironmentThenBesidePythonOnThePath) {
  std::string base = fs::path(std::getenv("TEST_TMPDIR")) / "wheels";
  std::string environment = install(base + "/env", "cublas"), beside = install(base + "/python", "cu13");
  fs::create_directories(base + "/python/bin");
  std::ofstream(base + "/python/bin/python3") << "";
  setenv("VIRTUAL_ENV", (base + "/env").c_str(), 1);
  setenv("HOME", (base + "/nobody").c_str(), 1);
  setenv("PATH", ("relative:" + base + "/empty:" + base + "/python/bin:/usr/bin").c_str(), 1);
  EXPECT_EQ(files_in_wheels("libtoy.so.1"), (std::vector<std::string>{environment, beside}));
  EXPECT_TRUE(files_in_wheels("libtoy.so.2").empty());
  unsetenv("VIRTUAL_ENV");
  EXPECT_EQ(files_in_wheels("libtoy.so.1"), std::vector<std::string>{beside});
}

}  // namespace
}  // namespace nabla
