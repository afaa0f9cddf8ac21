// The subcommands of nablac that need no host compiler, as a user calls them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/nablac/commands.h"
#include "ir/module.h"
#include "runtime/base/text.h"

namespace nabla::cli {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome nablac(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  int code = run_nablac(args, {out, err});
  return {code, out.str(), err.str()};
}

class Nablac : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

constexpr const char* kModule = R"(nabla 1 flat

func @f(%x: f32[2,300]) -> (f32[2,300]) {
  %0 = neg(%x) : f32[2,300]
  %1 = exp(%0) : f32[2,300]
  %2 = add(%1, %0) : f32[2,300]
  return %2
}
)";

constexpr const char* kLaidOut = R"(nabla 1 flat
mesh pod = {dp=2, tp=4}
entry step calls @step {
  inputs x, w, v
  outputs y, t
}
func @step(%x: f32[8@dp,16], %w: f32[16,32], %v: f32[32@tp,6]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %r = relu(%h)
  %y = dot_general(%r, %v) {lhs_contract=[1], rhs_contract=[0]}
  %t = transpose(%y) {permutation=[1, 0]}
  return %y, %t
}
)";

TEST_F(Nablac, WhySaysWhereALayoutComesFrom) {
  std::string file = write("m.nbl", kLaidOut);
  Outcome why = nablac({"why", file, "w", "%t"});
  EXPECT_EQ(why.code, 0) << why.err;
  std::string at = " at " + file;
  EXPECT_EQ(why.out, "%w f32[16,32] in @step\n"
                     "  dimension 0 (16): whole\n"
                     "  dimension 1 (32): along {tp}\n"
                     "    dimension 1 of %w from dimension 1 of %h by dot_general" + at + ":8\n"
                     "    dimension 1 of %h from dimension 1 of %r by relu" + at + ":9\n"
                     "    dimension 1 of %r from dimension 0 of %v by dot_general" + at + ":10\n"
                     "    said by %v (parameter \"v\" of @step)\n"
                     "%t f32[6,8] in @step\n"
                     "  dimension 0 (6): whole\n"
                     "  dimension 1 (8): along {dp}\n"
                     "    dimension 1 of %t from dimension 0 of %y by transpose" + at + ":11\n"
                     "    dimension 0 of %y from dimension 0 of %r by dot_general" + at + ":10\n"
                     "    dimension 0 of %r from dimension 0 of %h by relu" + at + ":9\n"
                     "    dimension 0 of %h from dimension 0 of %x by dot_general" + at + ":8\n"
                     "    said by %x (parameter \"x\" of @step)\n");
  // What did not come about is told with its reason.
  Outcome other = nablac({"why", file, "h", "--mesh", "dp=2,tp=3"});
  EXPECT_NE(other.err.find("3 shards along {tp} do not divide"), std::string::npos) << other.err;
  std::string text = kLaidOut;
  text.replace(text.find("%w: f32[16,32]"), 14, "%w: f32[16,32@{}]");
  Outcome closed = nablac({"why", write("closed.nbl", text), "w"});
  EXPECT_NE(closed.out.find("not along {tp}, as dot_general"), std::string::npos) << closed.out << closed.err;
  EXPECT_NE(closed.out.find("it is closed"), std::string::npos) << closed.out;
}

// What options say, and not the program.
TEST_F(Nablac, WhyNamesTheOptionThatSaidIt) {
  std::string file = write("m.nbl", R"(nabla 1 traced
state w: f32[16,32]
entry f calls @f {
  reads w
  inputs x
  outputs y
}
func @f(%w: f32[16,32], %x: f32[8,16]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)");
  Outcome why = nablac({"why", file, "y", "--mesh", "dp=2,tp=2", "--data-axes", "dp", "--layout", "w=,tp"});
  EXPECT_NE(why.out.find("    said by --data-axes, of %x (parameter \"x\" of @f)\n"), std::string::npos) << why.out << why.err;
  EXPECT_NE(why.out.find("    said by --layout, of state leaf w\n"), std::string::npos) << why.out << why.err;
  std::string laid_out = write("n.nbl", kLaidOut);
  Outcome program = nablac({"why", laid_out, "h", "--mesh", "dp=4,tp=2"});
  EXPECT_NE(program.out.find("    said by %x (parameter"), std::string::npos) << program.out << program.err;
}

TEST_F(Nablac, InspectAndWhyPrintTheNotesOfThePasses) {
  std::string file = write("m.nbl", R"(nabla 1 traced
entry f calls @f {
  inputs x, odd
  outputs y, z
}
func @f(%x: f32[8,16], %odd: f32[7]) {
  %y = neg(%x)
  %z = neg(%odd)
  return %y, %z
}
)");
  const std::string note = "note: input odd of entry f, f32[7], is not cut along {dp}: 2 parts do not divide 7\n";
  Outcome inspect = nablac({"inspect", file, "--mesh", "dp=2", "--data-axes", "dp"});
  EXPECT_EQ(inspect.code, 0);
  EXPECT_NE(inspect.out.find("\n" + note), std::string::npos) << inspect.out;
  EXPECT_NE(inspect.out.find("mesh ranks: dp=2, 2 ranks; "), std::string::npos) << inspect.out;
  Outcome why = nablac({"why", file, "y", "--mesh", "dp=2", "--data-axes", "dp"});
  EXPECT_EQ(why.err, note);
}

TEST_F(Nablac, MisspeltOptionsAreNamedWithTheNearest) {
  std::string file = write("m.nbl", kLaidOut);
  EXPECT_EQ(nablac({"inspect", file, "--zeor", "3"}).err.substr(0, 74),
            "error[E0901]: nablac: there is no option `--zeor`; did you mean `--zero`?\n");
  EXPECT_EQ(nablac({"inspect", file, "--qqqqqqq=3"}).err.substr(0, 51), "error[E0901]: nablac: there is no option `--qqqqqqq");
}

TEST_F(Nablac, WhyOfUnknownNames) {
  std::string file = write("m.nbl", kLaidOut);
  EXPECT_NE(nablac({"why", file, "q"}).err.find("error[E0107]: @step has no value q"), std::string::npos);
  EXPECT_NE(nablac({"why", file, "w", "--entry", "stop"}).err.find("has no entry `stop`; did you mean `step`?"), std::string::npos);
  EXPECT_NE(nablac({"why", write("n.nbl", kModule), "x"}).err.find("error[E"), std::string::npos);
}

TEST_F(Nablac, ConvertGoesThroughAllFormsAndBack) {
  std::string elements = "0";
  for (int i = 1; i < 300; ++i) elements += ", " + std::to_string(i);
  std::string first = write("a.nbl", "nabla 1 flat\nfunc @f() {\n  %c = constant() {value=f32[300] {" + elements +
                                         "}} loc(\"m.cc\":3)\n  return %c\n}\n");
  EXPECT_EQ(nablac({"convert", first, path("b.nir")}).code, 0);
  EXPECT_EQ(nablac({"convert", path("b.nir"), path("c.nir.json")}).code, 0);
  EXPECT_EQ(nablac({"convert", path("c.nir.json"), path("d.nbl")}).code, 0);
  EXPECT_EQ(fs::file_size(path("d.nbl.consts")), 1200u);
  EXPECT_TRUE(fs::exists(path("c.nir.json.consts")));
  EXPECT_FALSE(fs::exists(path("b.nir.consts"))) << "the binary form holds its constants";
  Outcome same = nablac({"diff", "--locations", first, path("d.nbl")});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_EQ(nablac({"convert", path("d.nbl"), path("e.nir")}).code, 0);
  EXPECT_EQ(read(path("e.nir")), read(path("b.nir")));
}

TEST_F(Nablac, ConvertRefusesUnknownExtensionsAsAWrongCommandLine) {
  Outcome o = nablac({"convert", write("a.nbl", kModule), path("b.onnx")});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find(".nir.json"), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(path("b.onnx")));
}

TEST_F(Nablac, DiffShowsAnInsertedNodeAndNotTheNumbersThatItShifts) {
  std::string a = write("a.nbl", kModule);
  std::string b = write("b.nbl", R"(nabla 1 flat
func @f(%x: f32[2,300]) {
  %0 = sin(%x)
  %1 = neg(%x)
  %2 = exp(%1)
  %3 = add(%2, %1)
  return %3
}
)");
  Outcome o = nablac({"diff", a, b});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.out, "functions changed: f\n--- " + a + "\n+++ " + b + R"(
@@ -1,6 +1,7 @@
 nabla 1 flat
 
 func @f(%x: f32[2,300]) -> (f32[2,300]) {
+  %0 = sin(%x) : f32[2,300]
   %1 = neg(%x) : f32[2,300]
   %2 = exp(%1) : f32[2,300]
   %3 = add(%2, %1) : f32[2,300]
)");
}

TEST_F(Nablac, DiffShowsOperandsThatStandForOtherValues) {
  std::string a = write("a.nbl", kModule), swapped = kModule;
  swapped.replace(swapped.find("add(%1, %0)"), 11, "add(%0, %1)");
  Outcome o = nablac({"diff", a, write("b.nbl", swapped)});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("-  %2 = add(%1, %0) : f32[2,300]\n+  %2 = add(%0, %1) : f32[2,300]\n"), std::string::npos)
      << o.out;
}

TEST_F(Nablac, DiffWithAFileThatIsNotThereFailsOtherwiseThanADifference) {
  EXPECT_EQ(nablac({"diff", write("a.nbl", kModule), path("nothing.nbl")}).code, 2);
}

TEST_F(Nablac, VerifyRefusesWhatIsNeitherModuleNorBundle) {
  Outcome o = nablac({"verify", write("notes.txt", "hello")});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("E0105"), std::string::npos) << o.err;
}

TEST_F(Nablac, EmptyFileNamesAndTuningFilesAreErrors) {
  std::string a = write("a.nbl", kModule), empty = write("empty.tuning", "");
  for (std::vector<std::string> args : std::vector<std::vector<std::string>>{{"compile", a, "-o", ""},
                                                                             {"compile", a, "--tuning", ""},
                                                                             {"opt", a, "-o", ""},
                                                                             {"tune", a, "-o", ""},
                                                                             {"convert", a, ""},
                                                                             {"doc", "errors", "--out", ""},
                                                                             {"inspect", a, "--html", ""}}) {
    Outcome o = nablac(args);
    EXPECT_EQ(o.code, 2) << args[0];
    EXPECT_NE(o.err.find("the file name is empty"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("error[E0901]: nablac: "), std::string::npos) << o.err;
  }
  for (const std::string& file : {empty, std::string("/dev/null")}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(nablac({"compile", a, "--tuning", file, "-o", path("a.nbundle")}).code, 1);
    std::string err = testing::internal::GetCapturedStderr();
    EXPECT_NE(
        err.find("error[E0503]: tuning file: it is empty; the first line of one is `nabla-tuning 3`\n  --> " + file),
        std::string::npos)
        << err;
  }
}

TEST_F(Nablac, AReproducerIsKeptOfOurBugsAlone) {
  setenv("TMPDIR", folder_.c_str(), 1);
  std::string refused = write("refused.nbl", R"(nabla 1 traced
func @f(%x: f32[4], %g: f32[4], %lr: f32[]) {
  %y = sgd_update(%x, %g, %lr)
  %s = reduce_sum(%y) {axes=[0]}
  return %s
}
func @main(%x: f32[4], %g: f32[4], %lr: f32[]) {
  %dx = grad(%x, %g, %lr) {callee=@f, wrt=[0]}
  return %dx
}
)");
  Outcome failed = nablac({"opt", refused, "--pipeline-to=flat"});
  EXPECT_NE(failed.err.find("= note: in pass `lower-transforms`"), std::string::npos) << failed.err;
  EXPECT_EQ(failed.err.find("FILE"), std::string::npos) << failed.err;
  for (const auto& file : fs::directory_iterator(folder_))
    EXPECT_EQ(file.path().string().find("reproducer"), std::string::npos) << file.path();
  ir::Module module;
  std::ostringstream out, err;
  keep_reproducer(module, "nablac opt --pass=fuse FILE", {out, err});
  std::string path = fmt::format("{}/nablac-reproducer-{}.nbl", folder_.string(), getpid());
  EXPECT_EQ(err.str(),
            "note: the module before the failing pass is in " + path + "; run: nablac opt --pass=fuse " + path + "\n");
  EXPECT_TRUE(read(path).starts_with("// nablac opt --pass=fuse " + path + "\nnabla 1 ")) << read(path);
  unsetenv("TMPDIR");
}

TEST_F(Nablac, BytesHaveUnits) {
  std::string a = write("a.nbl", kModule);
  Outcome wrong = nablac({"compile", a, "--max-bytes", "many"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--max-bytes: `many` is no number of bytes, or with K, M, G (1000), KiB, MiB, GiB (1024)"),
            std::string::npos)
      << wrong.err;
  testing::internal::CaptureStderr();
  std::string planned = write("b.nbl", std::string(kModule) + "entry f calls @f {\n  inputs x\n  outputs y\n}\n");
  EXPECT_EQ(nablac({"opt", planned, "--pipeline-to=kernels", "-o", path("k.nbl")}).code, 0);
  Outcome fits = nablac({"opt", path("k.nbl"), "--pass=plan-memory{max-bytes=1MiB}"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  testing::internal::GetCapturedStderr();
}

TEST_F(Nablac, OptionsOfRanksNeedAMesh) {
  std::string one = write("one.nbl", std::string(kModule) + "entry f calls @f {\n  inputs x\n  outputs y\n}\n");
  std::string many = write("many.nbl", kLaidOut);
  auto refused = [&](const std::vector<std::string>& args) {
    std::vector<std::string> line = {"compile"};
    line.insert(line.end(), args.begin(), args.end());
    testing::internal::CaptureStderr();
    Outcome o = nablac(line);
    std::string err = testing::internal::GetCapturedStderr() + o.err;
    EXPECT_EQ(o.code, 2) << err;
    size_t at = err.find("error[");
    EXPECT_EQ(err.find("which exchanges nothing") != err.npos, err.find("--mesh dp=4 --data-axes dp") != err.npos) << err;
    return at == err.npos ? err : err.substr(at, err.find('\n', at) - at);
  };
  EXPECT_EQ(refused({one, "--bucket-bytes", "1MiB"}),
            "error[E0901]: --bucket-bytes: the module has no mesh, so that one rank runs it, which exchanges nothing");
  EXPECT_EQ(refused({one, "--max-gather-bytes", "1MiB"}).substr(0, 48), "error[E0901]: --max-gather-bytes: the module has");
  EXPECT_EQ(refused({one, "--no-overlap"}).substr(0, 42), "error[E0901]: --no-overlap: the module has");
  EXPECT_EQ(refused({one, "--mesh", "dp=2"}), "error[E0901]: --mesh: the module has no mesh");
  EXPECT_EQ(refused({one, "--mesh", "dp=2", "--zero", "3"}),
            "error[E0901]: --zero: the module has no mesh, and of the axes of --mesh dp=2 none is named along which the batch lies");
  EXPECT_EQ(refused({one, "--mesh", "4"}), "error[E0901]: --mesh takes a size for every axis, not `4`");
  EXPECT_EQ(refused({many, "--prefetch", "-1"}), "error[E0901]: nablac: --prefetch: `-1` is not a whole number of at least 0");
  EXPECT_EQ(refused({many, "--mesh", "dp"}),
            "error[E0901]: --mesh takes a size for every axis, not `dp`");
  EXPECT_EQ(refused({many, "--mesh", "dp=2,"}),
            "error[E0901]: --mesh takes a size for every axis; `dp=2,` ends with a comma");
  EXPECT_EQ(refused({many, "--mesh", "dp=2,dp=4"}), "error[E0901]: --mesh: axis dp is given twice");
  for (std::string axis : {"a+b", "d p", "a\nb", "?", "0", "d\xc3\xa9"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(nablac({"compile", one, "--mesh", axis + "=2", "--data-axes", axis}).code, 1);
    std::string err = testing::internal::GetCapturedStderr();
    EXPECT_NE(err.find(fmt::format("error[E0210]: mesh ranks: `{}` names no axis\n", printable(axis))), std::string::npos) << err;
    EXPECT_NE(err.find("help: axes are named by letters, digits and _, and no digit comes first"), std::string::npos) << err;
  }
  std::string both = refused({many, "--no-overlap", "--overlap-bytes", "1MiB"});
  EXPECT_NE(both.find("excludes"), std::string::npos) << both;
  both = refused({many, "--no-overlap", "--prefetch", "1"});
  EXPECT_NE(both.find("excludes"), std::string::npos) << both;
  EXPECT_EQ(refused({one, "--prefetch", "1"}).substr(0, 40), "error[E0901]: --prefetch: the module has");
  EXPECT_EQ(refused({many, "--bucket-bytes", "0KiB", "--first-bucket-bytes", "1KiB"}),
            "error[E0901]: --first-bucket-bytes: with --bucket-bytes 0 there are no buckets, nor a first one");
}

TEST_F(Nablac, MoreRanksThanRunHereAreANote) {
  std::string file = write("m.nbl", kLaidOut);
  testing::internal::CaptureStderr();
  Outcome o = nablac({"compile", file, "--mesh", "dp=1,tp=2", "--no-cache", "-o", path("two.nbundle")});
  std::string two = testing::internal::GetCapturedStderr();
  EXPECT_EQ(o.code, 0) << two;
  EXPECT_EQ(two.find("at most 256"), std::string::npos) << two;
  std::string text = kLaidOut;
  for (size_t at; (at = text.find("[8@dp")) != text.npos;) text.replace(at, 2, "[512");
  testing::internal::CaptureStderr();
  o = nablac({"compile", write("many.nbl", text), "--mesh", "dp=512,tp=1", "--no-cache", "-o", path("many.nbundle")});
  std::string many = testing::internal::GetCapturedStderr();
  EXPECT_EQ(o.code, 0) << many;
  EXPECT_NE(many.find("note: the bundle is for 512 ranks: at most 256 are threads of one machine; more are processes (nabla-run "),
            std::string::npos) << many;
}

// Two layers, and fewer texts than ranks.
constexpr const char* kLayers = R"(nabla 1 traced
state up: f32[1024,4096]
state down: f32[4096,1024]
entry step calls @step {
  reads up, down
  inputs x
  outputs y
}
func @step(%up: f32[1024,4096], %down: f32[4096,1024], %x: f32[3,1024]) {
  %h = dot_general(%x, %up) {lhs_contract=[1], rhs_contract=[0]}
  %r = tanh(%h)
  %y = dot_general(%r, %down) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)";

TEST_F(Nablac, PlansOfLayoutsAreWrittenAndRead) {
  std::string file = write("m.nbl", kLayers), plan = path("m.plan"), again = path("again.plan");
  Outcome made = nablac({"inspect", file, "--mesh", "tp=4", "--auto-shard-plan", plan});
  ASSERT_EQ(made.code, 0) << made.err;
  std::string text = read(plan);
  EXPECT_NE(text.find("# mesh ranks = {tp=4}, 4 ranks\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndown=tp,  # 4194304 bytes on a rank; "), std::string::npos) << text;
  EXPECT_NE(text.find("\nup=,tp  # 4194304 bytes on a rank; "), std::string::npos) << text;
  EXPECT_NE(text.find("\ninput step\\.x=,  # an input; "), std::string::npos) << text;
  // What it says is settled then: nothing is chosen for leaves and inputs any more.
  ASSERT_EQ(nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@" + plan, "--auto-shard-plan", again}).code, 0);
  EXPECT_NE(read(again).find("\nup=,tp  # as it is said\n"), std::string::npos) << read(again);
  EXPECT_EQ(nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@" + plan}).code, 0);
  Outcome why = nablac({"why", file, "up", "--mesh", "tp=4", "--auto-shard"});
  EXPECT_NE(why.out.find("dimension 1 (4096): along {tp}"), std::string::npos);
  EXPECT_NE(why.err.find("note: layouts are explained as the search has found them; a compile takes others where"), std::string::npos);
  Outcome folder = nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@/tmp"});
  EXPECT_NE(folder.err.find("/tmp is a folder, expected a file of rules"), std::string::npos) << folder.err;
  Outcome unread = nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@" + path("none.plan")});
  EXPECT_NE(unread.code, 0);
  EXPECT_NE(unread.err.find("none.plan cannot be read"), std::string::npos) << unread.err;
  Outcome endless = nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@/dev/zero"});
  EXPECT_NE(endless.err.find("/dev/zero has more than 16 MiB of rules"), std::string::npos) << endless.err;
  std::ofstream(path("marked.plan")) << "\xef\xbb\xbf" << "up=,tp\n";  // as editors of Windows begin a file
  Outcome marked = nablac({"inspect", file, "--mesh", "tp=4", "--layout", "@" + path("marked.plan")});
  EXPECT_EQ(marked.code, 0) << marked.err;
  Outcome meshless = nablac({"inspect", file, "--auto-shard"});
  EXPECT_EQ(meshless.code, 2);
  EXPECT_NE(meshless.err.find("--auto-shard: the module has no mesh"), std::string::npos) << meshless.err;
}

// A limit is that of a compile: what does not keep it is no program, and found layouts keep it.
TEST_F(Nablac, InspectsUnderALimitOfMemory) {
  std::string file = write("m.nbl", kLayers), plan = path("m.plan");
  Outcome large = nablac({"inspect", file, "--max-bytes", "1MB"});
  EXPECT_EQ(large.code, 1);
  EXPECT_NE(large.err.find("error[E0402]"), std::string::npos) << large.err;
  Outcome none = nablac({"inspect", file, "--mesh", "tp=4", "--auto-shard", "--max-bytes", "1MB"});
  EXPECT_NE(none.err.find("auto-shard: the state takes 8388608 bytes on a rank at least, of 33554432 in all, and at most 1000000 are"),
            std::string::npos)
      << none.err;
  Outcome fits = nablac({"inspect", file, "--mesh", "tp=4", "--auto-shard-plan", plan, "--max-bytes", "9MB"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_NE(read(plan).find("8388608 bytes of state on a rank"), std::string::npos) << read(plan);
}

TEST_F(Nablac, TellsItsVersions) {
  Outcome o = nablac({"--version"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.out, "nablac 0.1.0 (IR version 1, bundle version 2)\n");
}

TEST_F(Nablac, DocKnowsEveryTopicAndSuggestsNames) {
  EXPECT_NE(nablac({"doc", "ops"}).out.find("## dot_general"), std::string::npos);
  EXPECT_NE(nablac({"doc", "passes"}).out.find("## lower-transforms"), std::string::npos);
  EXPECT_NE(nablac({"doc", "errors"}).out.find("| E0203 |"), std::string::npos);
  EXPECT_NE(nablac({"doc", "refusals"}).out.find("| `argmax` | vjp |"), std::string::npos);
  EXPECT_NE(nablac({"doc", "coverage"}).out.find("| `argmax` | yes | "), std::string::npos);
  EXPECT_NE(nablac({"doc", "op", "softmax"}).out.find("| C1 |"), std::string::npos);
  EXPECT_NE(nablac({"doc", "op", "sofmax"}).err.find("did you mean `softmax`?"), std::string::npos);
  EXPECT_EQ(nablac({"doc", "opps"}).code, 2);
  EXPECT_EQ(nablac({"doc", "errors", "--out", folder_.string()}).code, 0);
  EXPECT_EQ(read(path("errors.md")), nablac({"doc", "errors"}).out);
}

TEST_F(Nablac, OptRunsPassesAndWritesTheForms) {
  std::string a = write("a.nbl", kModule);
  Outcome printed = nablac({"opt", a, "--pass=eliminate-dead-code", "--print-after=eliminate-dead-code"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out, "// after eliminate-dead-code (no change)\n" + std::string(kModule) + "\n" + kModule);
  EXPECT_EQ(nablac({"opt", a, "--pass=eliminate-dead-code", "-o", path("b.nir")}).code, 0);
  EXPECT_EQ(nablac({"diff", a, path("b.nir")}).code, 0);
  Outcome both = nablac({"opt", a, "--pass=eliminate-dead-code", "--pipeline-to=flat"});
  EXPECT_EQ(both.code, 2) << both.err;
}

TEST_F(Nablac, AValueBeyondTheLoadersLimitIsRefusedWhereItIsMade) {
  struct Case {
    const char* body;
    std::string says;
  };
  const std::vector<Case> cases{
      {R"(func @main(%x: f32[]) {
  %y = broadcast_in_dim(%x) {dims=[], shape=[8388608, 8388608]} loc("big.py":3:1)
  return %y
})",
       "f32[8388608,8388608] has 281474976710656 bytes"},
      {R"(func @main(%x: f32[8]) {
  %y = broadcast_in_dim(%x) {dims=[0], shape=[8, 35184372088832]} loc("big.py":3:1)
  return %y
})",
       "f32[8,35184372088832] has 1125899906842624 bytes"},
      {R"(func @main(%x: f32[8]) {
  %wide = broadcast_in_dim(%x) {dims=[0], shape=[8, 17592186044416]} loc("big.py":3:1)
  %y = dot_general(%wide, %wide) {lhs_contract=[1], rhs_contract=[1]} loc("big.py":4:1)
  return %y
})",
       "f32[8,17592186044416] has 562949953421312 bytes"},
      {R"(symbol n in [1, 281474976710656]
func @main(%x: f32[n]) loc("big.py":3:1) {
  %y = exp(%x) loc("big.py":3:1)
  return %y
})",
       "f32[n] may have 1125899906842624 bytes"},
  };
  for (const Case& c : cases) {
    std::string symbols, function = c.body;
    if (size_t end = function.find("func"); end > 0) symbols = function.substr(0, end), function.erase(0, end);
    std::string big = write("big.nbl", "nabla 1 traced\n" + symbols + "entry main calls @main {\n  inputs x\n  outputs y\n}\n" +
                                           function + "\n");
    for (std::vector<std::string> line : {std::vector<std::string>{"opt", big, "--program"}, {"inspect", big}}) {
      Outcome failed = nablac(line);
      EXPECT_EQ(failed.code, 1) << line[0];
      EXPECT_NE(failed.err.find("error[E0402]: " + c.says + ", at most 70368744177664 are allowed"), std::string::npos)
          << line[0] << failed.err;
      EXPECT_NE(failed.err.find("big.py:3"), std::string::npos) << line[0] << failed.err;
    }
  }
}

// What fits into arrays compiles, whatever its extents; what does not is told by the user's line, never as a damaged
// bundle.
TEST_F(Nablac, SizesUpToTheLimitOfArraysCompile) {
  auto compiled = [&](const std::string& text) {
    testing::internal::CaptureStderr();
    Outcome out = nablac({"compile", write("large.nbl", "nabla 1 traced\n" + text), "-o", path("large.nbundle")});
    out.err += testing::internal::GetCapturedStderr();
    return out;
  };
  const std::string product = R"(entry main calls @main {
  inputs x, w
  outputs y
}
func @main(%x: f32[n,1], %w: f32[1,4]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)";
  Outcome large = compiled("symbol n in [1, 4398046511104]\n" + product);
  EXPECT_EQ(large.code, 0) << large.err;
  const std::string loop = R"(symbol n in [1, 281474976710656]
entry main calls @main {
  inputs x
  outputs y
}
func @body(%c: f32[]) {
  %y = add(%c, %c)
  return %y
}
func @main(%x: f32[n,0]) {
  %z = constant() {value=f32[] {0.5}}
  %y = scan(%z) {body=@body, consts=0, carries=1, length=[n]} loc("big.py":3)
  return %y
}
)";
  Outcome often = compiled(loop);
  EXPECT_EQ(often.code, 1);
  EXPECT_NE(often.err.find("error[E0402]: entry main: scan may run 281474976710656 times, at most 70368744177664 are"),
            std::string::npos)
      << often.err;
  EXPECT_NE(often.err.find("big.py:3"), std::string::npos) << often.err;
  const std::string sorted = R"(symbol n in [1, 17592186044416]
entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: i8[n]) {
  %y = argsort(%x) {axis=0} loc("big.py":4)
  return %y
}
)";
  Outcome scratch = compiled(sorted);
  EXPECT_EQ(scratch.code, 1);
  EXPECT_NE(scratch.err.find("error[E0402]: kernel @"), std::string::npos) << scratch.err;
  EXPECT_NE(scratch.err.find("needs 562949953421312 bytes of scratch memory, at most 70368744177664 are allowed"),
            std::string::npos)
      << scratch.err;
  EXPECT_NE(scratch.err.find("big.py:4"), std::string::npos) << scratch.err;
}

TEST_F(Nablac, ThePipelineStartsAtTheModulesStage) {
  std::string flat = write("flat.nbl", R"(nabla 1 flat
func @f(%x: f32[4,5]) {
  %0 = softmax(%x) {axis=1}
  return %0
}
entry main calls @f {
  inputs x
  outputs y
}
)");
  Outcome planned = nablac({"opt", flat, "--pipeline-to=planned"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(nablac({"opt", flat, "--pipeline-to=kernels", "-o", path("kernels.nbl")}).code, 0);
  EXPECT_EQ(nablac({"opt", path("kernels.nbl"), "--pipeline-to=planned"}).code, 0);
  Outcome inspected = nablac({"inspect", flat});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_NE(inspected.out.find("1 instruction"), std::string::npos) << inspected.out;
  Outcome late = nablac({"opt", flat, "--pass=lower-transforms"});
  EXPECT_NE(late.err.find("brings modules to stage flat, and this one is at stage flat already"), std::string::npos)
      << late.err;
}

TEST_F(Nablac, UnknownCommandsAreRefusedWithASuggestion) {
  Outcome o = nablac({"veryfy", "a.nbl"});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("unknown subcommand `veryfy`; did you mean `verify`?"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("= help: there are compile, tune, opt, inspect, "), std::string::npos) << o.err;
  EXPECT_NE(nablac({"zzz"}).err.find("error[E0901]: unknown subcommand `zzz`\n"), std::string::npos);
  EXPECT_EQ(nablac({"--verify"}).err.find("subcommand `"), std::string::npos);
  std::string a = write("a.nbl", kModule);
  auto helps = [&](std::vector<std::string> args, const std::string& help) {
    std::string err = nablac(args).err;
    EXPECT_NE(err.find("   = help: " + help + "\n"), std::string::npos) << err;
  };
  helps({"opt", a, "--pipeline-to=flatt"}, "stages are traced, flat, staged, sharded, local, scheduled, kernels, planned");
  helps({"doc", "op"}, "such as `nablac doc op add`; `nablac doc ops` lists them");
  helps({"inspect", a, "--mesh", "dp"}, "give every axis once, with its number of ranks: --mesh dp=2,tp=4");
  helps({"inspect", a, "--zero", "5"}, "`nablac inspect --help` lists what it takes");
}

}  // namespace
}  // namespace nabla::cli
