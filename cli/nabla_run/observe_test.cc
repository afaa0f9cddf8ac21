// What a run tells others while it goes: event files of TensorBoard, read back by a parser of the test's own, and the
// answers to Prometheus, as clients of its socket get them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "cli/nabla_run/events.h"
#include "cli/nabla_run/exposition.h"
#include "cli/nabla_run/run.h"
#include "cli/nabla_run/waits.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/format/npy.h"

namespace nabla::cli {
namespace {

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string hex(const std::string& bytes) {
  std::string out;
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

/// The program under test with its outputs caught; returns the exit code.
int run(std::vector<std::string> args, std::string* err = nullptr) {
  args.insert(args.begin(), "nabla-run");
  std::vector<const char*> argv;
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int code = nabla_run_main(static_cast<int>(argv.size()), argv.data());
  testing::internal::GetCapturedStdout();
  std::string said = testing::internal::GetCapturedStderr();
  if (err != nullptr) *err = said;
  return code;
}

/// Fields of a protobuf message by number: varints and fixed ones as their bits, bytes as they are.
struct Field {
  uint32_t number, wire;
  uint64_t bits = 0;
  std::string bytes = {};
};
std::vector<Field> parse(const std::string& message) {
  std::vector<Field> out;
  size_t at = 0;
  auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size(); shift += 7) {
      auto byte = static_cast<unsigned char>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < message.size()) {
    uint64_t key = varint();
    Field f{static_cast<uint32_t>(key >> 3), static_cast<uint32_t>(key & 7)};
    size_t size = f.wire == 1 ? 8 : f.wire == 5 ? 4 : 0;
    if (f.wire == 0) f.bits = varint();
    if (f.wire == 2) size = varint();
    if (at + size > message.size()) return ADD_FAILURE() << "a field is cut", out;
    if (f.wire == 2) f.bytes = message.substr(at, size);
    if (f.wire == 1 || f.wire == 5) std::memcpy(&f.bits, message.data() + at, size);
    at += size;
    out.push_back(f);
  }
  return out;
}

/// The messages of a TFRecord file, whose checksums it computes from a table.
std::vector<std::string> records(const std::string& bytes) {
  auto crc = [](const std::string& text) {
    std::vector<uint32_t> table(256);
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int k = 0; k < 8; ++k) table[i] = (table[i] & 1) != 0 ? table[i] >> 1 ^ 0x82F63B78u : table[i] >> 1;
    }
    uint32_t c = 0xFFFFFFFFu;
    for (char x : text) c = table[(c ^ static_cast<unsigned char>(x)) & 0xFF] ^ c >> 8;
    c = ~c;
    return static_cast<uint32_t>((c >> 15 | c << 17) + 0xA282EAD8u);
  };
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size = 0;
    uint32_t of_size = 0, of_bytes = 0;
    if (at + 16 > bytes.size()) return ADD_FAILURE() << "a record is cut", out;
    std::memcpy(&size, bytes.data() + at, 8), std::memcpy(&of_size, bytes.data() + at + 8, 4);
    EXPECT_EQ(of_size, crc(bytes.substr(at, 8)));
    if (at + 16 + size > bytes.size()) return ADD_FAILURE() << "a record is cut", out;
    out.push_back(bytes.substr(at + 12, size));
    std::memcpy(&of_bytes, bytes.data() + at + 12 + size, 4);
    EXPECT_EQ(of_bytes, crc(out.back()));
    at += 16 + size;
  }
  return out;
}

TEST(Events, OneEventHasTheseBytes) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);  // the check value of the catalogue of CRCs
  EXPECT_EQ(hex(tf_record(scalar_event(1.5, 300, {{"step/loss", 0.25}}))),
            "200000000000000029eda95009000000000000f83f10ac022a120a100a09737465702f6c6f7373"
            "150000803e82cb0d16");
}

TEST(Events, ARunWritesItsScalarsByStep) {
  std::string bundle = exec::write_toy_bundle("toy.nbundle"), folder = testing::TempDir() + "/board";
  std::string data = testing::TempDir() + "/observed.npz";
  Literal x(DType::kF32, {5, 4});
  for (int64_t i = 0; i < 20; ++i) x.set(i, 1);
  ASSERT_TRUE(format::write_npz(data, {{"x", x}}).ok());
  std::filesystem::remove_all(folder);
  std::string err;
  ASSERT_EQ(run({bundle, "--tensorboard", folder, "--entry", "step", "--data", data, "--epochs", "2", "--entry", "eval", "--data", data},
                &err), 0) << err;
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_HAS(files[0], "/events.out.tfevents.");
  std::ifstream file(files[0], std::ios::binary);
  std::vector<std::string> events = records(std::string((std::istreambuf_iterator<char>(file)), {}));
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(parse(events[0]).at(1).number, 3u);
  EXPECT_EQ(parse(events[0]).at(1).bytes, "brain.Event:2");
  // init makes 0, 1, 2, 3; each step adds 2 to each of four columns.
  std::vector<std::pair<std::string, float>> said;
  for (size_t i = 1; i < events.size(); ++i) {
    std::vector<Field> event = parse(events[i]);
    ASSERT_EQ(event.size(), 3u);
    EXPECT_EQ(event[0].number, 1u);
    double wall = 0;
    std::memcpy(&wall, &event[0].bits, 8);
    EXPECT_GT(wall, 1.6e9);
    EXPECT_EQ(event[1].number, 2u);
    EXPECT_EQ(event[1].bits, std::min<size_t>(i, 4));
    EXPECT_EQ(event[2].number, 5u);
    std::vector<Field> value = parse(parse(event[2].bytes).at(0).bytes);
    float number = 0;
    std::memcpy(&number, &value.at(1).bits, 4);
    said.emplace_back(value[0].bytes, number);
  }
  EXPECT_EQ(said, (std::vector<std::pair<std::string, float>>{
                      {"step/loss", 14}, {"step/loss", 22}, {"step/loss", 30}, {"step/loss", 38}, {"eval/mean", 1}}));
}

TEST(Events, AFolderThatCannotBeIsOneError) {
  std::string err;
  EXPECT_EQ(run({exec::write_toy_bundle("nowhere.nbundle"), "--entry", "init", "--tensorboard", "/dev/null/board"}, &err), 1);
  EXPECT_HAS(err, "error[E0803]: cannot write `/dev/null/board`: Not a directory");
}

std::string ask(uint16_t port, const std::string& request, bool half = false) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(port), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return ::close(fd), "refused";
  (void)!::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  if (half) ::shutdown(fd, SHUT_WR);
  std::string out;
  char bytes[4096];
  for (ssize_t n = 0; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) out.append(bytes, static_cast<size_t>(n));
  ::close(fd);
  return out;
}

TEST(Exposition, AnswersGetMetricsAndNothingElse) {
  comm::Board board;
  board.exchanged_bytes = 640, board.waited_us = 2'500'000;
  auto e = Exposition::start(0, {{3, &board}});
  ASSERT_TRUE(e.ok()) << to_string(e.errors());
  (*e)->update(7, {{"loss", 0.5}, {"a\"b\\", std::numeric_limits<double>::quiet_NaN()}});
  std::string got = ask((*e)->port(), "GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(got.starts_with("HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4")) << got;
  for (const char* line : {"\n# TYPE nabla_step gauge\nnabla_step 7\n", "\nnabla_steps_per_second 0\n",
                           "\nnabla_metric{name=\"loss\"} 0.5\n",
                           "\nnabla_metric{name=\"a\\\"b\\\\\"} NaN\n", "\nnabla_exchanged_bytes_total{rank=\"3\"} 640\n",
                           "\nnabla_rank_wait_seconds_total{rank=\"3\"} 2.5\n"})
    EXPECT_HAS(got, line);
  size_t body = got.find("\r\n\r\n") + 4;
  EXPECT_HAS(got, fmt::format("Content-Length: {}\r\n", got.size() - body));
  EXPECT_TRUE(ask((*e)->port(), "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
  EXPECT_TRUE(ask((*e)->port(), "GET /metrics2 HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
  EXPECT_TRUE(ask((*e)->port(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405 "));
  EXPECT_TRUE(ask((*e)->port(), "\r\n\r\n").starts_with("HTTP/1.0 400 "));
  EXPECT_TRUE(ask((*e)->port(), "GET /metr", true).starts_with("HTTP/1.0 400 "));
}

// A client that says nothing, and one that never ends, are left after a second; the run goes on meanwhile.
TEST(Exposition, ClientsCannotHoldIt) {
  auto e = Exposition::start(0, {});
  ASSERT_TRUE(e.ok());
  int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons((*e)->port()), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(silent, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ::usleep(50'000);
  auto begin = std::chrono::steady_clock::now();
  (*e)->update(1, {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  EXPECT_HAS(ask((*e)->port(), "GET /metrics HTTP/1.0\r\n\r\n"), "nabla_step 1\n");
  (void)ask((*e)->port(), std::string(100'000, 'x'));  // an answer or a reset
  EXPECT_HAS(ask((*e)->port(), "GET /metrics HTTP/1.0\r\n\r\n"), "nabla_step 1\n");
  ::close(silent);
}

// Idle clients connect before the request and while it is served. They do not delay it.
TEST(Exposition, IdleConnectionsKeepNobodyWaiting) {
  auto e = Exposition::start(0, {});
  ASSERT_TRUE(e.ok());
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons((*e)->port()), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> idle;
  for (int count : {1, 100, 400}) {
    while (static_cast<int>(idle.size()) < count) {
      idle.push_back(::socket(AF_INET, SOCK_STREAM, 0));
      ASSERT_EQ(::connect(idle.back(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    }
    auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(ask((*e)->port(), "GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 ")) << count;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500)) << count;
  }
  for (int fd : idle) ::close(fd);
}

TEST(Exposition, APortThatIsTakenIsOneError) {
  auto e = Exposition::start(0, {});
  ASSERT_TRUE(e.ok());
  std::string err;
  EXPECT_EQ(run({exec::write_toy_bundle("taken.nbundle"), "--entry", "init", "--prometheus", std::to_string((*e)->port())}, &err), 2);
  EXPECT_HAS(err, fmt::format("error[E0901]: --prometheus: port {} of 127.0.0.1 cannot be had: Address already in use", (*e)->port()));
}

control::RankView ran(uint64_t run, int64_t running_us, int64_t waited_us, uint64_t bytes, const std::string& says = "") {
  control::RankView r;
  r.run = run, r.running_us = running_us, r.waited_us = waited_us, r.exchanged_bytes = bytes, r.says = says;
  return r;
}

TEST(Waits, TheSlowestWaitsLeast) {
  std::vector<control::RankView> before{ran(10, 1'000'000, 500'000, 1000), ran(10, 1'000'000, 0, 1000)};
  std::vector<control::RankView> now{ran(30, 3'000'000, 1'500'000, 5'001'000, "loss 0.5"), ran(30, 3'000'000, 30'000, 5'001'000)};
  EXPECT_EQ(progress_line({}, {ran(0, 0, 0, 0)}), "");
  EXPECT_EQ(progress_line({}, now), "run 30  loss 0.5  rank 1 waits least: 1 % of its time, others up to 50 %");
  EXPECT_EQ(progress_line(before, now),
            "run 30  10.0 runs/s  5.0 MB/s exchanged  loss 0.5  rank 1 waits least: 1 % of its time, others up to 50 %");
  EXPECT_EQ(waits_line(now), "waited for others: rank 0 1.50 s (50 %), rank 1 0.03 s (1 %); rank 1 was slowest");
  now[1].waited_us = 1'400'000;
  EXPECT_EQ(waits_line(now), "waited for others: rank 0 1.50 s (50 %), rank 1 1.40 s (47 %); none held the others up");
  EXPECT_EQ(waits_line({ran(1, 5, 0, 0), ran(1, 5, 0, 0)}), "");
  // F9: a slow link, for which all ranks wait alike.
  std::vector<control::RankView> shaped{ran(1, 3'000'000, 2'500'000, 250'000), ran(1, 3'000'000, 2'500'000, 250'000)};
  const std::string both = "waited for others: rank 0 2.50 s (83 %), rank 1 2.50 s (83 %); none held the others up; warning: ";
  EXPECT_EQ(waits_line(shaped), both + "exchanges within one machine bound this job, at 100.0 kB/s for each rank");
  shaped[0].host = "node1", shaped[1].host = "node2";
  EXPECT_EQ(waits_line(shaped), both + "the links bound this job, at 100.0 kB/s for each rank");
  std::vector<control::RankView> many(9, ran(1, 1'000'000, 100'000, 0));
  many[4].waited_us = 0;
  EXPECT_EQ(waits_line(many), "waited for others: from rank 4 0.00 s (0 %) to rank 8 0.10 s (10 %); rank 4 was slowest");
}

}  // namespace
}  // namespace nabla::cli
