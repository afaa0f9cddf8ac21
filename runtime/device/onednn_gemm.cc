// GEMM by oneDNN: the batch and rows (or columns) are cut into blocks, one block a call.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "runtime/device/onednn_internal.h"

namespace nabla::device {
namespace {

// Below this much work (about 3 us on one core) a second thread costs more than it brings.
constexpr int64_t kBlockStep = 16;
constexpr int64_t kMinBlock = 32;
// oneDNN adds the terms of a product with a vector one by one. Such an f32 sum loses digits and stops at 2^24, so one call gets at most
// this many terms.
constexpr int64_t kVectorTerms = int64_t{1} << 13;

/// How C is cut: `blocks` ranges of `step` rows or columns (the last may be smaller) for each batch member.
struct Cut {
  bool rows = true;
  int64_t step = 0;
  int64_t blocks = 1;
};

Cut choose_cut(const GemmSpec& s, int threads) {
  double flops = 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
                 static_cast<double>(s.k);
  int64_t wanted = flops < kMinFlopsPerLaunch || s.batch >= threads ? 1 : (threads + s.batch - 1) / s.batch;
  Cut cut;
  // Rows first: a block of rows keeps the operands dense, which the library's fast path asks for.
  cut.rows = s.m >= kMinBlock * wanted || s.m >= s.n;
  int64_t extent = cut.rows ? s.m : s.n;
  int64_t step = (extent + wanted - 1) / wanted;
  cut.step = wanted == 1 ? extent : std::max(kBlockStep, (step + kBlockStep - 1) / kBlockStep * kBlockStep);
  cut.blocks = (extent + cut.step - 1) / cut.step;
  return cut;
}

class GemmCall : public LibraryCall {
 public:
  GemmCall(OneDnn::Library& lib, const GemmSpec& spec) : lib_(lib), s_(spec), element_(bytes_of(spec.dtype)) {
    cut_ = choose_cut(s_, lib.pool.size());
    double flops = 2.0 * static_cast<double>(s_.batch) * static_cast<double>(s_.m) * static_cast<double>(s_.n) *
                   static_cast<double>(s_.k);
    max_threads_ = flops < kMinFlopsPerLaunch ? 1 : 0;
  }

  bool run(void* const* operands) override {
    operands_ = operands;
    failed_.store(false, std::memory_order_relaxed);
    lib_.pool.run(
        [](void* self, int64_t begin, int64_t end, int thread) {
          for (int64_t unit = begin; unit < end; ++unit) static_cast<GemmCall*>(self)->run_unit(unit, thread);
        },
        this, s_.batch * cut_.blocks, max_threads_);
    return !failed_.load(std::memory_order_relaxed);
  }

  Cut cut_;
  std::unique_ptr<Primitive> whole_, last_;  ///< of full blocks and of the last, smaller one; null for sgemm

 private:
  void run_unit(int64_t unit, int thread) {
    int64_t b = unit / cut_.blocks;
    int64_t begin = unit % cut_.blocks * cut_.step;
    int64_t extent = cut_.rows ? s_.m : s_.n;
    int64_t count = std::min(cut_.step, extent - begin);
    int64_t row = cut_.rows ? begin : 0;
    int64_t col = cut_.rows ? 0 : begin;
    auto* a = static_cast<char*>(operands_[0]) + (b * s_.stride_a + row * (s_.transpose_a ? 1 : s_.lda)) * element_;
    auto* w = static_cast<char*>(operands_[1]) + (b * s_.stride_b + col * (s_.transpose_b ? s_.ldb : 1)) * element_;
    auto* c = static_cast<char*>(operands_[2]) + (b * s_.stride_c + row * s_.ldc + col) * element_;
    bool ok = true;
    if (whole_ != nullptr) {
      void* pointers[] = {a, w, c};
      ok = (count == cut_.step ? whole_ : last_)->run(thread, pointers);
    } else {
      lib_.be_single_threaded();
      ok = sgemm(reinterpret_cast<float*>(a), reinterpret_cast<float*>(w), reinterpret_cast<float*>(c), cut_.rows ? count : s_.m,
                 cut_.rows ? s_.n : count);
    }
    if (!ok) failed_.store(true, std::memory_order_relaxed);
  }

  bool sgemm(const float* a, const float* w, float* c, int64_t rows, int64_t columns) {
    if ((rows == 1 || columns == 1) && s_.k > kVectorTerms) return by_vector(a, w, c, rows, columns);
    return product(a, w, s_.k, c, s_.ldc, rows, columns);
  }
  bool product(const float* a, const float* w, int64_t k, float* c, int64_t ldc, int64_t rows, int64_t columns) {
    return lib_.dnnl_sgemm(s_.transpose_a ? 'T' : 'N', s_.transpose_b ? 'T' : 'N', rows, columns, k, 1.0f, a, s_.lda, w, s_.ldb, 0.0f, c,
                           ldc) == dnnl_success;
  }
  // Computes one row or one column in parts of at most kVectorTerms terms, and adds the parts in f64.
  bool by_vector(const float* a, const float* w, float* c, int64_t rows, int64_t columns) {
    const int64_t count = rows * columns;
    std::vector<float> part(static_cast<size_t>(count));
    std::vector<double> sum(part.size());
    for (int64_t k = 0; k < s_.k; k += kVectorTerms) {
      const float *from_a = a + k * (s_.transpose_a ? s_.lda : 1), *from_w = w + k * (s_.transpose_b ? 1 : s_.ldb);
      if (!product(from_a, from_w, std::min(kVectorTerms, s_.k - k), part.data(), columns, rows, columns)) return false;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part[i]);
    }
    for (int64_t i = 0; i < count; ++i) c[columns == 1 ? i * s_.ldc : i] = static_cast<float>(sum[static_cast<size_t>(i)]);
    return true;
  }

  OneDnn::Library& lib_;
  GemmSpec s_;
  int64_t element_;
  int max_threads_ = 0;
  void* const* operands_ = nullptr;
  std::atomic<bool> failed_{false};
};

/// With nothing to sum up the result is zero, and with an empty result there is nothing to do.
class EmptyGemm : public LibraryCall {
 public:
  explicit EmptyGemm(const GemmSpec& spec) : s_(spec) {}
  bool run(void* const* operands) override {
    size_t element = bytes_of(s_.dtype);
    for (int64_t b = 0; b < s_.batch; ++b)
      for (int64_t row = 0; row < s_.m; ++row)
        std::memset(static_cast<char*>(operands[2]) + (b * s_.stride_c + row * s_.ldc) * element, 0, s_.n * element);
    return true;
  }

 private:
  GemmSpec s_;
};

Result<std::unique_ptr<Primitive>> make_product_block(OneDnn::Library& lib, const GemmSpec& s, int64_t m, int64_t n) {
  auto matrix = [&](int64_t rows, int64_t cols, bool transposed, int64_t leading) {
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {rows, cols};
    dnnl_dims_t strides = {transposed ? 1 : leading, transposed ? leading : 1};
    dnnl_status_t status = lib.dnnl_memory_desc_init_by_strides(&md, 2, dims, dnnl_type(s.dtype), strides);
    NABLA_CHECK(status == dnnl_success, "oneDNN refused a {}x{} matrix", rows, cols);
    return md;
  };
  dnnl_memory_desc_t a = matrix(m, s.k, s.transpose_a, s.lda);
  dnnl_memory_desc_t b = matrix(s.k, n, s.transpose_b, s.ldb);
  dnnl_memory_desc_t c = matrix(m, n, false, s.ldc);
  dnnl_matmul_desc_t op;
  PrimitiveDesc desc(lib);
  if (lib.dnnl_matmul_desc_init(&op, &a, &b, nullptr, &c) != dnnl_success ||
      lib.dnnl_primitive_desc_create(&desc.handle, &op, lib.attr, lib.engine, nullptr) != dnnl_success)
    return error(Code::kMissingLibrary, "the installed oneDNN has no {} matmul of {}x{}x{} for this CPU",
                 name_of(s.dtype), m, n, s.k);
  return Primitive::make(lib, desc, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, {a, b, c});
}

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_gemm(OneDnn::Library& lib, const GemmSpec& s) {
  if (s.implementation != "matmul" && s.implementation != "sgemm")
    return error(Code::kNewerVersion, "unknown GEMM implementation `{}`; known are `matmul` and `sgemm`",
                 s.implementation);
  if (s.implementation == "sgemm" && s.dtype != DType::kF32)
    return error(Code::kMissingLibrary, "oneDNN's sgemm takes f32, not {}", name_of(s.dtype));
  if (s.batch == 0 || s.m == 0 || s.n == 0 || s.k == 0)
    return std::unique_ptr<LibraryCall>(std::make_unique<EmptyGemm>(s));
  auto call = std::make_unique<GemmCall>(lib, s);
  if (s.implementation == "matmul") {
    const Cut& cut = call->cut_;
    int64_t extent = cut.rows ? s.m : s.n;
    auto block = [&](int64_t count) { return make_product_block(lib, s, cut.rows ? count : s.m, cut.rows ? s.n : count); };
    call->whole_ = NABLA_TRY(block(cut.step));
    if (extent % cut.step != 0) call->last_ = NABLA_TRY(block(extent % cut.step));
  }
  return std::unique_ptr<LibraryCall>(std::move(call));
}

}  // namespace nabla::device
