#include "runtime/format/problems.h"

#include <algorithm>

namespace nabla::format {
namespace {

static_assert(static_cast<int>(Epilogue::Gelu) == static_cast<int>(Activation::kGelu));
static_assert(static_cast<int>(ConvKind::FilterGrad) == static_cast<int>(ConvolutionKind::kFilterGrad));
static_assert(static_cast<int>(DType::MAX) + 1 == kDTypeCount);
static_assert(static_cast<int>(DType::F8E5M2) == static_cast<int>(nabla::DType::kF8E5M2));
static_assert(static_cast<int>(DType::F16) == static_cast<int>(nabla::DType::kF16));
static_assert(static_cast<int>(DType::F32) == static_cast<int>(nabla::DType::kF32));

// In the order of the problems' fields.
constexpr std::tuple kGemmPlaces{
    Place<&Gemm::dtype, &GemmT::dtype>{},
    Place<&Gemm::batch, &GemmT::batch>{},
    Place<&Gemm::m, &GemmT::m>{},
    Place<&Gemm::n, &GemmT::n>{},
    Place<&Gemm::k, &GemmT::k>{},
    Place<&Gemm::transpose_a, &GemmT::transpose_a>{},
    Place<&Gemm::transpose_b, &GemmT::transpose_b>{},
    Place<&Gemm::lda, &GemmT::lda>{},
    Place<&Gemm::ldb, &GemmT::ldb>{},
    Place<&Gemm::ldc, &GemmT::ldc>{},
    Place<&Gemm::stride_a, &GemmT::stride_a>{},
    Place<&Gemm::stride_b, &GemmT::stride_b>{},
    Place<&Gemm::stride_c, &GemmT::stride_c>{},
    Present<&Gemm::bias>{},
    Present<&Gemm::addend>{},
    Place<&Gemm::epilogue, &GemmT::epilogue>{},
    Place<&Gemm::tf32, &GemmT::tf32>{},
    Place<&Gemm::dtype_b, &GemmT::dtype_b>{},
    Place<&Gemm::dtype_c, &GemmT::dtype_c>{},
};
constexpr std::tuple kConvolutionPlaces{
    Place<&Convolution::dtype, &ConvolutionT::dtype>{},
    Place<&Convolution::kind, &ConvolutionT::kind>{},
    Place<&Convolution::input_shape, &ConvolutionT::input_shape>{},
    Place<&Convolution::filter_shape, &ConvolutionT::filter_shape>{},
    Place<&Convolution::output_shape, &ConvolutionT::output_shape>{},
    Place<&Convolution::strides, &ConvolutionT::strides>{},
    Place<&Convolution::padding_low, &ConvolutionT::padding_low>{},
    Place<&Convolution::dilations, &ConvolutionT::dilations>{},
    Place<&Convolution::groups, &ConvolutionT::groups>{},
    Place<&Convolution::padding_high, &ConvolutionT::padding_high>{},
    Place<&Convolution::tf32, &ConvolutionT::tf32>{},
};

}  // namespace

GemmProblemOf<int64_t> problem_of(const Gemm& gemm) { return read_problem<GemmProblemOf<int64_t>>(kGemmPlaces, gemm); }
ConvolutionSpec problem_of(const Convolution& convolution) {
  return read_problem<ConvolutionSpec>(kConvolutionPlaces, convolution);
}

void set_problem(GemmT& gemm, const GemmProblemOf<int64_t>& problem) { write_problem(kGemmPlaces, problem, gemm); }
void set_problem(ConvolutionT& convolution, const ConvolutionSpec& problem) {
  write_problem(kConvolutionPlaces, problem, convolution);
}


void set_sizes(GemmT& gemm, const std::vector<uint32_t>& references) {
  bool symbolic = std::any_of(references.begin(), references.end(), [](uint32_t r) { return r != 0; });
  gemm.sizes = symbolic ? references : std::vector<uint32_t>();
}
void set_sizes(ConvolutionT& convolution, const std::vector<uint32_t>& references) {
  convolution.batch_size = references.at(0);
}

}  // namespace nabla::format
