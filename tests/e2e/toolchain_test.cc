// What nablac says about its surroundings: the host compiler, the cache, files of another kind, programs of a bundle.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::run;
using e2e::scratch;
using std::string;

class Toolchain : public testing::Test {
 protected:
  void SetUp() override {
    setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
    std::ofstream(scratch("m.nbl")) << "nabla 1 flat\n"
                                       "entry f calls @f {\n  inputs x\n  outputs y\n}\n"
                                       "func @f(%x: f32[64]) {\n  %y = exp(%x)\n  return %y\n}\n";
  }
  static string folder() {
    string file = scratch("m.nbl");
    return file.substr(0, file.rfind('/'));
  }
  static e2e::Output compile(const string& settings, const string& options = "") {
    return run("env " + settings + " cli/nablac compile " + scratch("m.nbl") + " -o " + scratch("m.nbundle") + " " +
               options);
  }
};

TEST_F(Toolchain, AMissingCompilerIsNamed) {
  auto out = compile("NABLA_CXX=/nowhere/g++", "--no-cache");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("error[E0501]: no C++ compiler: $NABLA_CXX (/nowhere/g++) was not found"), string::npos)
      << out.text;
}

TEST_F(Toolchain, ACompilerThatFailsIsNamedWithItsExitStatus) {
  auto out = compile("NABLA_CXX=/bin/false TMPDIR=" + folder(), "--no-cache");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("error[E0502]: the host compiler (/bin/false, exit status 1) failed on cpu_0.cc"),
            string::npos)
      << out.text;
  EXPECT_NE(out.text.find("the generated sources are kept in " + folder() + "/nabla-"), string::npos) << out.text;
}

// What the machine lacks while a compiler runs is no bug of Nabla, nor of a kernel of the user's.
TEST_F(Toolchain, ACompilerThatLacksRoomOrMemoryIsNoBug) {
  struct Case {
    const char* script;
    const char* expected;
  };
  for (const Case& c : {Case{"/bin/echo x > /dev/full", "error[E0803]: cannot write `"},
                        {"echo 'x.s: Disk quota exceeded' >&2; exit 1", "error[E0803]: cannot write `"},
                        {"echo 'virtual memory exhausted: Cannot allocate memory' >&2; exit 1", "error[E0804]: the host compiler ("},
                        {"kill -KILL $$", "error[E0804]: the host compiler ("}}) {
    string compiler = scratch("lacking");
    std::ofstream(compiler) << "#!/bin/sh\n" << c.script << "\n";
    ASSERT_EQ(std::system(("chmod +x " + compiler).c_str()), 0);
    auto out = compile("NABLA_CXX=" + compiler, "--no-cache");
    EXPECT_EQ(out.code, 1);
    EXPECT_NE(out.text.find(c.expected), string::npos) << c.script << "\n" << out.text;
    EXPECT_EQ(out.text.find("E0502"), string::npos) << out.text;
    EXPECT_EQ(out.text.find("bug"), string::npos) << out.text;
  }
}

TEST_F(Toolchain, LimitsUnderWhichNoCompilerFinishesAreNoBug) {
  for (const char* limit : {"ulimit -n 7", "ulimit -n 10", "ulimit -v 40000"}) {
    // The limit holds for a shell without redirections, for which it needs descriptors from 10 on.
    const string command = "cli/nablac compile " + scratch("m.nbl") + " -o " + scratch("m.nbundle") + " --no-cache";
    auto out = run("sh -c '" + string(limit) + "; exec " + command + "'");
    EXPECT_EQ(out.code, 1) << limit << "\n" << out.text;
    EXPECT_NE(out.text.find("error[E0804]: "), string::npos) << limit << "\n" << out.text;
    EXPECT_EQ(out.text.find("reproducer"), string::npos) << limit << "\n" << out.text;
  }
}

TEST_F(Toolchain, ACacheThatCannotBeWrittenIsNoted) {
  auto out = compile("NABLA_CACHE=/proc/nabla");
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("note: compiled kernels cannot be kept in the cache `/proc/nabla`: "), string::npos)
      << out.text;
  EXPECT_EQ(compile("NABLA_CACHE=/proc/nabla", "--no-cache").text.find("note:"), string::npos);
  EXPECT_EQ(compile("A=b").text.find("note:"), string::npos);
}

TEST_F(Toolchain, AnotherCompilerUnderTheSameNameCompilesAnew) {
  string compiler = scratch("cxx"), used = scratch("used");
  auto install = [&](const char* text) {
    std::ofstream(compiler) << "#!/bin/sh\n" << text << "\n";
    e2e::must("chmod +x " + compiler);
  };
  install("exec g++ \"$@\"  # one");
  string settings = "NABLA_CACHE=" + scratch("cxx_cache") + " NABLA_CXX=" + compiler;
  ASSERT_EQ(compile(settings).code, 0);
  install("exit 1");
  EXPECT_EQ(compile(settings).code, 1);
  // Of the same size too.
  install("exec g++ \"$@\"  # two");
  ASSERT_EQ(compile(settings).code, 0);
  install("exit 3              # two");
  EXPECT_EQ(compile(settings).code, 1);
  EXPECT_EQ(compile("NABLA_CXX=" + compiler + " NABLA_CACHE=" + scratch("cxx_cache")).code, 1);
}

TEST_F(Toolchain, AFifoInTheCacheIsNoEntry) {
  string cache = scratch("fifo_cache");
  ASSERT_EQ(compile("NABLA_CACHE=" + cache).code, 0);
  e2e::must("for f in " + cache + "/*; do rm $f; mkfifo $f; done");
  auto out = run("NABLA_CACHE=" + cache + " timeout 60 cli/nablac compile " + scratch("m.nbl") + " -o " +
                 scratch("m.nbundle"));
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_EQ(e2e::must("find " + cache + " -type p"), "");
}

TEST_F(Toolchain, InspectSaysWhatABundleIs) {
  std::ofstream(scratch("notes.txt")) << "hello\n";
  auto out = run("cli/nablac inspect " + scratch("notes.txt"));
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("bundles (.nbundle) are what `nablac compile` makes of a module"), string::npos) << out.text;
}

TEST_F(Toolchain, InspectShowsTheProgramOfATarget) {
  ASSERT_EQ(compile("A=b", "--target cpu:x86-64-v3,sm_80").code, 0);
  string inspect = "cli/nablac inspect " + scratch("m.nbundle");
  EXPECT_NE(run(inspect).text.find("target cpu:x86-64-v3"), string::npos);
  EXPECT_NE(run(inspect + " --target sm_80").text.find("target sm_80"), string::npos);
  EXPECT_NE(run(inspect + " --target compute_80").text.find("target compute_80"), string::npos);
  auto shows = [&](const string& target, const string& what) {
    return run(inspect + " --source" + target).text.find(what) != string::npos;
  };
  EXPECT_TRUE(shows("", "extern \"C\" __global__ void") && shows("", "extern \"C\" void"));
  EXPECT_TRUE(shows(" --target sm_80", "extern \"C\" __global__ void"));
  EXPECT_FALSE(shows(" --target sm_80", "extern \"C\" void") || shows(" --target sm_80", "compute_80_0.cu"));
  EXPECT_TRUE(shows(" --target cpu", "extern \"C\" void"));
  EXPECT_FALSE(shows(" --target cpu", "__global__"));
  EXPECT_FALSE(shows(" --target sm_90", "// ----"));
  auto none = run(inspect + " --target sm_90");
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.text.find("has no program for sm_90; it has those for cpu:x86-64-v3, sm_80, compute_80"), string::npos)
      << none.text;
}

}  // namespace
}  // namespace nabla
