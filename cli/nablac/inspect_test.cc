// nablac inspect on bundles whose hashes are right and whose reports are not.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cli/nablac/commands.h"
#include "runtime/format/test_programs.h"

namespace nabla::cli {
namespace {

using format::ProgramT;

struct Outcome {
  int code;
  std::string out, err;
};

// inspect on a bundle of these programs with these reports, named m.nbundle.
Outcome inspect(const std::vector<const ProgramT*>& programs, const std::vector<format::BundleMember>& reports,
                std::vector<std::string> options) {
  std::vector<format::BundleMember> members = format::small_members();
  members.insert(members.end(), reports.begin(), reports.end());
  std::filesystem::current_path(testing::TempDir());
  EXPECT_TRUE(format::write_file("m.nbundle", format::bundle_bytes(programs, members).value()).ok());
  std::ostringstream out, err;
  options.insert(options.begin(), {"inspect", "m.nbundle"});
  int code = run_nablac(options, {out, err});
  return {code, out.str(), err.str()};
}

TEST(Inspect, ADamagedReportIsNotPrinted) {
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
TEST(Inspect, OptionsOfModulesAreRefusedForBundles) {
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
TEST(Inspect, OptionsOfModulesAreThoseOfCompile) {
  std::filesystem::current_path(testing::TempDir());
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

// The report of the target that is asked for is looked for among all of them.
TEST(Inspect, ADamagedReportOfAnotherTargetIsNamed) {
  ProgramT first = format::small_program(), second = format::small_program();
  second.target = "cpu:x86-64-v4";
  Outcome o = inspect({&first, &second},
                      {{"report.json", R"({"report_version": 5, "target": "cpu:x86-64-v3"})"}, {"report_cpu:x86-64-v4.json", "{"}},
                      {"--target", "cpu:x86-64-v4"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.err.substr(0, 85), "error[E0104]: m.nbundle: report_cpu:x86-64-v4.json is damaged: no JSON from byte 2 of");
}

}  // namespace
}  // namespace nabla::cli
