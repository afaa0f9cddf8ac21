// Writes seeds of the bundle fuzzer as the compiler makes them today, whose kernels are a byte each:
//   bazel run //tests/fuzz:make_bundles
// NAME.nbundle for a CPU and a GPU, and its programs alone, NAME.main.fb and NAME.sm_90a.fb: after the hashes of a
// bundle a damaged program is never looked at. And ranks.nbundle, for several ranks, with members that are refused in
// it.
#include <cstdlib>
#include <functional>
#include <iostream>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/file.h"
#include "runtime/format/test_programs.h"
#include "runtime/format/zip.h"

namespace nabla {
namespace {

constexpr const char* kTargets[] = {"cpu", "sm_90a"};

struct Seed {
  const char* name;
  const char* text;
};
// The fuzzer knows constants of 64 bytes, or none.
constexpr Seed kSeeds[] = {
    // State that is updated in place, constants, a size that is known at run time.
    {"training", R"(nabla 1 traced
symbol batch in [8, 64] multiple 8
state w: f32[32,16] loc("model.py":3)
state steps: i32[]
entry step calls @step {
  reads w, steps
  writes w, steps
  inputs x
  outputs loss
}
entry predict calls @predict {
  reads w
  inputs x
  outputs y
}
func @predict(%w: f32[32,16], %x: f32[batch,32]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]} loc("model.py":7 "model" "x @ w")
  %y = softmax(%h) {axis=1}
  return %y
}
func @loss(%w: f32[32,16], %x: f32[batch,32]) {
  %y = call(%w, %x) {callee=@predict}
  %c = constant() {value=f32[16] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16.5}}
  %columns = reduce_sum(%y) {axes=[0]}
  %p = mul(%columns, %c)
  %l = reduce_sum(%p) {axes=[0]}
  return %l
}
func @step(%w: f32[32,16], %steps: i32[], %x: f32[batch,32]) {
  %g = grad(%w, %x) {callee=@loss, wrt=[0]}
  %l = call(%w, %x) {callee=@loss}
  %new = sub(%w, %g)
  %one = constant() {value=i32[] {1}}
  %n = add(%steps, %one)
  return %new, %n, %l
}
)"},
    // Calls of libraries, on GPUs with algorithms that the bundle may name.
    {"library", R"(nabla 1 traced
symbol batch in [1, 512]
entry main calls @main {
  inputs x, w, image, taps
  outputs y, z
}
func @main(%x: f32[batch,512], %w: f32[512,1024], %image: f32[batch,16,16,32], %taps: f32[3,3,32,64]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %z = convolution(%image, %taps) {strides=[1,1], padding_low=[1,1], padding_high=[1,1], dilation=[1,1], groups=1}
  return %y, %z
}
)"},
    // Blocks: a loop over slices whose number is a symbol, a branch, a loop without a known end.
    {"loops", R"(nabla 1 traced
symbol steps in [1, 16]
entry main calls @main {
  inputs w, h, xs, stop
  outputs last, all, n
}
func @cell(%w: f32[8], %h: f32[8], %x: f32[8]) {
  %p = mul(%h, %w)
  %q = add(%p, %x)
  return %q, %p
}
func @short(%h: f32[8]) {
  %y = exp(%h)
  return %y
}
func @long(%h: f32[8]) {
  %y = tanh(%h)
  return %y
}
func @below(%n: i32[], %x: f32[]) {
  %limit = constant() {value=f32[] {100.0}}
  %go = lt(%x, %limit)
  return %go
}
func @twice(%n: i32[], %x: f32[]) {
  %one = constant() {value=i32[] {1}}
  %m = add(%n, %one)
  %y = add(%x, %x)
  return %m, %y
}
func @main(%w: f32[8], %h: f32[8], %xs: f32[steps,8], %stop: bool[]) {
  %c, %all = scan(%w, %h, %xs) {body=@cell, consts=1, carries=1, length=[steps]}
  %last = cond(%stop, %c) {then=@short, else=@long}
  %zero = constant() {value=i32[] {0}}
  %x = reduce_sum(%last) {axes=[0]}
  %n, %y = while(%zero, %x) {cond=@below, body=@twice, consts=0}
  return %last, %all, %n
}
)"},
    // Sizes with formulas and constraints, a sort (scratch memory), a gather, narrow floats.
    {"sizes", R"(nabla 1 traced
symbol len in [1, 100]
symbol more in [2, 200]
require len <= more
entry main calls @main {
  inputs x, table, ids
  outputs y, rows, total
}
func @main(%x: bf16[len,4], %table: f32[more,8], %ids: i32[len]) {
  %y = reshape(%x) {shape=[4*len]}
  %e = embedding(%table, %ids)
  %s = convert(%e) {dtype=f16}
  %total = reduce_sum(%e) {axes=[0]}
  return %y, %s, %total
}
)"},
};

// What the kernel compilers would give, as small as can be.
codegen::TargetCode stand_in(const ir::Module& planned, const ir::Target& target) {
  codegen::TargetCode out;
  std::string object = target.is_cuda() ? "kernels/" + target.name + ".cubin" : "kernels/cpu.so";
  for (size_t i = 0; i < planned.kernels.size(); ++i) {
    std::string symbol = "k" + std::to_string(i);
    out.kernels.push_back({symbol, object, {}});
    if (target.is_cuda()) out.kernels.back().grids.push_back({symbol, ir::Dim(1), 128, 0});
  }
  out.members.emplace_back(object, "k");
  return out;
}

Status write_seed(const Seed& seed, const std::string& folder) {
  ir::Module module = NABLA_TRY(ir::parse_module(seed.text, seed.name, ops::all_ops()));
  std::vector<driver::CompiledModule> compiled;
  std::vector<driver::PlannedProgram> programs;
  for (const char* target : kTargets)
    compiled.push_back(NABLA_TRY(driver::lower_module(module, {.target = target})));
  for (const driver::CompiledModule& c : compiled)
    programs.push_back({&c.planned, &c.target, stand_in(c.planned, c.target), {c.buckets}});
  std::string bytes = NABLA_TRY(driver::emit_programs(std::move(programs), {})).bytes;
  (void)NABLA_TRY(format::write_file(folder + "/" + seed.name + ".nbundle", bytes));
  format::ZipReader zip = NABLA_TRY(format::ZipReader::open(format::as_bytes(bytes), seed.name));
  for (const format::ZipMember& m : zip.members()) {
    if (!m.name.starts_with(format::kProgramFolder)) continue;
    std::string path = folder + "/" + seed.name + "." + m.name.substr(format::kProgramFolder.size());
    (void)NABLA_TRY(format::write_file(path, NABLA_TRY(zip.read(m))));
  }
  return Ok{};
}

// A bundle for several ranks; its rank table and the program of one class also alone.
Status write_ranks(const std::string& folder) {
  std::string bytes = NABLA_TRY(format::two_classes().bytes());
  (void)NABLA_TRY(format::write_file(folder + "/ranks.nbundle", bytes));
  format::ZipReader zip = NABLA_TRY(format::ZipReader::open(format::as_bytes(bytes), "ranks"));
  const std::pair<const char*, std::string> members[] = {{"ranks.table", std::string(format::kRanksMember)},
                                                         {"ranks.front", "class/front/programs/main.fb"}};
  for (const auto& [name, member] : members)
    (void)NABLA_TRY(format::write_file(folder + "/" + name, NABLA_TRY(zip.read(*zip.find(member)))));
  return Ok{};
}

std::string packed(const format::ProgramT& program) {
  flatbuffers::FlatBufferBuilder b;
  format::FinishProgramBuffer(b, format::Program::Pack(b, &program));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}
std::string packed(const format::RanksT& ranks) {
  flatbuffers::FlatBufferBuilder b;
  format::FinishRanksBuffer(b, format::Ranks::Pack(b, &ranks));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

// Members of that bundle which are refused; bundle_corpus_test.cc says for what.
Status write_refused(const std::string& folder) {
  auto front = [&](const char* name, const std::function<void(format::ProgramT&)>& change) {
    format::ProgramT program = format::two_classes().front;
    change(program);
    return format::write_file(fmt::format("{}/{}.front", folder, name), packed(program));
  };
  auto table = [&](const char* name, const std::function<void(format::RanksT&)>& change) {
    format::TwoClasses t = format::two_classes();
    t.ranks.classes[0]->programs = {"class/front/programs/main.fb"};
    t.ranks.classes[1]->programs = {"class/back/programs/main.fb"};
    change(t.ranks);
    return format::write_file(fmt::format("{}/{}.table", folder, name), packed(t.ranks));
  };
  (void)NABLA_TRY(front("recursion", [](format::ProgramT& p) {
    p.blocks.push_back(std::make_unique<format::BlockT>());
    p.blocks[0]->instructions.push_back(format::instruction("call", format::CallT()));
    p.entries[0]->instructions.push_back(format::instruction("call", format::CallT()));
  }));
  (void)NABLA_TRY(front("never_awaited", [](format::ProgramT& p) { p.entries[0]->instructions.pop_back(); }));
  (void)NABLA_TRY(front("no_such_group",
                        [](format::ProgramT& p) { p.entries[0]->instructions[2]->action.AsCollective()->group = 1; }));
  (void)NABLA_TRY(table("two_classes_of_a_rank", [](format::RanksT& r) { r.classes[1]->first = 0; }));
  (void)NABLA_TRY(table("no_such_class", [](format::RanksT& r) { r.state[1]->placements[0]->class_index = 5; }));
  return table("one_end", [](format::RanksT& r) { r.classes[1]->channels[0]->sends = true; });
}

Status run(const std::string& folder) {
  for (const Seed& seed : kSeeds) (void)NABLA_TRY(write_seed(seed, folder));
  (void)NABLA_TRY(write_ranks(folder));
  return write_refused(folder);
}

}  // namespace
}  // namespace nabla

int main() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  nabla::Status status = nabla::run(std::string(workspace ? workspace : ".") + "/tests/fuzz/bundle_corpus");
  if (!status.ok()) std::cerr << to_string(status.errors());
  return status.ok() ? 0 : 1;
}
