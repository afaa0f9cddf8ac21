// Array files: round trips and hostile input.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/format/npy.h"
#include "runtime/format/process.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

Literal counting(DType dtype, std::vector<int64_t> shape) {
  Literal out(dtype, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set_i(i, i % 100);
  return out;
}

std::string temporary(const std::string& name) { return testing::TempDir() + "/" + name; }

Code code_of(const auto& result) { return result.errors().at(0).code; }

TEST(Npy, EveryNumpyDTypeSurvivesARoundTrip) {
  for (int d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    Literal array = counting(dtype, {3, 5});
    Result<std::string> bytes = npy_bytes(array);
    if (info(dtype).numpy.empty()) {
      EXPECT_EQ(code_of(bytes), Code::kInputDType);
      continue;
    }
    EXPECT_EQ(*parse_npy(as_bytes(*bytes), "x"), array) << name_of(dtype);
  }
}

TEST(Npy, ScalarsVectorsAndEmptyArraysKeepTheirShape) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {7}, {0, 4}, {3, 0}, {2, 0, 3}, {2, 1, 3}}) {
    std::string bytes = *npy_bytes(counting(DType::kF32, shape));
    EXPECT_EQ(parse_npy(as_bytes(bytes), "x")->shape(), shape);
  }
}

std::string npy_with_header(std::string header, std::string data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + data;
}

TEST(Npy, FortranOrderIsTransposed) {
  std::string bytes =
      npy_with_header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", std::string("\0\3\1\4\2\5", 6));
  Result<Literal> array = parse_npy(as_bytes(bytes), "x");
  ASSERT_TRUE(array.ok()) << to_string(array.errors());
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(array->get_i(i), i);
}

TEST(Npy, HostileHeadersAreRefused) {
  auto code = [](std::string header, std::string data) {
    std::string bytes = npy_with_header(std::move(header), std::move(data));
    return code_of(parse_npy(as_bytes(bytes), "x"));
  };
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (4, ), }", "123"), Code::kCorrupt);
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, ), }", "1234"), Code::kCorrupt);
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", ""), Code::kCorrupt);
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, ), }", ""), Code::kCorrupt);
  EXPECT_EQ(code("{'descr': '<c8', 'fortran_order': False, 'shape': (1, ), }", "12345678"), Code::kInputDType);
  EXPECT_EQ(code("{'descr': '>f4', 'fortran_order': False, 'shape': (1, ), }", "1234"), Code::kInputDType);
  EXPECT_EQ(code("{'descr': '<f4', 'shape': (1, ), }", "1234"), Code::kCorrupt);
  EXPECT_EQ(code("import os", ""), Code::kCorrupt);
  EXPECT_EQ(code_of(parse_npy(as_bytes("hello"), "x")), Code::kForeignFile);
}

TEST(Npy, StructuredArraysAndBytesBehindTheDataAreNamed) {
  auto message = [](std::string header, std::string data) {
    std::string bytes = npy_with_header(std::move(header), std::move(data));
    return parse_npy(as_bytes(bytes), "x.npy").errors().at(0).message;
  };
  EXPECT_EQ(message("{'descr': [('id', '<i4'), ('at', [('lat', '<f4'), ('lon', '<f4')]), ('v', '<f4', (2,))], "
                    "'fortran_order': False, 'shape': (1,), }",
                    std::string(20, 'x')),
            "x.npy: a structured array of [('id', '<i4'), ('at', [('lat', '<f4'), ('lon', '<f4')]), ('v', '<f4', "
            "(2,))], with the fields `id`, `at`, `v`; structured arrays are not read");
  EXPECT_EQ(message("{'descr': [('id', '<i4', 'fortran_order': False, 'shape': (1,), }", "1234"),
            "x.npy: damaged .npy: the header does not parse");
  EXPECT_EQ(message("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678tail"),
            "x.npy: damaged .npy: 4 bytes stand after the 8 of f32[2]");
}

TEST(Npy, EveryTruncationIsAnError) {
  std::string bytes = *npy_bytes(counting(DType::kF32, {4, 4}));
  for (size_t n = 0; n < bytes.size(); ++n) {
    Result<Literal> cut = parse_npy(as_bytes(std::string_view(bytes).substr(0, n)), "x");
    EXPECT_FALSE(cut.ok()) << n;
  }
}

TEST(Npz, StoredAndDeflatedArchivesGiveTheSameArrays) {
  NamedArrays arrays = {{"x", counting(DType::kF32, {8, 3})}, {"labels", counting(DType::kI64, {8})}};
  for (bool deflate : {false, true}) {
    std::string path = temporary("a.npz");
    ASSERT_TRUE(write_npz(path, arrays, deflate).ok());
    Result<NamedArrays> read = read_npz(path);
    ASSERT_TRUE(read.ok()) << to_string(read.errors());
    EXPECT_EQ(*read, arrays);
  }
}

std::string npz_of(const std::vector<std::pair<std::string, std::string>>& members) {
  ZipWriter zip;
  for (const auto& [name, contents] : members) zip.add(name, as_bytes(contents));
  return std::move(zip).finish().value();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  // The header's padding keeps its length.
  text.replace(at, from.size(), to);
  if (to.size() > from.size()) text.erase(text.find("  ", at), to.size() - from.size());
  if (to.size() < from.size()) text.insert(text.find('\n', at), from.size() - to.size(), ' ');
  return text;
}

TEST(Npz, HeadersOfOtherWritersAreRead) {
  for (DType dtype : {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kI64, DType::kF16, DType::kF64}) {
    Literal array = counting(dtype, {1, 1});
    std::string bytes = npy_bytes(array).value();
    std::string descr(info(dtype).numpy);
    for (std::string order : {"<", "=", "|", ">"}) {
      bool same = bytes_of(dtype) == 1 || order == "=" || order == "<";
      Result<Literal> read = parse_npy(as_bytes(replaced(bytes, descr, order + descr.substr(1))), "x");
      EXPECT_EQ(read.ok(), same) << order << descr;
      if (same) {
        EXPECT_EQ(*read, array);
      }
    }
    for (std::string shape : {"(1L, 1L)", "(1,1,)", "( 1 , 1 )"})
      EXPECT_EQ(parse_npy(as_bytes(replaced(bytes, "(1, 1)", shape)), "x").value(), array) << shape;
    for (std::string shape : {"(1LL, 1)", "(L, 1)", "(1 1)"})
      EXPECT_FALSE(parse_npy(as_bytes(replaced(bytes, "(1, 1)", shape)), "x").ok()) << shape;
  }
}

// Members that are no arrays are refused by name when they are asked for, and stand in nobody's way.
TEST(Npz, MembersThatAreNoArrays) {
  std::string good = npy_bytes(counting(DType::kF32, {2})).value(), newer = good;
  newer[6] = 9;
  std::string bytes = npz_of({{"x.npy", good}, {"README.txt", "text"}, {"meta/", ""}, {"empty", ""},
                              {"object.npy", replaced(good, "<f4", "|O")}, {"big.npy", replaced(good, "<f4", ">f4")},
                              {"newer.npy", newer}});
  std::map<std::string, std::string> found;
  ArrayResults members = each_of_npz(as_bytes(bytes), "f").value();
  for (const auto& [name, array] : members)
    found[name] = array.ok() ? "array" : array.errors()[0].message;
  std::map<std::string, std::string> wanted = {{"x", "array"}};
  for (std::string name : {"README.txt", "empty"}) wanted[name] = "f: array `" + name + "`: not a .npy file";
  wanted["object"] = "f: array `object`: element type `|O` is not supported";
  wanted["big"] = "f: array `big`: element type `>f4` is not supported";
  wanted["newer"] = "f: array `newer`: .npy version 9";
  EXPECT_EQ(found, wanted);
  bytes = npz_of({{"x.npy", good}, {"cut.npy", good.substr(0, good.size() - 1)}});
  EXPECT_EQ(each_of_npz(as_bytes(bytes), "f").errors()[0].code, Code::kCorrupt);
}

TEST(Npz, AFlippedByteIsNoticed) {
  std::string path = temporary("flip.npz");
  ASSERT_TRUE(write_npz(path, {{"x", counting(DType::kF32, {64})}}, true).ok());
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  bytes[60] ^= 0x10;
  EXPECT_FALSE(parse_npz(as_bytes(bytes), "x").ok());
}

TEST(Zip, ADeflatedMemberThatClaimsTooMuchIsRefusedBeforeAllocation) {
  ZipWriter writer;
  writer.add_deflated("x", as_bytes("hello hello hello"));
  std::string bytes = *std::move(writer).finish();
  size_t central = bytes.find("PK\x01\x02");
  uint32_t huge = 0xF0000000;
  std::memcpy(bytes.data() + central + 24, &huge, 4);
  Result<ZipReader> zip = ZipReader::open(as_bytes(bytes), "x");
  ASSERT_TRUE(zip.ok());
  EXPECT_EQ(code_of(zip->read(zip->members()[0])), Code::kTooLarge);
}

TEST(Zip, NamesThatLeaveTheFolderAreRefused) {
  ZipWriter writer;
  writer.add("aa/b", as_bytes("x"));
  std::string bytes = *std::move(writer).finish();
  for (size_t at; (at = bytes.find("aa/b")) != std::string::npos;) bytes.replace(at, 4, "../b");
  EXPECT_EQ(code_of(ZipReader::open(as_bytes(bytes), "x")), Code::kCorrupt);
}

TEST(Safetensors, EveryDTypeSurvivesARoundTrip) {
  NamedArrays arrays;
  for (int d = 0; d < kDTypeCount; ++d)
    arrays.emplace_back(name_of(static_cast<DType>(d)), counting(static_cast<DType>(d), {2, 3}));
  arrays.emplace_back("scalar", Literal::scalar(DType::kF64, 0.1));
  arrays.emplace_back("empty", Literal(DType::kF32, {0, 5}));
  std::string path = temporary("a.safetensors");
  ASSERT_TRUE(write_safetensors(path, arrays).ok());
  Result<NamedArrays> read = read_safetensors(path);
  ASSERT_TRUE(read.ok()) << to_string(read.errors());
  EXPECT_EQ(*read, arrays);
}

std::string safetensors_with(std::string header, size_t data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, 'x');
}

TEST(Safetensors, HostileHeadersAreRefused) {
  auto code = [](const std::string& header, size_t data) {
    std::string bytes = safetensors_with(header, data);
    return code_of(parse_safetensors(as_bytes(bytes), "x"));
  };
  EXPECT_EQ(
      code(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          4),
      Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8), Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0), Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), Code::kCorrupt);
  EXPECT_EQ(code(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4), Code::kInputDType);
  EXPECT_EQ(code(R"({"a":1})", 0), Code::kCorrupt);
  EXPECT_EQ(
      code(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      Code::kCorrupt);
  EXPECT_EQ(code("{", 0), Code::kCorrupt);
  std::string huge = safetensors_with("{}", 0);
  huge[7] = 0x7f;
  EXPECT_EQ(code_of(parse_safetensors(as_bytes(huge), "x")), Code::kTooLarge);
  EXPECT_EQ(code_of(parse_safetensors(as_bytes("PK\3\4----------"), "x")), Code::kForeignFile);
}

TEST(Safetensors, MetadataIsAMapOfTexts) {
  auto read = [](const std::string& header) { return safetensors_metadata(as_bytes(safetensors_with(header, 0)), "x"); };
  EXPECT_TRUE(read("{}")->empty());
  EXPECT_EQ(read(R"({"__metadata__":{"steps":"100"}})")->at("steps"), "100");
  for (const char* header : {R"({"__metadata__":3})", R"({"__metadata__":[]})", R"({"__metadata__":{"steps":100}})"})
    EXPECT_EQ(code_of(read(header)), Code::kCorrupt) << header;
}

TEST(Files, AFullDiskIsAnErrorAndLeavesNothing) {
  EXPECT_EQ(code_of(write_file("/dev/full", std::string(100000, 'x'))), Code::kWriteFailed);
  EXPECT_EQ(code_of(write_file(temporary("no/such/folder/x"), "x")), Code::kWriteFailed);
  EXPECT_EQ(code_of(FileBytes::map(temporary("missing"))), Code::kNotFound);
  EXPECT_EQ(code_of(FileBytes::map(testing::TempDir())), Code::kNotFound);
}

TEST(Files, TheAdviceFollowsTheReason) {
  EXPECT_EQ(write_file("/dev/full", std::string(100000, 'x')).errors()[0].help,
            "free space there, or write to another disk");
  EXPECT_EQ(write_file(temporary("no/such/folder/x"), "x").errors()[0].help, "");
}

// A process that was killed while it wrote leaves its temporary; the next write of the same file takes it away.
TEST(Files, WhatKilledWritersLeftIsRemoved) {
  std::filesystem::path folder = temporary("abandoned");
  std::filesystem::create_directory(folder);
  pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  auto left = [&](const std::string& name) {
    std::ofstream(folder / name) << "half";
    return folder / name;
  };
  auto gone = left(fmt::format("x.bin.{}.tmp", child)), others = left(fmt::format("y.bin.{}.tmp", child)),
       living = left(fmt::format("x.bin.{}.tmp", ::getppid())), names = left("x.bin.old.tmp"),
       plain = left("x.bin.tmp");
  int held = ::open(gone.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);  // its writer lives where this system does not see it
  ASSERT_TRUE(write_file(folder / "x.bin", "whole").ok());
  EXPECT_TRUE(std::filesystem::exists(gone));
  ::close(held);
  ASSERT_TRUE(write_file(folder / "x.bin", "whole").ok());
  EXPECT_FALSE(std::filesystem::exists(gone));
  for (const auto& kept : {others, living, names, plain}) EXPECT_TRUE(std::filesystem::exists(kept)) << kept;
}

TEST(Files, AKilledWriterLeavesNothing) {
  std::filesystem::path folder = temporary("killed");
  std::filesystem::create_directory(folder);
  int nameless = ::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0666);
  if (nameless < 0) GTEST_SKIP() << "the file system has no files without names";
  ::close(nameless);
  const std::string large(size_t{256} << 20, 'x');
  pid_t child = ::fork();
  if (child == 0) {
    for (;;) (void)write_file(folder / "x.bin", large);
  }
  ::usleep(20000);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  for (const auto& left : std::filesystem::directory_iterator(folder)) EXPECT_EQ(left.path().filename(), "x.bin");
}

TEST(Npy, BoolsAreZerosAndOnes) {
  Literal bools(DType::kBool, {2, 3});
  auto* bytes = static_cast<uint8_t*>(bools.mutable_data());
  bytes[2] = 1, bytes[4] = 255;
  std::string npy = *npy_bytes(bools);
  Result<Literal> read = parse_npy(as_bytes(npy), "x.npy");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(code_of(read), Code::kInputDType);
  EXPECT_EQ(read.errors()[0].message, "x.npy: element 4 of the bools in the file is 255, expected 0 or 1");
  Result<NamedArrays> state = parse_safetensors(as_bytes(safetensors_bytes({{"b", bools}})), "s");
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.errors()[0].message, "s: `b`: element 4 of the bools in the file is 255, expected 0 or 1");
  bytes[4] = 1;
  EXPECT_EQ(*parse_npy(as_bytes(*npy_bytes(bools)), "x"), bools);
}

TEST(Files, LinksAreWrittenThroughAndModesAreKept) {
  namespace fs = std::filesystem;
  fs::create_directories(temporary("links"));
  std::string file = temporary("links/real"), link = temporary("link"), fresh = temporary("links/fresh");
  for (const std::string& path : {file, link, fresh, temporary("dangling")}) fs::remove(path);
  ASSERT_TRUE(write_file(file, "old").ok());
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  fs::create_symlink("links/real", link);
  ASSERT_TRUE(write_file(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(as_text(FileBytes::map(file).value()->bytes()), "new");
  EXPECT_EQ(static_cast<unsigned>(fs::status(file).permissions()), 0640u);
  fs::create_symlink(fresh, temporary("dangling"));
  ASSERT_TRUE(write_file(temporary("dangling"), "made").ok());
  EXPECT_FALSE(fs::is_symlink(fresh));
  EXPECT_EQ(as_text(FileBytes::map(fresh).value()->bytes()), "made");
  Bytes text = as_bytes("#!");
  ASSERT_TRUE(write_file(file, std::span(&text, 1), true).ok());
  EXPECT_EQ(static_cast<unsigned>(fs::status(file).permissions()), 0750u);
}

TEST(Files, AFileThatMayNotBeWrittenIsLeftAsItIs) {
  char folder[] = "/tmp/nabla-files-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  ASSERT_EQ(::chmod(folder, 0777), 0);
  std::string file = std::string(folder) + "/read_only";
  ASSERT_TRUE(write_file(file, "old").ok());
  ASSERT_EQ(::chmod(file.c_str(), 0444), 0);
  auto tried_without_rights = [&] {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    if (::syscall(SYS_capset, &head, none) != 0) std::exit(9);  // root may write everything
    Status status = write_file(file, "new"), checked = check_files({}, {{"--output", file}});
    bool said = !status.ok() && status.errors()[0].message == "cannot write `" + file + "`: Permission denied" &&
                !checked.ok() && checked.errors()[0].message.starts_with("--output: cannot write `" + file);
    std::exit(said ? 3 : 4);
  };
  EXPECT_EXIT(tried_without_rights(), testing::ExitedWithCode(3), "");
  EXPECT_EQ(as_text(FileBytes::map(file).value()->bytes()), "old");
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(file).permissions()), 0444u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace nabla::format
