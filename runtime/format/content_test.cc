// What ranks compare of files and arrays.
#include "runtime/format/content.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace nabla::format {
namespace {

// Files of other names with the same bytes are the same; of large ones size, ends and blocks count.
TEST(Content, FilesAreWhatIsInThem) {
  std::string dir = testing::TempDir() + "/alike-";
  std::ofstream(dir + "a") << "abc", std::ofstream(dir + "b") << "abc", std::ofstream(dir + "c") << "abd";
  EXPECT_EQ(content_of_file(dir + "a"), "of 3 bytes (content ba7816bf)");
  EXPECT_EQ(content_of_file(dir + "b"), content_of_file(dir + "a"));
  EXPECT_NE(content_of_file(dir + "c"), content_of_file(dir + "a"));
  EXPECT_EQ(content_of_file(dir + "none"), "that cannot be read (No such file or directory)");
  EXPECT_EQ(content_of_file(testing::TempDir()), "that is no plain file");
  EXPECT_EQ(content_of(as_bytes("abc")), "of 3 bytes (content ba7816bf)");
  constexpr int64_t kMiB = 1 << 20, kSize = 100 * kMiB;
  std::string large = dir + "large";
  auto with = [&](int64_t at) {
    std::filesystem::remove(large);
    std::ofstream file(large, std::ios::binary);
    file << 'x', file.seekp(kSize - 1) << 'x', file.seekp(at) << 'y';
    file.close();
    return content_of_file(large);
  };
  std::string first = with(kMiB / 2);
  auto mapped = FileBytes::map(large);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(content_of((*mapped)->bytes()), first);
  EXPECT_TRUE(first.starts_with("of 104857600 bytes (content ")) << first;
  EXPECT_EQ(with(kMiB / 2), first);
  for (int64_t at : {kSize - kMiB / 2, kMiB, kMiB + 98 * kMiB / 64 * 63 + 4095}) EXPECT_NE(with(at), first) << at;
  EXPECT_EQ(with(kMiB + 4096), with(kMiB + 98 * kMiB / 64 - 1));  // between two blocks
  std::filesystem::remove(large);
}

}  // namespace
}  // namespace nabla::format
