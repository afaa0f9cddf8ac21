#include "runtime/exec/memory_limit.h"

#include <gtest/gtest.h>

#include <map>

namespace nabla::exec {
namespace {

std::string of(const std::map<std::string, std::string>& files) {
  MemoryLimit l = memory_limit([&](const std::string& path) -> std::optional<std::string> {
    auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  });
  return fmt::format("{}, {}", l.bytes, l.whose);
}

TEST(MemoryLimit, IsTheSmallestThatHolds) {
  std::map<std::string, std::string> files{{"/proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n"}};
  EXPECT_EQ(of(files), "2097152, the machine's memory");
  files["/proc/self/cgroup"] = "0::/a/b\n";
  files["/sys/fs/cgroup/a/b/memory.max"] = "max\n";
  EXPECT_EQ(of(files), "2097152, the machine's memory");
  files["/sys/fs/cgroup/a/memory.max"] = "1000000\n";
  EXPECT_EQ(of(files), "1000000, the limit of the control group /a");
  files["/sys/fs/cgroup/memory.max"] = "500000\n";
  EXPECT_EQ(of(files), "500000, the limit of the control group /");
  files["/proc/self/cgroup"] = "3:cpu:/x\n2:blkio,memory:/job\n0::/\n";
  files["/sys/fs/cgroup/memory/job/memory.limit_in_bytes"] = "4096\n";
  EXPECT_EQ(of(files), "4096, the limit of the control group /job");
  files["/proc/self/cgroup"] = "2:memory:/../../job\nnonsense\n";
  EXPECT_EQ(of(files), "2097152, the machine's memory");
}

TEST(MemoryLimit, WhatDoesNotFitIsSaidWithNumbers) {
  EXPECT_TRUE(check_memory(1, "it needs").ok());
  Status s = check_memory(uint64_t{1} << 60, "4 ranks need");
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.errors()[0].message.rfind("4 ranks need 1099511627776.0 MiB of memory, and this process may have ", 0), 0u)
      << s.errors()[0].message;
}

}  // namespace
}  // namespace nabla::exec
