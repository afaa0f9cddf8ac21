// nablac inspect on bundles whose hashes are right and whose reports are not; notes of modules, and axes that are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cli/nablac/commands.h"
#include "runtime/format/test_programs.h"

namespace nabla::cli {
namespace {

using format::ProgramT;

/// A test whose working directory is its temporary folder, so that messages name files without a folder.
class InTempDir : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::current_path(testing::TempDir()); }
  void TearDown() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};
class Inspect : public InTempDir {};
class Notes : public InTempDir {};

struct Outcome {
  int code;
  std::string out, err;
};

// inspect on a bundle of these programs with these reports, named m.nbundle.
Outcome inspect(const std::vector<const ProgramT*>& programs, const std::vector<format::BundleMember>& reports,
                std::vector<std::string> options) {
  std::vector<format::BundleMember> members = format::small_members();
  members.insert(members.end(), reports.begin(), reports.end());
  EXPECT_TRUE(format::write_file("m.nbundle", format::bundle_bytes(programs, members).value()).ok());
  std::ostringstream out, err;
  options.insert(options.begin(), {"inspect", "m.nbundle"});
  int code = run_nablac(options, {out, err});
  return {code, out.str(), err.str()};
}

Outcome nablac(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  int code = run_nablac(args, {out, err});
  return {code, out.str(), err.str()};
}
std::string write(const std::string& name, const std::string& text) {
  EXPECT_TRUE(format::write_file(name, text).ok());
  return name;
}

TEST_F(Inspect, ADamagedReportIsNotPrinted) {
  const ProgramT program = format::small_program();
  auto of = [&](const std::string& report, const std::string& option = "--json") {
    return inspect({&program}, {{"report.json", report}}, {option});
  };
  const std::string good = R"({"report_version": 5, "target": "cpu:x86-64-v3"})";
  EXPECT_EQ(of(good).out, good + "\n");
  std::string damaged = good;
  damaged[20] = '#';
  Outcome json = of(damaged);
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(json.out, "");
  EXPECT_EQ(json.err, "error[E0104]: m.nbundle: report.json is damaged: no JSON from byte 21 of 48 on\n"
                      "   = help: make or copy the file again\n");
  EXPECT_EQ(of("[5]").err.substr(0, 83), "error[E0104]: m.nbundle: report.json is no report: it has no report_version\n   = he");
  EXPECT_EQ(of(R"({"report_version": 1e999})").err.substr(0, 66), "error[E0104]: m.nbundle: report.json is damaged: a number in it is");
  EXPECT_EQ(of(R"({"report_version": 4})").err.substr(0, 56), "error[E0105]: m.nbundle: report.json is of version 4; th");
}

// What a bundle's program became was said when it was compiled.
TEST_F(Inspect, OptionsOfModulesAreRefusedForBundles) {
  const ProgramT program = format::small_program();
  for (const std::vector<std::string>& option : std::vector<std::vector<std::string>>{
           {"--tf32"}, {"--no-library"}, {"--no-fuse"}, {"--deterministic"}, {"--no-overlap"}, {"--buckets", "n=1"}, {"--mesh", "dp=2"},
           {"--offload", "opt"}, {"--max-bytes", "1K"}, {"--tuning", "t"}, {"--specialize", "n=1"}, {"--prefetch", "1"}}) {
    Outcome o = inspect({&program}, {}, option);
    EXPECT_EQ(o.code, 2);
    EXPECT_EQ(o.err, fmt::format("error[E0901]: {} is for modules; m.nbundle is a bundle, whose code stands\n"
                                 "   = help: compile the module with it, and inspect what that makes\n",
                                 option[0]));
  }
}

// Of a module they say what is shown.
TEST_F(Inspect, OptionsOfModulesAreThoseOfCompile) {
  ASSERT_TRUE(format::write_file("m.nbl", "nabla 1 flat\nentry main calls @f {\n  inputs x\n  outputs y\n}\nfunc @f(%x: bf16[512,512]) {\n"
                                          "  %y = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[0]}\n  return %y\n}\n")
                  .ok());
  auto shown = [](std::vector<std::string> options) {
    std::ostringstream out, err;
    options.insert(options.begin(), {"inspect", "m.nbl", "--target", "sm_90a"});
    EXPECT_EQ(run_nablac(options, {out, err}), 0) << err.str();
    return out.str();
  };
  EXPECT_NE(shown({}).find("1 kind of library call\n"), std::string::npos) << shown({});
  EXPECT_EQ(shown({"--no-library"}).find("library call"), std::string::npos) << shown({"--no-library"});
  EXPECT_NE(shown({"--no-library"}).find("\n1 kernel\n"), std::string::npos);
}

// Times of a bundle are those that were predicted when it was compiled.
TEST_F(Inspect, ABundleIsNotPredictedAnew) {
  const ProgramT program = format::small_program();
  Outcome o = inspect({&program}, {{"report.json", R"({"report_version": 5, "target": "sm_90a"})"}}, {"--target", "sm_90a:H200"});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, "error[E0901]: --target sm_90a:H200: the times of m.nbundle were predicted when it was compiled\n"
                   "   = help: leave the GPU out, or compile with --target sm_90a:H200\n");
}

// The report of the target that is asked for is looked for among all of them.
TEST_F(Inspect, ADamagedReportOfAnotherTargetIsNamed) {
  ProgramT first = format::small_program(), second = format::small_program();
  second.target = "cpu:x86-64-v4";
  Outcome o = inspect({&first, &second},
                      {{"report.json", R"({"report_version": 5, "target": "cpu:x86-64-v3"})"}, {"report_cpu:x86-64-v4.json", "{"}},
                      {"--target", "cpu:x86-64-v4"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.err.substr(0, 85), "error[E0104]: m.nbundle: report_cpu:x86-64-v4.json is damaged: no JSON from byte 2 of");
}

// Every leaf has the same note: one is printed, with their number. The report has them all.
TEST_F(Notes, NotesOfOneKindAreOne) {
  std::string leaves, inputs, nodes, results;
  for (int i = 1; i <= 5; ++i) {
    inputs += fmt::format("{}odd{}", i > 1 ? ", " : "", i), leaves += fmt::format("{}%odd{}: f32[{}]", i > 1 ? ", " : "", i, 2 * i + 1);
    nodes += fmt::format("  %y{0} = neg(%odd{0})\n", i), results += fmt::format("{}%y{}", i > 1 ? ", " : "", i);
  }
  std::string outputs = results;
  std::erase(outputs, '%');
  const std::string file = write("m.nbl", fmt::format("nabla 1 traced\nentry f calls @f {{\n  inputs x, {0}\n  outputs x1, {1}\n}}\n"
                                                      "func @f(%x: f32[8,16], {2}) {{\n  %x1 = neg(%x)\n{3}  return %x1, {4}\n}}\n",
                                                      inputs, outputs, leaves, nodes, results));
  const std::string one = "note: input odd1 of entry f, f32[3], is not cut along {dp}: 2 parts do not divide 3 (the first of 5 notes of "
                          "this kind)\n";
  EXPECT_EQ(nablac({"why", file, "x1", "--mesh", "dp=2", "--data-axes", "dp"}).err, one);
  const Outcome text = nablac({"inspect", file, "--mesh", "dp=2", "--data-axes", "dp"});
  EXPECT_NE(text.out.find("\n" + one), std::string::npos) << text.out << text.err;
  const Outcome json = nablac({"inspect", file, "--mesh", "dp=2", "--data-axes", "dp", "--json"});
  for (int i = 1; i <= 5; ++i) EXPECT_NE(json.out.find(fmt::format("input odd{} of entry f", i)), std::string::npos) << json.out;
}

// Ranks along an axis over which nothing is sharded all compute the same.
TEST_F(Notes, IdleAxesOfMeshAreRefused) {
  const std::string text =
      "nabla 1 traced\nmesh m = {dp=1, tp=1}\nentry f calls @f {\n  inputs x\n  outputs y\n}\n"
      "func @f(%x: f32[8@dp]) {\n  %y = neg(%x)\n  return %y\n}\n";
  const std::vector<std::string> idle = {"inspect", write("x.nbl", text), "--mesh", "dp=2,tp=4"};
  const Outcome refused = nablac(idle);
  EXPECT_EQ(refused.code, 2);
  const char* why = "error[E0901]: --mesh: axis tp: nothing is sharded over it, so that its 4 ranks all compute the same\n";
  EXPECT_TRUE(refused.err.starts_with(why)) << refused.err;
  EXPECT_NE(refused.err.find("--allow-idle-axes"), std::string::npos) << refused.err;
  for (const char* option : {"--allow-idle-axes", "--auto-shard"}) {
    std::vector<std::string> allowed = idle;
    allowed.push_back(option);
    EXPECT_EQ(nablac(allowed).code, 0) << option;
  }
}

}  // namespace
}  // namespace nabla::cli
