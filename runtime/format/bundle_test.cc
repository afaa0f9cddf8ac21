// Bundles: reproducible bytes, and every kind of bad file answered with its own code.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/executable.h"
#include "runtime/format/program_check.h"
#include "runtime/format/sha256.h"
#include "runtime/format/test_programs.h"

namespace nabla::format {
namespace {

Result<Bundle> open_text(std::string_view bytes) {
  return Bundle::from_bytes(FileBytes::copy_of(as_bytes(bytes)), "test.nbundle");
}

std::string message_of(const auto& result) { return result.ok() ? "accepted" : result.errors()[0].message; }
Code code_of(const auto& result) { return result.errors().at(0).code; }

/// The code for a program after `change`: the writer checks as the loader does, but for limits says E0402, not E0106.
std::string refusal(const std::function<void(ProgramT&)>& change) {
  ProgramT program = small_program();
  change(program);
  Result<std::string> bytes = bundle_bytes(program, small_members());
  return bytes.ok() ? "accepted" : code_name(code_of(bytes));
}

TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(sha256_hex(as_bytes("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Bundle, TheSameProgramGivesTheSameBytes) {
  EXPECT_EQ(*bundle_bytes(small_program(), small_members()), *bundle_bytes(small_program(), small_members()));
}

TEST(Bundle, IsReadBackWithAlignedMembersAndAManifestFirst) {
  Result<Bundle> bundle = open_text(*bundle_bytes(small_program(), small_members()));
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  EXPECT_EQ(bundle->members()[0].name, "manifest.json");
  EXPECT_EQ(as_text(bundle->member("constants.bin")), "12345678");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bundle->member("constants.bin").data()) % 64, 0u);
  EXPECT_EQ(bundle->classes()[0].programs[0]->entries()->Get(0)->name()->str(), "main");
  auto manifest = nlohmann::json::parse(as_text(bundle->member("manifest.json")));
  EXPECT_EQ(manifest["entries"][0]["inputs"][0], (nlohmann::json{{"name", "x"}, {"dtype", "f32"}, {"shape", {4}}}));
  EXPECT_EQ(manifest["entries"][0]["writes"][0], "w");
  EXPECT_EQ(manifest["sha256"].size(), 3u);
}

TEST(Bundle, AnExecutableThatCarriesOneIsABundleToo) {
  std::string path = testing::TempDir() + "/carrier";
  std::string bytes = *bundle_bytes(small_program(), small_members());
  EXPECT_EQ(code_of(write_executable(path, as_bytes(std::string(5001, 'E')), bytes)), Code::kForeignFile);
  EXPECT_FALSE(carries_bundle());
  ASSERT_TRUE(write_executable(path, FileBytes::map("/proc/self/exe").value()->bytes(), bytes).ok());
  Result<Bundle> bundle = Bundle::open(path);
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  EXPECT_EQ(as_text(bundle->member("source/note.txt")), "a note");
  EXPECT_TRUE(ends_with_zip(FileBytes::map(path).value()->bytes()));
  EXPECT_NE(std::filesystem::status(path).permissions() & std::filesystem::perms::owner_exec,
            std::filesystem::perms::none);
}

TEST(Bundle, AProgramAboveALimitIsTheCompilersToNameAndAFilesToRefuse) {
  ProgramT program = small_program();
  program.entries[0]->instructions.resize(kMaxInstructions + 1);
  Result<std::string> bytes = bundle_bytes(program, small_members());
  EXPECT_EQ(code_of(bytes), Code::kOverBudget);
  EXPECT_EQ(bytes.errors()[0].message, "the program has 4194305 instructions, the limit is 4194304");

  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<Instruction>> same(kMaxInstructions + 1, CreateInstruction(b));
  auto list = b.CreateVector(same);
  auto name = b.CreateString("main");
  EntryBuilder entry(b);
  entry.add_name(name);
  entry.add_instructions(list);
  auto entries = b.CreateVector(std::vector{entry.Finish()});
  ProgramBuilder whole(b);
  whole.add_entries(entries);
  FinishProgramBuffer(b, whole.Finish());
  Status loaded = check_program_bytes({b.GetBufferPointer(), b.GetSize()}, "x.nbundle", [](auto) { return -1; });
  EXPECT_EQ(code_of(loaded), Code::kTooLarge);
  EXPECT_EQ(loaded.errors()[0].message, "x.nbundle: the program has 4194305 instructions, the limit is 4194304");
}

TEST(Bundle, EveryTruncationIsAnErrorWithoutACrash) {
  std::string bytes = *bundle_bytes(small_program(), small_members());
  for (size_t n = 0; n < bytes.size(); ++n) {
    Result<Bundle> cut = open_text(std::string_view(bytes).substr(0, n));
    ASSERT_FALSE(cut.ok()) << n;
    EXPECT_TRUE(code_of(cut) == Code::kCorrupt || n < 4) << n << to_string(cut.errors());
  }
}

// Of members, headers, padding, the directory and its end.
TEST(Bundle, EveryFlippedByteIsNoticed) {
  std::string bytes = *bundle_bytes(small_program(), small_members());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bits : {0x01, 0x41, 0x80}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ bits);
      EXPECT_FALSE(open_text(damaged).ok()) << i;
    }
}

TEST(Bundle, NothingStandsBesideTheMembers) {
  std::string bytes = *bundle_bytes(small_program(), small_members());
  EXPECT_EQ(message_of(open_text(std::string(64, 'x') + bytes)),
            "test.nbundle: 64 bytes stand in front of the archive");
  // Bytes between the data and the directory, which the end record then places elsewhere.
  size_t directory = bytes.rfind(std::string_view("PK\1\2", 4));
  while (bytes.rfind(std::string_view("PK\1\2", 4), directory - 1) != bytes.npos)
    directory = bytes.rfind(std::string_view("PK\1\2", 4), directory - 1);
  std::string more = bytes;
  more.insert(directory, "hidden!!");
  more[more.size() - 6] = static_cast<char>(more[more.size() - 6] + 8);
  EXPECT_EQ(message_of(open_text(more)),
            "test.nbundle: the bytes after the last member are not those that belong there");
  std::string comment = bytes + "abc";
  comment[bytes.size() - 2] = 3;
  EXPECT_EQ(message_of(open_text(comment)),
            "test.nbundle: the bytes after the last member are not those that belong there");
}

TEST(Bundle, AForeignFileIsToldFromADamagedOne) {
  EXPECT_EQ(code_of(open_text("hello, this is text and no bundle at all")), Code::kForeignFile);
  ZipWriter zip;
  zip.add("readme.txt", as_bytes("x"));
  EXPECT_EQ(code_of(open_text(*std::move(zip).finish())), Code::kForeignFile);
  ZipWriter other;
  other.add("manifest.json", as_bytes(R"({"format": "something else"})"));
  EXPECT_EQ(code_of(open_text(*std::move(other).finish())), Code::kForeignFile);
}

TEST(Bundle, ANewerBundleOrProgramSaysSo) {
  for (auto [version, code] : {std::pair("3", Code::kNewerVersion), {"0", Code::kCorrupt}}) {
    ZipWriter zip;
    zip.add("manifest.json", as_bytes(fmt::format(R"({{"format": "nabla-bundle", "version": {}}})", version)));
    EXPECT_EQ(code_of(open_text(*std::move(zip).finish())), code);
  }
  EXPECT_EQ(refusal([](ProgramT& p) { p.version = 2; }), "E0103");
  EXPECT_EQ(refusal([](ProgramT& p) { p.state[0]->tensor->dtype = static_cast<DType>(77); }), "E0103");
}

TEST(Bundle, EveryAddressAndIndexIsCheckedAgainstItsBounds) {
  auto first = [](ProgramT& p) { return p.entries[0]->instructions[0]->action.AsCopy(); };
  EXPECT_EQ(refusal([](ProgramT&) {}), "accepted");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->bytes = 17; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->from->offset = 1; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->from->offset = ~uint64_t{0}; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->from->index = 1; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->to->offset = 241; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->to->base = BaseKind::Input; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { first(p)->from = nullptr; }), "E0104");
  auto operands = [](ProgramT& p) { return &p.entries[0]->instructions[0]->operands; };
  const Operand read(DType::F32, false, 0), written(DType::F32, true, 0);
  EXPECT_EQ(refusal([&](ProgramT& p) { *operands(p) = {read, written}; }), "accepted");
  EXPECT_EQ(refusal([&](ProgramT& p) { *operands(p) = {read}; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { *operands(p) = {written, written}; }), "E0104");  // an input
  EXPECT_EQ(refusal([&](ProgramT& p) { *operands(p) = {read, Operand(DType::F32, true, 1)}; }), "E0104");
  EXPECT_EQ(refusal([&](ProgramT& p) { *operands(p) = {read, Operand(static_cast<DType>(77), true, 0)}; }), "E0103");
  EXPECT_EQ(refusal([&](ProgramT& p) {
              *operands(p) = {read, Operand(DType::F64, true, 0)};
              first(p)->to->bytes = 20;
            }),
            "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.entries[0]->reads = {1}; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.entries[0]->instructions[0]->location = 1; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.state[0]->offset = 52; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.state_bytes = 1000; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.arena_bytes = ~uint64_t{0}; }), "E0402");
  EXPECT_EQ(refusal([](ProgramT& p) { p.constants_bytes = 9; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) { p.entries[0]->outputs[0]->shape = {-1}; }), "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) {
              p.entries[0]->outputs[0]->shape = {int64_t{1} << 62, int64_t{1} << 62};
            }),
            "E0402");
  EXPECT_EQ(refusal([](ProgramT& p) { p.entries[0]->instructions[0]->action.Reset(); }), "E0104");
}

TEST(Bundle, SizesAreProgramsOverSymbolsThatInputsTell) {
  // x of entry 0 has 2 * n rows, n in [1, its extent / 2].
  auto symbolic = [](ProgramT& p) {
    TensorT& x = *p.entries[0]->inputs[0];
    p.symbols.push_back(std::make_unique<SymbolT>());
    p.symbols[0]->name = "n", p.symbols[0]->min = 1, p.symbols[0]->max = x.shape[0] / 2;
    p.sizes.push_back(std::make_unique<SizeT>());
    p.sizes[0]->steps = {{SizeOp::Constant, 2}, {SizeOp::Symbol, 0}, {SizeOp::Mul, 0}};
    p.sizes[0]->max = x.shape[0];
    x.sizes.assign(x.shape.size(), 0), x.sizes[0] = 1;
    x.symbols.assign(x.shape.size(), ""), x.symbols[0] = "2*n";
    auto source = std::make_unique<SymbolSourceT>();
    source->scale = 2;
    p.entries[0]->sources.push_back(std::move(source));
  };
  auto changed = [&](const std::function<void(ProgramT&)>& change) {
    return refusal([&](ProgramT& p) { symbolic(p), change(p); });
  };
  EXPECT_EQ(changed([](ProgramT&) {}), "accepted");
  EXPECT_EQ(refusal([](ProgramT& p) { p.entries[0]->inputs[0]->symbols = {"n"}; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.symbols[0]->min = p.symbols[0]->max + 1; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.symbols[0]->multiple = 0; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.symbols[0]->buckets = {1, 2}; }), "accepted");
  for (std::vector<int64_t> bounds : {std::vector<int64_t>{0}, {2, 1}, {2, 2}, {1, int64_t{1} << 40}})
    EXPECT_EQ(changed([&](ProgramT& p) { p.symbols[0]->buckets = bounds; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->max += 1; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps.clear(); }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps.pop_back(); }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps = {{SizeOp::Add, 0}}; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps[1] = {SizeOp::Symbol, 1}; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps[2] = {static_cast<SizeOp>(99), 0}; }), "E0103");
  EXPECT_EQ(changed([](ProgramT& p) { p.sizes[0]->steps.assign(99, {SizeOp::Constant, 1}); }), "E0402");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->inputs[0]->sizes[0] = 2; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->inputs[0]->sizes.push_back(0); }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->sources[0]->symbol = 1; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->sources[0]->input = 9; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->sources[0]->dimension = 9; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->sources[0]->scale = 0; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.entries[0]->variants.push_back(std::make_unique<VariantT>()); }), "E0104");
}

// The input's extent tells n, and then n * m + n.
ProgramT two_symbols() {
  auto constant = [](int64_t value) {
    auto size = std::make_unique<SizeT>();
    size->steps = {{SizeOp::Constant, value}};
    return size;
  };
  auto symbol = [](int64_t which) {
    auto size = std::make_unique<SizeT>();
    size->steps = {{SizeOp::Symbol, which}};
    return size;
  };
  ProgramT p = small_program();
  p.sizes.push_back(symbol(0));
  p.sizes[0]->max = 4;
  p.entries[0]->inputs[0]->sizes = {1};
  p.entries[0]->inputs[0]->symbols = {"n"};
  for (const char* name : {"n", "m"}) {
    auto s = std::make_unique<SymbolT>();
    s->name = name, s->min = 1, s->max = 2;
    p.symbols.push_back(std::move(s));
  }
  for (uint32_t i : {0, 1}) {
    auto source = std::make_unique<SymbolSourceT>();
    source->symbol = i;
    p.entries[0]->sources.push_back(std::move(source));
  }
  p.entries[0]->sources[1]->scale_size = symbol(0);
  p.entries[0]->sources[1]->offset_size = symbol(0);
  auto constraint = std::make_unique<ConstraintT>();
  constraint->left = symbol(0), constraint->right = constant(2), constraint->relation = Relation::LessEqual;
  p.constraints.push_back(std::move(constraint));
  return p;
}

TEST(Bundle, ConstraintsAndSourcesOfSizesAreChecked) {
  auto changed = [](const std::function<void(ProgramT&)>& change) {
    return refusal([&](ProgramT& p) { p = two_symbols(), change(p); });
  };
  auto broken = [&](const std::function<void(SizeT&)>& change) {
    std::vector<std::string> codes;
    for (auto of : {+[](ProgramT& p) { return p.constraints[0]->left.get(); },
                    +[](ProgramT& p) { return p.constraints[0]->right.get(); },
                    +[](ProgramT& p) { return p.entries[0]->sources[1]->scale_size.get(); },
                    +[](ProgramT& p) { return p.entries[0]->sources[1]->offset_size.get(); }})
      codes.push_back(changed([&](ProgramT& p) { change(*of(p)); }));
    return codes;
  };
  const std::vector<std::string> damaged(4, "E0104"), newer(4, "E0103"), too_large(4, "E0402");
  EXPECT_EQ(changed([](ProgramT&) {}), "accepted");
  EXPECT_EQ(broken([](SizeT& s) { s.steps.clear(); }), damaged);
  EXPECT_EQ(broken([](SizeT& s) { s.steps = {{SizeOp::Symbol, 2}}; }), damaged);
  EXPECT_EQ(broken([](SizeT& s) { s.steps = {{SizeOp::Add, 0}}; }), damaged);
  EXPECT_EQ(broken([](SizeT& s) { s.steps.push_back({SizeOp::Constant, 1}); }), damaged);
  EXPECT_EQ(broken([](SizeT& s) { s.steps = {{static_cast<SizeOp>(99), 0}}; }), newer);
  EXPECT_EQ(broken([](SizeT& s) { s.steps.assign(99, {SizeOp::Constant, 1}); }), too_large);
  EXPECT_EQ(changed([](ProgramT& p) { p.constraints[0]->left = nullptr; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.constraints[0]->right = nullptr; }), "E0104");
  EXPECT_EQ(changed([](ProgramT& p) { p.constraints[0]->relation = static_cast<Relation>(9); }), "E0103");
  EXPECT_EQ(changed([](ProgramT& p) { p.constraints[0]->location = 1; }), "E0104");
  // A source may use what earlier ones tell, and no more.
  auto of_m = [](SizeT& s) { s.steps = {{SizeOp::Symbol, 1}}; };
  EXPECT_EQ(changed([&](ProgramT& p) { of_m(*p.entries[0]->sources[1]->scale_size); }), "E0104");
  EXPECT_EQ(changed([&](ProgramT& p) { of_m(*p.entries[0]->sources[1]->offset_size); }), "E0104");
}

TEST(Bundle, KernelsMustBeInTheBundle) {
  EXPECT_EQ(refusal([](ProgramT& p) {
              p.kernels.push_back(std::make_unique<KernelT>());
              p.kernels[0]->symbol = "k";
              p.kernels[0]->object = "kernels/cpu.so";
            }),
            "E0104");
  EXPECT_EQ(refusal([](ProgramT& p) {
              LaunchT launch;
              launch.kernel = 0;
              p.entries[0]->instructions[0]->action.Set(std::move(launch));
            }),
            "E0104");
}

GemmT small_gemm() {
  GemmT gemm;
  gemm.dtype = DType::F32;
  gemm.m = gemm.n = gemm.k = 2;
  gemm.lda = gemm.ldb = gemm.ldc = 2;
  gemm.implementation = "matmul";
  gemm.a = address(BaseKind::Arena, 0, 16);
  gemm.b = address(BaseKind::Arena, 16, 16);
  gemm.c = address(BaseKind::Arena, 32, 16);
  return gemm;
}

TEST(Bundle, AGemmMustFitItsOperands) {
  auto code = [](const std::function<void(GemmT&)>& change) {
    return refusal([&](ProgramT& p) {
      GemmT gemm = small_gemm();
      change(gemm);
      p.entries[0]->instructions[0]->action.Set(std::move(gemm));
    });
  };
  EXPECT_EQ(code([](GemmT&) {}), "accepted");
  EXPECT_EQ(code([](GemmT& g) { g.lda = 3; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.lda = 1; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.m = 3; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.batch = 2; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.k = -1; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.m = int64_t{1} << 40, g.ldc = int64_t{1} << 40; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.c->base = BaseKind::Constants; }), "E0104");
}

TEST(Bundle, WhatAGemmDoesBesideTheProductMustFitToo) {
  auto code = [](const std::function<void(GemmT&)>& change) {
    return refusal([&](ProgramT& p) {
      GemmT gemm = small_gemm();
      p.kernels.push_back(std::make_unique<KernelT>());
      p.kernels[0]->symbol = p.kernels[0]->name = "k", p.kernels[0]->object = "source/note.txt";
      gemm.epilogue = Epilogue::Gelu;
      gemm.bias = address(BaseKind::Arena, 48, 8), gemm.workspace = address(BaseKind::Arena, 0, 64);
      gemm.addend = std::make_unique<AddressT>(*gemm.c);
      gemm.fallback = std::make_unique<LaunchT>();
      gemm.fallback->args.push_back(address(BaseKind::Arena, 0, 16));
      gemm.fallback_operands.emplace_back(DType::F32, false, 0);
      change(gemm);
      InstructionT& i = *p.entries[0]->instructions[0];
      i.operands.clear();
      i.action.Set(std::move(gemm));
    });
  };
  EXPECT_EQ(code([](GemmT&) {}), "accepted");
  EXPECT_EQ(code([](GemmT& g) { g.epilogue = static_cast<Epilogue>(3); }), "E0103");
  EXPECT_EQ(code([](GemmT& g) { g.bias->bytes = 4; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.addend->bytes -= 1; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.addend->offset = uint64_t{1} << 40; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.workspace->bytes = uint64_t{1} << 40; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.workspace->base = BaseKind::Constants; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.fallback->kernel = 99; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.fallback->args[0]->offset = uint64_t{1} << 40; }), "E0104");
  EXPECT_EQ(code([](GemmT& g) { g.fallback_operands.emplace_back(DType::F32, false, 0); }), "E0104");
}

ConvolutionT small_convolution() {
  ConvolutionT c;
  c.dtype = DType::F32;
  c.input_shape = {1, 3, 3, 1};
  c.filter_shape = {2, 2, 1, 1};
  c.output_shape = {1, 2, 2, 1};
  c.strides = c.dilations = {1, 1};
  c.padding_low = c.padding_high = {0, 0};
  c.implementation = "onednn";
  c.input = address(BaseKind::Arena, 0, 36);
  c.filter = address(BaseKind::Arena, 64, 16);
  c.output = address(BaseKind::Arena, 128, 16);
  return c;
}

TEST(Bundle, AConvolutionMustBeConsistent) {
  auto code = [](const std::function<void(ConvolutionT&)>& change) {
    return refusal([&](ProgramT& p) {
      ConvolutionT convolution = small_convolution();
      change(convolution);
      p.entries[0]->instructions[0]->action.Set(std::move(convolution));
    });
  };
  EXPECT_EQ(code([](ConvolutionT&) {}), "accepted");
  EXPECT_EQ(code([](ConvolutionT& c) { c.strides = {2, 1}; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.strides = {0, 1}; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.groups = 0; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.filter_shape = {2, 2, 2, 1}; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.padding_low = {0}; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.input->bytes = 35; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.kind = ConvKind::FilterGrad, c.filter->base = BaseKind::Constants; }),
            "E0104");
}

TEST(Bundle, TheFallbackOfAConvolutionMustFitToo) {
  auto code = [](const std::function<void(ConvolutionT&)>& change) {
    return refusal([&](ProgramT& p) {
      ConvolutionT c = small_convolution();
      p.kernels.push_back(std::make_unique<KernelT>());
      p.kernels[0]->symbol = p.kernels[0]->name = "k", p.kernels[0]->object = "source/note.txt";
      c.workspace = address(BaseKind::Arena, 0, 64);
      c.fallback = std::make_unique<LaunchT>();
      c.fallback->args.push_back(address(BaseKind::Arena, 0, 16));
      c.fallback_operands.emplace_back(DType::F32, false, 0);
      change(c);
      InstructionT& i = *p.entries[0]->instructions[0];
      i.operands.clear();
      i.action.Set(std::move(c));
    });
  };
  EXPECT_EQ(code([](ConvolutionT&) {}), "accepted");
  EXPECT_EQ(code([](ConvolutionT& c) { c.workspace->base = BaseKind::Constants; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.fallback->kernel = 99; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.fallback->args[0]->offset = uint64_t{1} << 40; }), "E0104");
  EXPECT_EQ(code([](ConvolutionT& c) { c.fallback_operands.emplace_back(DType::F32, false, 0); }), "E0104");
}

constexpr const char* kCubin = "kernels/sm_90a_0.cubin";

/// small_program for a GPU, with a kernel of two grids.
ProgramT gpu_program() {
  ProgramT p = small_program();
  p.target = "sm_90a";
  p.compute = 90, p.specific = true;
  p.constants = "constants_sm_90a.bin", p.constants_bytes = 4;
  p.kernels.push_back(std::make_unique<KernelT>());
  p.kernels[0]->symbol = p.kernels[0]->name = "k", p.kernels[0]->object = kCubin;
  for (const char* symbol : {"k_1", "k_2"}) {
    p.kernels[0]->grids.push_back(std::make_unique<GridT>());
    GridT& grid = *p.kernels[0]->grids.back();
    grid.symbol = symbol, grid.blocks = 7, grid.threads = 256, grid.shared_bytes = 4096;
  }
  return p;
}

Result<std::string> both(const ProgramT& gpu, const ProgramT& cpu) {
  std::vector<BundleMember> members = small_members();
  members.push_back({kCubin, "code"});
  members.push_back({"constants_sm_90a.bin", "1234"});
  return bundle_bytes({&gpu, &cpu}, members);
}

TEST(Bundle, HoldsProgramsForSeveralTargetsWithConstantsOfTheirOwn) {
  Result<Bundle> bundle = open_text(*both(gpu_program(), small_program()));
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  ASSERT_EQ(bundle->classes().size(), 1u);
  EXPECT_EQ(bundle->classes()[0].name, "main");
  ASSERT_EQ(bundle->classes()[0].programs.size(), 2u);
  const Program &gpu = *bundle->classes()[0].programs[0], &cpu = *bundle->classes()[0].programs[1];
  EXPECT_EQ(gpu.target()->str(), "sm_90a");
  EXPECT_EQ(gpu.kernels()->Get(0)->grids()->Get(1)->symbol()->str(), "k_2");
  EXPECT_EQ(constants_member(gpu), "constants_sm_90a.bin");
  EXPECT_EQ(cpu.target()->str(), "cpu:x86-64-v3");
  EXPECT_EQ(constants_member(cpu), "constants.bin");
  auto manifest = nlohmann::json::parse(as_text(bundle->member("manifest.json")));
  ASSERT_EQ(manifest["programs"].size(), 2u);
  EXPECT_EQ(manifest["programs"][0]["member"], "programs/main.fb");
  EXPECT_EQ(manifest["programs"][0]["requires"]["compute"], 90);
  EXPECT_EQ(manifest["programs"][1]["member"], "programs/cpu:x86-64-v3.fb");
  EXPECT_EQ(manifest["programs"][1]["arena_bytes"], 256);
}

TEST(Bundle, ProgramsOfABundleHaveTheSameEntriesAndState) {
  auto refused = [](const std::function<void(ProgramT&)>& change) {
    ProgramT cpu = small_program();
    change(cpu);
    Result<std::string> bytes = both(gpu_program(), cpu);
    return bytes.ok() ? "accepted" : bytes.errors()[0].str();
  };
  EXPECT_EQ(refused([](ProgramT&) {}), "accepted");
  EXPECT_EQ(refused([](ProgramT& p) { p.state[0]->offset = 16; }), "accepted");  // where it lies is a program's own
  const std::function<void(ProgramT&)> changes[] = {
      [](ProgramT& p) { p.entries[0]->name = "other"; },
      [](ProgramT& p) { p.entries[0]->inputs[0]->name = "z"; },
      [](ProgramT& p) { p.entries[0]->inputs[0]->dtype = DType::I32; },
      [](ProgramT& p) {
        p.entries[0]->outputs[0]->shape = {2, 2};
      },
      [](ProgramT& p) { p.entries.push_back(std::make_unique<EntryT>()), p.entries[1]->name = "more"; },
      [](ProgramT& p) { p.state[0]->tensor->name = "v"; },
      [](ProgramT& p) {
        p.state[0]->tensor->shape = {2, 2};
      },
  };
  for (const auto& change : changes) {
    std::string message = refused(change);
    EXPECT_NE(message.find("error[E0104]: the program: the programs for sm_90a and cpu:x86-64-v3 do not have the same "
                           "entries and state"),
              std::string::npos)
        << message;
  }
}

TEST(Bundle, EveryGridIsCheckedAgainstWhatAGpuTakes) {
  auto refused = [](const std::function<void(ProgramT&, GridT&)>& change) {
    ProgramT gpu = gpu_program();
    change(gpu, *gpu.kernels[0]->grids[1]);
    Result<std::string> bytes = both(gpu, small_program());
    return bytes.ok() ? "accepted" : bytes.errors()[0].message.substr(bytes.errors()[0].message.rfind("program: ") + 9);
  };
  EXPECT_EQ(refused([](ProgramT&, GridT&) {}), "accepted");
  EXPECT_EQ(refused([](ProgramT& p, GridT&) { p.kernels[0]->grids.clear(); }),
            "kernel `k` has 0 grids in a program for GPUs");
  EXPECT_EQ(refused([](ProgramT& p, GridT&) { p.compute = 0; }), "kernel `k` has 2 grids in a program for CPUs");
  EXPECT_EQ(refused([](ProgramT&, GridT& g) { g.symbol.clear(); }), "grid 1 of kernel `k` has no symbol");
  auto map = [&](std::vector<uint64_t> sizes, std::vector<uint64_t> strides, std::vector<uint32_t> box, uint32_t element_bytes) {
    return refused([&](ProgramT&, GridT& g) {
      g.maps.push_back(std::make_unique<TensorMapT>());
      TensorMapT& m = *g.maps.back();
      m.sizes = sizes, m.strides = strides, m.box = box, m.element_bytes = element_bytes;
    });
  };
  EXPECT_EQ(map({8, 8}, {16}, {64, 8}, 2), "accepted");
  EXPECT_EQ(map({8}, {}, {64}, 2), "grid `k_2` has a tensor map of 1 sizes, 0 strides and a box of 1 for elements of 2 bytes");
  EXPECT_EQ(map({8, 8}, {}, {64, 8}, 2), "grid `k_2` has a tensor map of 2 sizes, 0 strides and a box of 2 for elements of 2 bytes");
  EXPECT_EQ(map({8, 8}, {16}, {64}, 2), "grid `k_2` has a tensor map of 2 sizes, 1 strides and a box of 1 for elements of 2 bytes");
  EXPECT_EQ(map({8, 8}, {16}, {32, 8}, 2), "grid `k_2` has a tensor map of 2 sizes, 1 strides and a box of 2 for elements of 2 bytes");
  EXPECT_EQ(map({8, 8}, {16}, {32, 8}, 4), "grid `k_2` has a tensor map of 2 sizes, 1 strides and a box of 2 for elements of 4 bytes");
  const std::string large = "grid `k_2` has {} blocks of {} threads with {} bytes of shared memory";
  auto sizes = [&](int64_t blocks, uint32_t threads, uint32_t shared) {
    std::string want = fmt::format(fmt::runtime(large), blocks, threads, shared);
    EXPECT_EQ(refused([&](ProgramT&, GridT& g) { g.blocks = blocks, g.threads = threads, g.shared_bytes = shared; }),
              want);
  };
  sizes(0, 256, 0);
  sizes(int64_t{1} << 31, 256, 0);
  sizes(7, 0, 0);
  sizes(7, 1025, 0);
  sizes(7, 256, (227 << 10) + 1);
  std::string reference = refused([](ProgramT&, GridT& g) { g.blocks_size = 1; });
  EXPECT_NE(reference.find("the number of blocks"), std::string::npos) << reference;
  EXPECT_NE(refused([](ProgramT& p, GridT&) { p.constants = "none.bin"; }), "accepted");
  EXPECT_NE(refused([](ProgramT& p, GridT&) { p.constants_bytes = 5; }), "accepted");
}

TEST(Bundle, AFullDiskLeavesNothingBehind) {
  EXPECT_EQ(code_of(write_bundle("/dev/full", small_program(), small_members())), Code::kWriteFailed);
  std::filesystem::path folder = testing::TempDir() + "/full";
  std::filesystem::create_directory(folder);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{}, tiny{};
  getrlimit(RLIMIT_FSIZE, &old);
  tiny = {1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tiny);
  Status status = write_bundle(folder / "x.nbundle", small_program(), small_members());
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(code_of(status), Code::kWriteFailed);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace nabla::format
