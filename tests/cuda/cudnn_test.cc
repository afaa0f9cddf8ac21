// runtime/device/cudnn on the fake library: the three convolutions in one to three dimensions against plain loops; what
// is refused, and which algorithms are taken.
#include "runtime/device/cudnn.h"

#include <cmath>
#include <cstdlib>

#include "tests/cuda/device_fixture.h"

namespace nabla::device {
namespace {

using List = std::vector<int64_t>;

int64_t count(const List& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

class CudnnTest : public DeviceTest {
 protected:
  std::unique_ptr<Cudnn> library() { return Cudnn::open("", "8.2", stream_).value(); }
  void check(ConvolutionSpec spec, double tolerance);
};

/// Input sizes, taps, channels of a group and features of a group; the sizes of the output follow.
ConvolutionSpec spec_of(ConvolutionKind kind, List space, List taps, int64_t channels, int64_t features,
                        int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1) {
  ConvolutionSpec s;
  s.kind = kind, s.groups = groups, s.implementation = "cudnn";
  s.input_shape = {3}, s.output_shape = {3}, s.filter_shape = taps;
  for (size_t d = 0; d < space.size(); ++d) {
    s.input_shape.push_back(space[d]);
    s.output_shape.push_back((space[d] + 2 * padding - (taps[d] - 1) * dilation - 1) / stride + 1);
    s.strides.push_back(stride), s.dilations.push_back(dilation);
    s.padding_low.push_back(padding), s.padding_high.push_back(padding);
  }
  s.input_shape.push_back(channels * groups), s.output_shape.push_back(features * groups);
  s.filter_shape.push_back(channels), s.filter_shape.push_back(features * groups);
  return s;
}

/// Calls f(input, filter, output) with the places of every product; the filter lies as O, taps..., C/groups.
template <class F>
void for_each_product(const ConvolutionSpec& s, F f) {
  size_t spatial = s.strides.size();
  int64_t channels = s.filter_shape[spatial], features = s.filter_shape[spatial + 1] / s.groups;
  int64_t taps = count({s.filter_shape.begin(), s.filter_shape.begin() + static_cast<long>(spatial)});
  int64_t outputs = count(s.output_shape) / s.output_shape.back();
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t t = 0; t < taps; ++t) {
      int64_t rest_o = o, rest_t = t, place = 0, step = 1;
      bool inside = true;
      for (size_t d = spatial; d-- > 0;) {
        int64_t at = rest_o % s.output_shape[d + 1] * s.strides[d] + rest_t % s.filter_shape[d] * s.dilations[d] -
                     s.padding_low[d];
        inside = inside && at >= 0 && at < s.input_shape[d + 1];
        place += at * step, step *= s.input_shape[d + 1];
        rest_o /= s.output_shape[d + 1], rest_t /= s.filter_shape[d];
      }
      for (int64_t k = 0; inside && k < features * s.groups; ++k)
        for (int64_t c = 0; c < channels; ++c)
          f((rest_o * step + place) * s.input_shape.back() + k / features * channels + c, (k * taps + t) * channels + c,
            o * s.output_shape.back() + k);
    }
}

void CudnnTest::check(ConvolutionSpec s, double tolerance) {
  Literal tensors[] = {noise(s.dtype, count(s.input_shape), 1), noise(s.dtype, count(s.filter_shape), 2),
                       noise(s.dtype, count(s.output_shape), 3)};
  int result = s.kind == ConvolutionKind::kForward ? 2 : s.kind == ConvolutionKind::kInputGrad ? 0 : 1;
  std::vector<double> want(static_cast<size_t>(tensors[result].size()), 0);
  for_each_product(s, [&](int64_t i, int64_t w, int64_t o) {
    double x = tensors[0].get(i), y = tensors[1].get(w), z = tensors[2].get(o);
    want[static_cast<size_t>(result == 2   ? o
                             : result == 0 ? i
                                           : w)] += result == 2   ? x * y
                                                    : result == 0 ? y * z
                                                                  : x * z;
  });
  void* operands[4] = {};
  for (int i = 0; i < 3; ++i) operands[i] = reinterpret_cast<void*>(upload(tensors[i]));
  std::unique_ptr<Cudnn> dnn = library();
  auto made = dnn->call(s);
  ASSERT_TRUE(made.ok()) << to_string(made.errors());
  CudnnConvolution& call = **made;
  call.use(call.candidates(1).value()[0]);
  ASSERT_TRUE(call.run(operands)) << call.key() << call.failure().str();
  download(tensors[result], reinterpret_cast<CudaAddress>(operands[result]));
  for (int64_t i = 0; i < tensors[result].size(); ++i)
    ASSERT_NEAR(tensors[result].get(i), want[static_cast<size_t>(i)],
                tolerance * std::max(1.0, std::abs(want[static_cast<size_t>(i)])))
        << call.key() << " at " << i;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call.operand_bytes()[static_cast<size_t>(i)], tensors[i].size_bytes());
    ok(cuda().memory_free(reinterpret_cast<CudaAddress>(operands[i])));
  }
}

constexpr ConvolutionKind kKinds[] = {ConvolutionKind::kForward, ConvolutionKind::kInputGrad,
                                      ConvolutionKind::kFilterGrad};

TEST_F(CudnnTest, ComputesAllThreeInOneToThreeDimensions) {
  for (ConvolutionKind kind : kKinds) {
    check(spec_of(kind, {9}, {3}, 2, 3), 1e-5);
    check(spec_of(kind, {7, 6}, {3, 2}, 2, 3), 1e-5);
    check(spec_of(kind, {5, 4, 6}, {2, 3, 1}, 2, 2), 1e-5);
  }
}

TEST_F(CudnnTest, ComputesStridesPaddingDilationAndGroups) {
  for (ConvolutionKind kind : kKinds) {
    check(spec_of(kind, {8, 7}, {3, 3}, 2, 3, 2), 1e-5);
    check(spec_of(kind, {8, 7}, {3, 3}, 2, 3, 1, 1), 1e-5);
    check(spec_of(kind, {8, 9}, {3, 3}, 2, 3, 1, 0, 2), 1e-5);
    check(spec_of(kind, {8, 9}, {3, 3}, 2, 2, 2, 1, 2, 3), 1e-5);
    check(spec_of(kind, {11}, {4}, 1, 1, 3, 2, 1, 5), 1e-5);
  }
}

TEST_F(CudnnTest, SumsOfHalvesAreRoundedOnce) {
  for (ConvolutionKind kind : kKinds)
    for (auto [dtype, tolerance] : {std::pair(DType::kBF16, 8e-3), std::pair(DType::kF16, 1e-3)}) {
      ConvolutionSpec s = spec_of(kind, {7, 6}, {3, 3}, 4, 3, 1, 1);
      s.dtype = dtype;
      check(s, tolerance);
    }
}

TEST_F(CudnnTest, Tf32RoundsTheFactorsOnlyWhereItMay) {
  ConvolutionSpec s = spec_of(ConvolutionKind::kForward, {7, 6}, {3, 3}, 4, 3);
  auto arithmetic = [&](bool tf32) {
    s.tf32 = tf32;
    return library()->call(s).value()->candidates(8).value()[0][1];
  };
  EXPECT_EQ(arithmetic(false), 3u);  // CUDNN_FMA_MATH
  EXPECT_EQ(arithmetic(true), 0u);   // CUDNN_DEFAULT_MATH
  check(s, 4e-3);
}

// The fake library offers algorithms that add by atomics or round to f16, and one that needs 64 MiB.
TEST_F(CudnnTest, CandidatesAreDeterministicExactAndFitTheWorkspace) {
  std::unique_ptr<Cudnn> dnn = library();
  ConvolutionSpec s = spec_of(ConvolutionKind::kFilterGrad, {7, 6}, {3, 3}, 4, 3);
  auto offered = [&](uint64_t workspace) {
    s.workspace_bytes = workspace;
    std::vector<uint64_t> out;
    auto call = std::move(dnn->call(s).value());
    std::vector<LibraryAlgorithm> all = call->candidates(8).value();
    for (const LibraryAlgorithm& a : all) out.push_back(a[0]);
    EXPECT_EQ(call->candidates(1).value().size(), 1u);
    EXPECT_TRUE(call->accepts({0, 3}));
    EXPECT_FALSE(call->accepts({0, 0})) << "with tf32";
    EXPECT_FALSE(call->accepts({3, 3})) << "by atomics";
    return out;
  };
  EXPECT_EQ(offered(0), (std::vector<uint64_t>{0}));
  EXPECT_EQ(offered(1 << 20), (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(offered(64 << 20), (std::vector<uint64_t>{5, 1, 0}));
}

TEST_F(CudnnTest, WhatCannotBeUsedIsE0602) {
  auto why = [&] {
    auto opened = Cudnn::open("", "8.2", stream_);
    if (opened.ok()) return (*opened)->version();
    return fmt::format("{} {}", code_name(opened.errors()[0].code), opened.errors()[0].message);
  };
  EXPECT_EQ(why(), "9.28.0");
  setenv("NABLA_FAKE_CUDNN_VERSION", "8907", 1);
  EXPECT_EQ(why(), "8.9.7");
  setenv("NABLA_FAKE_CUDNN_VERSION", "8105", 1);
  EXPECT_EQ(why(), "E0602 cuDNN cannot be used: it is version 8.1.5; needed is 8.2");
  unsetenv("NABLA_FAKE_CUDNN_VERSION");
  setenv("NABLA_FAKE_CUDNN_FAIL", "cudnnCreate:0:1001", 1);
  EXPECT_EQ(why(), "E0602 cuDNN cannot be used: it makes no handle: CUDNN_STATUS_NOT_INITIALIZED (1001)");
  setenv("NABLA_FAKE_CUDNN_FAIL", "cudnnSetStream:0:2000", 1);
  EXPECT_EQ(why(), "E0602 cuDNN cannot be used: it does not take the stream: CUDNN_STATUS_BAD_PARAM (2000)");
  unsetenv("NABLA_FAKE_CUDNN_FAIL");
  setenv("NABLA_CUDNN", "/not/there.so", 1);
  EXPECT_EQ(why(),
            "E0602 cuDNN cannot be used: /not/there.so: cannot open shared object file: No such file or directory");
  setenv("NABLA_CUDNN", runfile("tests/cuda/fake_driver/libfake_cuda.so").c_str(), 1);
  EXPECT_EQ(why(), "E0602 cuDNN cannot be used: it has no function cudnnGetErrorString");
}

TEST_F(CudnnTest, RefusalsAndFailuresSayTheStatus) {
  std::unique_ptr<Cudnn> dnn = library();
  ConvolutionSpec s = spec_of(ConvolutionKind::kInputGrad, {7, 6}, {3, 3}, 4, 3, 2, 1, 2, 2);
  std::string key =
      "convolution f32 input_grad 3x7x6x8 3x3x4x6 3x3x2x6 stride 2,2 pad 1,1 dilation 2,2 groups 2 workspace 0";
  setenv("NABLA_FAKE_CUDNN_FAIL", "cudnnGetConvolutionBackwardDataAlgorithm_v7:0:3000", 1);
  auto none = dnn->call(s).value()->candidates(8);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].message,
            "cuDNN 9.28.0 has no algorithm for " + key + ": CUDNN_STATUS_NOT_SUPPORTED (3000)");
  setenv("NABLA_FAKE_CUDNN_FAIL", "cudnnSetTensorNdDescriptor:0:2000", 1);
  EXPECT_EQ(dnn->call(s).errors()[0].message, "cuDNN cannot describe " + key + ": CUDNN_STATUS_BAD_PARAM (2000)");
  unsetenv("NABLA_FAKE_CUDNN_FAIL");
  auto call = std::move(dnn->call(s).value());
  call->use(call->candidates(1).value()[0]);
  setenv("NABLA_FAKE_CUDNN_FAIL", "cudnnConvolutionBackwardData:0:5000", 1);
  void* operands[4] = {};
  EXPECT_FALSE(call->run(operands));
  EXPECT_EQ(call->failure().str(),
            "error[E0607]: calling cuDNN: CUDNN_STATUS_EXECUTION_FAILED (5000)\n"
            "   = help: run again with --sync-debug to see which instruction it was\n");
  s.alignment = 8;
  EXPECT_EQ(dnn->call(s).errors()[0].message,
            "cuDNN cannot describe " + key + ": an operand lies at a multiple of 8 bytes, not of 16");
  s.alignment = 256, s.input_shape[0] = s.output_shape[0] = int64_t{1} << 29;
  EXPECT_TRUE(dnn->call(s).errors()[0].message.ends_with(": it counts elements in 32 bits"));
  s.implementation = "direct";
  EXPECT_EQ(dnn->call(s).errors()[0].code, Code::kNewerVersion);
}

}  // namespace
}  // namespace nabla::device
