// How a process came to be a rank: every launcher's variables, and sets of them that do not fit together.
#include "cli/nabla_run/launch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cli/exit_codes.h"
#include "cli/nabla_run/alike.h"
#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

using Env = std::map<std::string, std::string>;

Result<Launched> with(const Env& env, const RankFlags& flags = {}) {
  return launched(flags, [&](const char* name) { return env.count(name) > 0 ? env.at(name).c_str() : nullptr; });
}

void expect(const Env& env, const std::string& by, uint32_t rank, uint32_t ranks, bool mpi, const RankFlags& flags = {}) {
  Result<Launched> l = with(env, flags);
  ASSERT_TRUE(l.ok()) << to_string(l.errors());
  EXPECT_EQ(l->by, by);
  EXPECT_EQ(l->rank, rank) << by;
  EXPECT_EQ(l->ranks, ranks) << by;
  EXPECT_EQ(l->mpi, mpi) << by;
}

TEST(Launch, EveryLauncherIsKnownByItsVariables) {
  expect({}, "", 0, 1, false);
  expect({}, "who gave --rank", 2, 4, false, {.rank = 2, .world_size = 4});
  expect({{"NABLA_RANK", "1"}, {"NABLA_WORLD_SIZE", "2"}}, "who set NABLA_RANK", 1, 2, false);
  Env ompi{{"OMPI_COMM_WORLD_RANK", "3"},
           {"OMPI_COMM_WORLD_SIZE", "8"},
           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  expect(ompi, "Open MPI (OMPI_COMM_WORLD_RANK)", 3, 8, true);
  EXPECT_EQ(with(ompi)->local_rank, 1u);
  EXPECT_EQ(with(ompi)->local_ranks, 2u);
  expect({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "MPICH (PMI_RANK)", 0, 2, true);
  expect({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "1"}}, "SLURM (SLURM_PROCID)", 5, 6, true);
  // A batch script itself is a task of one.
  expect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, "", 0, 1, false);
  Env torch{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  expect(torch, "torchrun (RANK)", 1, 4, false);
  EXPECT_EQ(with(torch)->rendezvous, "node0:29500");
  EXPECT_EQ(with(torch, {.rendezvous = "other:1"})->rendezvous, "other:1");
  Env kubernetes{{"JOB_COMPLETION_INDEX", "2"}, {"NABLA_WORLD_SIZE", "3"}, {"NABLA_RENDEZVOUS", "job-0.job:4000"}};
  expect(kubernetes, "Kubernetes (JOB_COMPLETION_INDEX)", 2, 3, false);
  EXPECT_EQ(with(kubernetes)->rendezvous, "job-0.job:4000");
  // What is said by hand wins, then the launcher that is nearest to the process.
  expect(ompi, "who gave --rank", 0, 2, false, {.rank = 0, .world_size = 2});
  Env both = ompi;
  both.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  expect(both, "Open MPI (OMPI_COMM_WORLD_RANK)", 3, 8, true);
}

TEST(Launch, RefusalsSayWhatToSet) {
  auto help = [](const Env& env) {
    Result<Launched> l = with(env, {});
    return l.ok() ? "" : l.errors()[0].help;
  };
  EXPECT_EQ(help({{"NABLA_RANK", "0"}}), "set NABLA_WORLD_SIZE, or unset NABLA_RANK");
  EXPECT_EQ(help({{"NABLA_RANK", "2"}, {"NABLA_WORLD_SIZE", "2"}}), "set NABLA_RANK to a number from 0 to 1");
  EXPECT_EQ(help({{"NABLA_RANK", "1"}, {"NABLA_WORLD_SIZE", "1"}}), "set NABLA_RANK to 0");
  EXPECT_EQ(help({{"NABLA_RANK", "x"}}).substr(0, 29), "set NABLA_RANK to a number up");
  EXPECT_EQ(help({{"NABLA_WORLD_SIZE", "2"}, {"JOB_COMPLETION_INDEX", ""}}), "set NABLA_RANK to the number of this rank, 0 to 1");
  const Env torch{{"RANK", "1"}, {"WORLD_SIZE", "4"}};
  Env places = torch, port = torch;
  places.insert({{"LOCAL_RANK", "7"}, {"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(help(places), "set LOCAL_RANK to a number from 0 to 1");
  places = torch;
  places.insert({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "9"}});
  EXPECT_EQ(help(places), "set LOCAL_WORLD_SIZE to how many of them this machine has");
  port.insert({{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "0"}});
  EXPECT_EQ(help(port), "set it to a port that is free on rank 0's machine, or NABLA_RENDEZVOUS to HOST:PORT");
}

TEST(Launch, VariablesThatDoNotFitTogetherAreNamed) {
  auto why = [](const Env& env, const RankFlags& flags = {}) {
    Result<Launched> l = with(env, flags);
    return l.ok() ? "" : l.errors()[0].message;
  };
  EXPECT_EQ(why({}, {.rank = 1}), "--rank is given without --world-size");
  EXPECT_EQ(why({}, {.world_size = 1}), "--world-size is given without --rank");
  EXPECT_EQ(why({}, {.rank = 4, .world_size = 4}), "--rank 4 of --world-size 4: ranks count from 0");
  EXPECT_EQ(why({{"NABLA_RANK", "0"}}), "the environment has NABLA_RANK=0 and no NABLA_WORLD_SIZE");
  EXPECT_EQ(why({{"NABLA_RANK", "2"}, {"NABLA_WORLD_SIZE", "2"}}),
            "the environment has NABLA_RANK=2 and NABLA_WORLD_SIZE=2: ranks count from 0");
  EXPECT_EQ(why({{"RANK", "0"}}), "the environment of torchrun has RANK=0 and no WORLD_SIZE");
  EXPECT_EQ(why({{"SLURM_PROCID", "3"}}), "the environment of SLURM has SLURM_PROCID=3 and no SLURM_NTASKS");
  EXPECT_EQ(why({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "1"}}),
            "the environment of SLURM has SLURM_PROCID=3 and SLURM_NTASKS=1: ranks count from 0");
  EXPECT_EQ(why({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
            "the environment of Open MPI has OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=2: ranks count from 0");
  EXPECT_EQ(why({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), "the environment has RANK=-1, which is no number of ranks");
  EXPECT_EQ(why({{"RANK", "0"}, {"WORLD_SIZE", "two"}}), "the environment has WORLD_SIZE=two, which is no number of ranks");
  EXPECT_EQ(why({{"NABLA_RANK", "99999999999"}, {"NABLA_WORLD_SIZE", "2"}}),
            "the environment has NABLA_RANK=99999999999, which is no number of ranks");
}

TEST(Launch, WhatContradictsItselfIsNotIgnored) {
  auto why = [](const Env& more, const RankFlags& flags = {}) {
    Env env{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}};
    for (const auto& [name, value] : more) env[name] = value;
    Result<Launched> l = with(env, flags);
    return l.ok() ? "" : l.errors()[0].message;
  };
  const std::string torch = "the environment of torchrun has ";
  EXPECT_EQ(why({{"LOCAL_RANK", "7"}, {"LOCAL_WORLD_SIZE", "2"}}), torch + "LOCAL_RANK=7 and LOCAL_WORLD_SIZE=2: ranks count from 0");
  EXPECT_EQ(why({{"LOCAL_RANK", "4"}}), torch + "LOCAL_RANK=4 and WORLD_SIZE=4: ranks count from 0");
  EXPECT_EQ(why({{"LOCAL_WORLD_SIZE", "0"}}), torch + "LOCAL_WORLD_SIZE=0 and WORLD_SIZE=4: a machine has 1 to 4 of these ranks");
  EXPECT_EQ(why({{"LOCAL_WORLD_SIZE", "9"}}), torch + "LOCAL_WORLD_SIZE=9 and WORLD_SIZE=4: a machine has 1 to 4 of these ranks");
  EXPECT_EQ(why({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(why({}, {.local_rank = 1}), "--local-rank is given without --rank");
  EXPECT_EQ(why({}, {.rank = 0, .world_size = 2, .local_rank = 9}), "--local-rank 9 of --world-size 2: ranks count from 0");
  for (const char* epoch : {"abc", "-1"})
    EXPECT_EQ(why({{"NABLA_EPOCH", epoch}}), std::string("the environment has NABLA_EPOCH=") + epoch + ", which is no number of a start");
  for (const char* port : {"0", "99999"})
    EXPECT_EQ(why({{"MASTER_PORT", port}}),
              std::string("the environment has MASTER_PORT=") + port + ", which is no port where ranks can meet: 1 to 65535");
  EXPECT_EQ(why({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
            "the environment has MASTER_PORT=65535, which is no port where ranks can meet: 1 to 65534");
  Result<Launched> pod = with({{"JOB_COMPLETION_INDEX", ""}, {"NABLA_WORLD_SIZE", "2"}});
  ASSERT_FALSE(pod.ok());
  EXPECT_EQ(pod.errors()[0].message, "the environment has NABLA_WORLD_SIZE=2 and an empty JOB_COMPLETION_INDEX");
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"NABLA_EPOCH", "3"}})->epoch, 3u);
}

TEST(Launch, HostsAreLinesOfAFile) {
  std::string path = testing::TempDir() + "/hosts";
  auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_hosts(path);
  };
  auto hosts = read("# the cluster\nnode1:4\n\n  node2 slots=2  # old\r\nnode3\n");
  ASSERT_TRUE(hosts.ok()) << to_string(hosts.errors());
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].name + (*hosts)[1].name + (*hosts)[2].name, "node1node2node3");
  EXPECT_EQ((*hosts)[0].slots * 100 + (*hosts)[1].slots * 10 + (*hosts)[2].slots, 421u);
  for (const char* bad : {"node1:0\n", "node1:x\n", "node1 two\n", "node1 slots=\n", "node1:4:4\n"}) {
    auto refused = read(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.errors()[0].message.find(":1: `" + std::string(bad, std::string_view(bad).size() - 1) +
                                               "` is no host: HOST, HOST:SLOTS or HOST slots=SLOTS"), std::string::npos)
        << refused.errors()[0].message;
  }
  const std::string nul("a\0b", 3);
  for (const std::string& bad : {std::string("-np:2"), std::string("-oProxyCommand=x"), std::string(":2"), std::string("a,b:2"), nul,
                                 std::string("localhost:4294967297"), std::string("a;b")}) {
    auto refused = read("node1\n" + bad + "\n");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.errors()[0].message, "--hosts: " + path + ":2: `" + bad + "` is no host: HOST, HOST:SLOTS or HOST slots=SLOTS");
  }
  EXPECT_EQ(read("a:4294967295\n").errors()[0].message, "--hosts: " + path + ":1: with `a:4294967295` there are more than 1048576 slots");
  EXPECT_EQ(read("a:1048576\nb:1\n").errors()[0].message, "--hosts: " + path + ":2: with `b:1` there are more than 1048576 slots");
  EXPECT_EQ(read_hosts(testing::TempDir()).errors()[0].message, "--hosts: " + testing::TempDir() + " cannot be read");
  EXPECT_NE(read("# none\n").errors()[0].message.find(" names no host"), std::string::npos);
  EXPECT_EQ(read_hosts(path + "/none").errors()[0].code, Code::kNotFound);
}

TEST(Launch, MpirunIsToldOfHostsAndEnvironment) {
  auto text = [](const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& w : words) out += w + " ";
    return out;
  };
  std::string here = text(mpirun_command({.ranks = 4, .pass = {"NABLA_CONTROL"}, .root = true}, "/bin/nabla-run", {"m.nbundle"}));
  EXPECT_EQ(here, "mpirun -q -np 4 --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
                  "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -x NABLA_CONTROL /bin/nabla-run m.nbundle ");
  std::string there = text(mpirun_command({.ranks = 3, .hosts = {{"a", 2}, {"b", 1}}}, "nabla-run", {}));
  EXPECT_NE(there.find("--host a:2,b:1 --mca orte_keep_fqdn_hostnames 1 "), std::string::npos) << there;
  EXPECT_EQ(there.find("--allow-run-as-root"), std::string::npos);
}

TEST(Alike, WhatIsExchangedDependsOnEachLine) {
  std::string dir = testing::TempDir() + "/alike-in";
  std::ofstream(dir + ".npz") << "abc", std::ofstream(dir + "=.npy") << "abc";
  RunOptions o;
  o.jobs = {{.entry = "step", .inputs = {{"y", dir + ".npz:rows"}, {"x", "3"}}, .maps = {{"y", "b"}, {"x", "a"}}, .data = dir + ".npz",
             .steps = 7}};
  o.weights = dir + ".npz", o.weight_maps = {"b=c", "a=d"}, o.weights_partial = true, o.trace = "t.json", o.comm_timeout_s = 9;
  o.ranks.heartbeat_s = 0.2;
  const std::string abc = "of 3 bytes (content ba7816bf)\n";
  EXPECT_EQ(job_of(o), "--engine\tmpi\n--entry\tstep\n--input\tx=3\n--input\ty:rows " + abc + "--data\t" + abc +
                           "--map\tx=a\n--map\ty=b\n--steps\t7\n--weights\t" + abc + "--weights-map\tb=c\n--weights-map\ta=d\n"
                           "--weights-partial\n--comm-timeout\t9\n--trace\n--heartbeat\t0.2\n");
  // Which `=` of "a=b=FILE" ends the name the program says later.
  o.jobs = {{.inputs = {{"a", "b=" + dir + "=.npy"}, {"z", dir + "none.npy"}}}};
  EXPECT_TRUE(job_of(o).starts_with("--engine\tmpi\n--entry\t\n--input\ta=b " + abc +
                                    "--input\tz that cannot be read (No such file or directory)\n")) << job_of(o);
  // The message that tells it is short.
  o.weight_maps.assign(1000, "one=another");
  std::string cut = job_of(o);
  EXPECT_LT(cut.size(), 2100u);
  EXPECT_NE(cut.find("\nfurther options\t(digest "), std::string::npos) << cut;
  o.weight_maps.back() = "one=a third";
  EXPECT_NE(job_of(o), cut);
}

TEST(ExitCodes, AreThoseOfTheDocumentation) {
  auto page = format::FileBytes::map("docs/ranks.md");
  ASSERT_TRUE(page.ok());
  EXPECT_NE(format::as_text((*page)->bytes()).find("```\n" + exit_codes_text() + "```\n"), std::string_view::npos) << exit_codes_text();
  EXPECT_EQ(exit_code(Code::kPeerLost, true), 10);
  EXPECT_EQ(exit_code(Code::kPeerLost, false), 1);
  EXPECT_EQ(exit_code(Code::kInterrupted, false), 130);
  EXPECT_EQ(exit_code(Code::kInterrupted, true), 50);
  EXPECT_EQ(exit_code(Code::kBadOption, true), 2);
  EXPECT_EQ(exit_code(Code::kShapeMismatch, true), 1);
}

}  // namespace
}  // namespace nabla::cli
