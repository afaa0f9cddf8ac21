// The C API over the toy bundle.
#include "runtime/nabla_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "runtime/exec/test_bundle.h"
#include "runtime/format/safetensors.h"

namespace nabla {
namespace {

constexpr nabla_dtype kF32 = {2, 32, 1};

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
  nabla_tensor view() {
    return {values.data(), 1, 0, static_cast<int32_t>(shape.size()), kF32, shape.data(), nullptr, 0};
  }
};

/// The code of a status, which is freed; its message goes to `message`.
int take(nabla_status* status, std::string* message = nullptr) {
  int code = nabla_status_code(status);
  if (message != nullptr) *message = nabla_status_message(status);
  nabla_status_free(status);
  return code;
}

class NablaRun : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = exec::write_toy_bundle("api.nbundle");
    nabla_options options = {1, nullptr, nullptr, 0, 0};
    std::string message;
    ASSERT_EQ(take(nabla_session_open(path.c_str(), &options, &session_), &message), 0) << message;
  }
  void TearDown() override { nabla_session_close(session_); }
  int run(const char* entry, std::vector<nabla_tensor> in, std::vector<nabla_tensor> out,
          std::string* message = nullptr) {
    return take(nabla_run(session_, nabla_find_entry(session_, entry), in.data(), static_cast<int32_t>(in.size()),
                          out.data(), static_cast<int32_t>(out.size())),
                message);
  }
  nabla_session* session_ = nullptr;
  Array x_{{2, 4}, {1, 2, 3, 4, 10, 20, 30, 40}};
  Array loss_{{}, {0}};
};

TEST(NablaRunTarget, ChoosesAProgramOfTheBundle) {
  std::string path = exec::write_toy_bundle("target.nbundle"), message;
  nabla_session* session = nullptr;
  nabla_options options = {1, nullptr, "cpu:x86-64", 0, 0};
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session)), 0);
  nabla_session_close(session);
  options.target = "sm_80";
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session), &message), 404);
  EXPECT_NE(message.find("has no program for `sm_80`; it has cpu:x86-64"), std::string::npos) << message;
  EXPECT_EQ(session, nullptr);
}

TEST(NablaRunOptions, TheClassOfABundleForOneRankIsMain) {
  std::string path = exec::write_toy_bundle("class.nbundle"), message;
  nabla_session* session = nullptr;
  nabla_options options = {1, nullptr, nullptr, 0, 0, "main"};
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session)), 0);
  nabla_session_close(session);
  options.rank_class = "stage1";
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session), &message), 107);
  EXPECT_NE(message.find("has no class `stage1`; it has main"), std::string::npos) << message;
}

TEST(NablaRunOptions, ChecksReachTheSession) {
  // Neither works for the toy bundle, whose operands have no types and which runs on the CPU: both say so.
  std::string path = exec::write_toy_bundle("checks.nbundle"), message;
  nabla_session* session = nullptr;
  nabla_options options = {1, nullptr, nullptr, 1, 0};
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session), &message), 901);
  EXPECT_NE(message.find("checks need it"), std::string::npos) << message;
  options = {1, nullptr, nullptr, 0, 1};
  EXPECT_EQ(take(nabla_session_open(path.c_str(), &options, &session), &message), 901);
  EXPECT_NE(message.find("sync-debug is for GPUs"), std::string::npos) << message;
}

TEST_F(NablaRun, DescribesEntriesTensorsAndState) {
  EXPECT_EQ(nabla_run_version(), static_cast<uint32_t>(NABLA_RUN_VERSION));
  ASSERT_EQ(nabla_entry_count(session_), 4);
  EXPECT_STREQ(nabla_entry_name(session_, 1), "step");
  EXPECT_EQ(nabla_find_entry(session_, "nothing"), -1);
  EXPECT_EQ(nabla_entry_name(session_, 4), nullptr);
  nabla_tensor_info x = nabla_input_info(session_, 1, 0);
  EXPECT_STREQ(x.name, "x");
  ASSERT_EQ(x.ndim, 2);
  EXPECT_EQ(x.shape[1], 4);
  EXPECT_EQ(x.dtype.code, 2);
  EXPECT_EQ(nabla_input_info(session_, 0, 0).dtype.code, 1);
  EXPECT_EQ(nabla_input_info(session_, 1, 1).name, nullptr);
  EXPECT_EQ(nabla_output_count(session_, 1), 1);
  EXPECT_STREQ(nabla_state_info(session_, 0).name, "w");
}

TEST_F(NablaRun, StateIsSetReadAndUpdatedInPlace) {
  EXPECT_EQ(run("step", {x_.view()}, {loss_.view()}), 705);
  Array w{{4}, {1, 1, 1, 1}};
  nabla_tensor view = w.view();
  ASSERT_EQ(take(nabla_state_set(session_, 0, &view)), 0);
  ASSERT_EQ(run("step", {x_.view()}, {loss_.view()}), 0);
  EXPECT_EQ(loss_.values[0], 114);
  ASSERT_EQ(take(nabla_state_get(session_, 0, &view)), 0);
  EXPECT_EQ(w.values, (std::vector<float>{12, 23, 34, 45}));
}

TEST_F(NablaRun, WrongArraysAreNamedWithExpectedAndActual) {
  std::string message;
  Array wide{{4, 2}, x_.values};
  EXPECT_EQ(run("predict", {wide.view()}, {x_.view()}, &message), 703);
  EXPECT_NE(message.find("input `x` of entry `predict` is f32[2,4]; an array of shape [4,2] was given"),
            std::string::npos)
      << message;
  nabla_tensor ints = x_.view();
  ints.dtype = {0, 32, 1};
  EXPECT_EQ(run("predict", {ints}, {x_.view()}, &message), 704);
  EXPECT_NE(message.find("an array of i32 was given"), std::string::npos) << message;
  EXPECT_EQ(run("predict", {x_.view()}, {wide.view()}), 703);
  EXPECT_EQ(run("predict", {x_.view()}, {}), 702);
  nabla_tensor gpu = x_.view();
  gpu.device_type = 2;
  EXPECT_EQ(run("predict", {gpu}, {x_.view()}), 707);
  nabla_tensor columns = x_.view();
  int64_t strides[] = {1, 2};
  columns.strides = strides;
  EXPECT_EQ(run("predict", {columns}, {x_.view()}), 707);
  nabla_tensor none = x_.view();
  none.data = nullptr;
  EXPECT_EQ(run("predict", {none}, {x_.view()}), 702);
  nabla_tensor odd = x_.view();
  odd.byte_offset = 1;
  EXPECT_EQ(run("predict", {odd}, {x_.view()}), 707);
  EXPECT_EQ(take(nabla_run(session_, 9, nullptr, 0, nullptr, 0)), 603);
}

TEST_F(NablaRun, WeightsAreLoadedByName) {
  std::string path = testing::TempDir() + "/weights.safetensors", message;
  Literal w(DType::kF64, {1, 4});
  for (int64_t i = 0; i < 4; ++i) w.set(i, static_cast<double>(i) + 0.5);
  ASSERT_TRUE(format::write_safetensors(path, {{"layer.w", w}}).ok());
  const char* maps[] = {"layer.*=*:reshape"};
  nabla_weight_options options = {maps, 1, 0};
  const char* report = nullptr;
  ASSERT_EQ(take(nabla_load_weights(session_, path.c_str(), &options, &report), &message), 0) << message;
  EXPECT_NE(std::string(report).find("converted   1 leaves f64 -> f32, narrower"), std::string::npos) << report;
  Array got{{4}, {0, 0, 0, 0}};
  nabla_tensor view = got.view();
  ASSERT_EQ(take(nabla_state_get(session_, 0, &view)), 0);
  EXPECT_EQ(got.values, (std::vector<float>{0.5, 1.5, 2.5, 3.5}));
  EXPECT_EQ(take(nabla_load_weights(session_, nullptr, nullptr, nullptr)), 707);
  maps[0] = "layer.*=*";
  EXPECT_EQ(take(nabla_load_weights(session_, path.c_str(), &options, nullptr), &message), 706);
  EXPECT_NE(message.find("`w` is f32[4], `layer.w` in the file is f64[1,4]"), std::string::npos) << message;
}

TEST_F(NablaRun, MisuseIsAStatusAndNotACrash) {
  nabla_session* none = nullptr;
  EXPECT_EQ(take(nabla_session_open(nullptr, nullptr, &none)), 707);
  EXPECT_EQ(take(nabla_session_open("/no/such/file", nullptr, &none)), 801);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(take(nabla_state_get(session_, 7, nullptr)), 707);
  EXPECT_EQ(take(nabla_state_set(session_, 0, nullptr)), 707);
  EXPECT_EQ(take(nabla_state_load(session_, "/no/such/file")), 801);
  EXPECT_EQ(take(nabla_state_save(session_, "/dev/full")), 705);
  nabla_status_free(nullptr);
  nabla_session_close(nullptr);
}

TEST_F(NablaRun, ArraysThatAreNullAreMisuse) {
  std::string message;
  int32_t step = nabla_find_entry(session_, nabla_entry_name(session_, 0)), inputs = nabla_input_count(session_, step);
  ASSERT_GT(inputs, 0);
  EXPECT_EQ(take(nabla_run(session_, step, nullptr, inputs, nullptr, nabla_output_count(session_, step)), &message), 707);
  EXPECT_NE(message.find("inputs is NULL"), std::string::npos) << message;
}

TEST(NablaRunRank, OptionsThatAreNoneAreNamed) {
  struct {
    nabla_rank_options known = {sizeof known, "mpi", 10, 0};
    int64_t more = 0;
  } options;
  nabla_session* session = nullptr;
  std::string message;
  auto open = [&] { return take(nabla_session_open_rank("none.nbundle", nullptr, &options.known, &session), &message); };
  for (size_t size : {size_t{0}, size_t{12}, sizeof options.known - 1, SIZE_MAX}) {
    options.known.size = size;
    EXPECT_EQ(open(), 707) << size;
    EXPECT_NE(message.find("size is " + std::to_string(size) + ", and nabla_rank_options has 32 bytes"), std::string::npos) << message;
  }
  options.known.size = sizeof options, options.more = 1;
  EXPECT_EQ(open(), 901);
  EXPECT_NE(message.find("of the 40 bytes of nabla_rank_options this runtime knows 32, and others are not 0"), std::string::npos)
      << message;
  EXPECT_NE(message.find("help: set the others to 0, or load a runtime that knows them"), std::string::npos) << message;
  options.more = 0;
  for (double seconds : {-5.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    options.known.timeout_s = seconds;
    EXPECT_EQ(open(), 901) << seconds;
    EXPECT_NE(message.find("seconds up to 1e+09, or 0 for 300\n   = help: set it to 0, or to"), std::string::npos) << message;
  }
}

TEST_F(NablaRun, ATraceIsWrittenWhenTheSessionEnds) {
  std::string bundle = exec::write_toy_bundle("traced.nbundle");
  std::string trace = testing::TempDir() + "/api_trace.json";
  nabla_options options = {1, trace.c_str(), nullptr, 0, 0};
  nabla_session* traced = nullptr;
  ASSERT_EQ(take(nabla_session_open(bundle.c_str(), &options, &traced)), 0);
  uint32_t seed = 3;
  nabla_tensor seed_view = {&seed, 1, 0, 0, {1, 32, 1}, nullptr, nullptr, 0};
  ASSERT_EQ(take(nabla_run(traced, 0, &seed_view, 1, nullptr, 0)), 0);
  nabla_session_close(traced);
  std::ifstream file(trace);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("\"toy_init\""), std::string::npos) << text;
}

}  // namespace
}  // namespace nabla
