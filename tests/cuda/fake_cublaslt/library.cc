// A libcublasLt.so for tests: products on the memory of the fake driver ($NABLA_CUDA_DRIVER), which runs them where a
// stream comes to them. What the manual forbids is refused with CUBLAS_STATUS_INVALID_VALUE and said on stderr.
// $NABLA_FAKE_CUBLASLT_FAIL="NAME:COUNT[:STATUS]" makes a call fail, or with COUNT 0 every one; _VERSION ("110000")
// changes what it is; _FASTEST is the algorithm that does not dawdle (0 without it).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/base/diagnostic.h"
#include "tests/cuda/fake_cublaslt/problem.h"
#include "tests/cuda/fake_library/fake_library.h"

using namespace nabla::fake_cublaslt;  // NOLINT: this is its library
using namespace nabla::fake_library;   // NOLINT

namespace {

enum Status : int { kOk = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };

/// cublasLtMatmulAlgo_t: what this library writes into it.
struct Algorithm {
  uint64_t magic, id, alignment, workspace, m, n, k, rest;
};
static_assert(sizeof(Algorithm) == 64);
constexpr uint64_t kMagic = 0xfa4e;

/// cublasLtMatmulHeuristicResult_t
struct Candidate {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

/// cublasLtMatmulPreference_t
struct Wish {
  uint64_t workspace = 0;
  uint32_t reductions = ~0u;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

// In the order in which they are offered. The last adds parts of sums in the type of the result.
struct Kind {
  uint64_t alignment, workspace;
  bool coarse;
};
constexpr Kind kKinds[] = {{16, 1 << 20, false}, {16, 0, false}, {1, 0, false}, {1, 0, true}};
constexpr uint32_t kSumInResultType = 4;

State& state() {
  static State* all = new State{"fake cublasLt", "NABLA_FAKE_CUBLASLT_FAIL", kInvalidValue, kExecutionFailed};
  return *all;
}

int begin(const std::string& name) { return state().begin(name); }
int refuse(const std::string& why) { return state().refuse(why); }
bool alive(std::initializer_list<const void*> all) { return state().alive(all); }
template <class T>
int make(void** out, T value) {
  return state().make(out, std::move(value));
}
template <class T>
int drop(void* what) {
  return state().drop<T>(what);
}

template <class T>
int assign(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return refuse(fmt::format("an attribute of {} bytes is given {}", sizeof to, bytes));
  std::memcpy(&to, value, bytes);
  return kOk;
}

Problem problem_of(void* desc, void* a, void* b, void* d) {
  return {*static_cast<Desc*>(desc), *static_cast<Layout*>(a), *static_cast<Layout*>(b), *static_cast<Layout*>(d)};
}

/// From compute capability 8.9 on tensor cores multiply 8-bit floats.
bool chip_has_bytes() {
  const char* capability = environment("NABLA_FAKE_CUDA_CAPABILITY");
  return *capability == 0 || std::atof(capability) >= 8.9;
}

std::string_view name_of(int type) {
  nabla::DType dtype = nabla::DType::kF32;
  dtype_of(type, dtype);
  return nabla::name_of(dtype);
}

bool fits(const Algorithm& algorithm, const Problem& p) {
  return algorithm.magic == kMagic && algorithm.id < std::size(kKinds) && algorithm.m == p.m() &&
         algorithm.n == p.n() && algorithm.k == p.k();
}

/// What is wrong with the addresses of a call.
std::string misplaced(const Problem& p, const Algorithm& algorithm, const void* workspace, size_t bytes) {
  const void* pd = p.pd;
  for (auto [at, layout, name] : {std::tuple(p.pa, &p.a, "A"), std::tuple(p.pb, &p.b, "B"), std::tuple(pd, &p.d, "D"),
                                  std::tuple(p.pc == nullptr ? pd : p.pc, &p.d, "C")}) {
    if (!driver()->holds(address(at), layout->bytes())) return fmt::format("{} lies outside of memory", name);
    if (address(at) % algorithm.alignment != 0)
      return fmt::format("{} is not aligned to {} bytes", name, algorithm.alignment);
  }
  if (p.pc != nullptr && p.pc != pd && address(p.pc) < address(pd) + p.d.bytes() &&
      address(pd) < address(p.pc) + p.d.bytes())
    return "C and D are not the same, but overlap";
  nabla::DType dtype = nabla::DType::kF32;
  dtype_of(p.d.type, dtype);
  if ((p.desc.epilogue & 4) &&
      !driver()->holds(address(p.desc.bias), p.m() * static_cast<uint64_t>(nabla::bytes_of(dtype))))
    return "the bias lies outside of memory";
  if (bytes < algorithm.workspace) return fmt::format("{} bytes of workspace of {}", bytes, algorithm.workspace);
  if (bytes > 0 && (address(workspace) % 256 != 0 || !driver()->holds(address(workspace), bytes)))
    return "the workspace is not aligned to 256 bytes, or lies outside of memory";
  return "";
}

}  // namespace

extern "C" {

/// For tests: how often a call was made, and an algorithm ran ("algorithm 2").
int nb_fake_cublaslt_count(const char* name) { return state().calls[name]; }
/// The last product: "f32 n 5x3x7 epilogue 1 batch 1".
const char* nb_fake_cublaslt_last(void) { return state().last.c_str(); }
/// Handles and descriptors that nobody has destroyed.
int nb_fake_cublaslt_live(void) { return static_cast<int>(state().live.size()); }
void nb_fake_cublaslt_reset(void) { state().calls.clear(), state().last.clear(); }
/// The next products are slow: cold_products.
void nb_fake_cublaslt_cool(int products) { cold_products = products; }

size_t cublasLtGetVersion(void) {
  const char* version = environment("NABLA_FAKE_CUBLASLT_VERSION");
  return *version == 0 ? 130100 : static_cast<size_t>(std::atoi(version));
}
const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kOk:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return nullptr;
  }
}

int cublasLtCreate(void** handle) {
  if (int wish = begin("cublasLtCreate"); wish != kOk) return wish;
  if (driver() == nullptr || driver()->ready() == 0) return kNotInitialized;
  return make(handle, 0);
}
int cublasLtDestroy(void* handle) { return drop<int>(handle); }

int cublasLtMatmulDescCreate(void** desc, int compute, int scale) {
  if (int wish = begin("cublasLtMatmulDescCreate"); wish != kOk) return wish;
  return make(desc, Desc{compute, scale});
}
int cublasLtMatmulDescDestroy(void* desc) { return drop<Desc>(desc); }
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  if (int wish = begin("cublasLtMatmulDescSetAttribute"); wish != kOk) return wish;
  if (!alive({desc})) return refuse("no description");
  Desc& d = *static_cast<Desc*>(desc);
  switch (attribute) {
    case 3:
      return assign(d.transpose_a, value, bytes);
    case 4:
      return assign(d.transpose_b, value, bytes);
    case 7:
      return assign(d.epilogue, value, bytes);
    case 8:
      return assign(d.bias, value, bytes);
    default:
      return refuse(fmt::format("attribute {} of a description", attribute));
  }
}

int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (int wish = begin("cublasLtMatrixLayoutCreate"); wish != kOk) return wish;
  return make(layout, Layout{type, rows, columns, ld});
}
int cublasLtMatrixLayoutDestroy(void* layout) { return drop<Layout>(layout); }
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  if (!alive({layout})) return refuse("no layout");
  Layout& l = *static_cast<Layout*>(layout);
  if (attribute == 5) return assign(l.batch, value, bytes);
  if (attribute == 6) return assign(l.stride, value, bytes);
  return refuse(fmt::format("attribute {} of a layout", attribute));
}

int cublasLtMatmulPreferenceCreate(void** wish) { return make(wish, Wish{}); }
int cublasLtMatmulPreferenceDestroy(void* wish) { return drop<Wish>(wish); }
int cublasLtMatmulPreferenceSetAttribute(void* wish, int attribute, const void* value, size_t bytes) {
  if (!alive({wish})) return refuse("no preference");
  Wish& w = *static_cast<Wish*>(wish);
  if (attribute == 1) return assign(w.workspace, value, bytes);
  if (attribute == 3) return assign(w.reductions, value, bytes);
  if (attribute >= 5 && attribute <= 8) return assign(w.alignments[attribute - 5], value, bytes);
  return refuse(fmt::format("attribute {} of a preference", attribute));
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* desc, void* a, void* b, void* c, void* d, void* wish, int most,
                                   Candidate* out, int* found) {
  if (int status = begin("cublasLtMatmulAlgoGetHeuristic"); status != kOk) return status;
  if (!alive({handle, desc, a, b, c, d, wish}) || most < 1) return refuse("a heuristic of nothing");
  Problem p = problem_of(desc, a, b, d);
  if (std::string wrong = p.fault(); !wrong.empty()) return refuse(wrong);
  const Wish& w = *static_cast<Wish*>(wish);
  uint64_t alignment = 256;
  for (uint32_t bytes : w.alignments) alignment = std::min<uint64_t>(alignment, bytes);
  *found = 0;
  for (uint64_t id = 0; id < std::size(kKinds) && *found < most; ++id) {
    const Kind& kind = kKinds[id];
    if (kind.alignment > alignment || kind.workspace > w.workspace) continue;
    if (p.of_bytes() && (kind.alignment < 16 || !chip_has_bytes())) continue;
    if (kind.coarse && (w.reductions & kSumInResultType) == 0) continue;
    out[(*found)++] = {
        {kMagic, id, kind.alignment, kind.workspace, p.m(), p.n(), p.k(), 0}, kind.workspace, kOk, 1, {}};
  }
  return *found > 0 ? kOk : kNotSupported;
}

int cublasLtMatmulAlgoCheck(void* handle, void* desc, void* a, void* b, void* c, void* d, const Algorithm* algorithm,
                            Candidate* out) {
  if (int wish = begin("cublasLtMatmulAlgoCheck"); wish != kOk) return wish;
  if (!alive({handle, desc, a, b, c, d})) return refuse("a check of nothing");
  Problem p = problem_of(desc, a, b, d);
  if (!p.fault().empty() || !fits(*algorithm, p)) return kInvalidValue;
  out->workspace = algorithm->workspace;
  return kOk;
}

int cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                   void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
  if (int wish = begin("cublasLtMatmul"); wish != kOk) return wish;
  if (!alive({handle, desc, a_layout, b_layout, c_layout, d_layout})) return refuse("a product of nothing");
  auto call = std::make_unique<Problem>(problem_of(desc, a_layout, b_layout, d_layout));
  call->pa = a, call->pb = b, call->pd = d;
  if (std::string wrong = call->fault(); !wrong.empty()) return refuse(wrong);
  if (algorithm == nullptr || !fits(*algorithm, *call)) return refuse("the algorithm belongs to another product");
  bool wide = call->d.type == 1;
  double one = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  double beta_value = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  if (one != 1 || (beta_value != 0 && beta_value != 1)) return refuse("factors other than 1 and 0");
  if (c_layout != d_layout) return refuse("C lies otherwise than D");
  if (beta_value == 0 && c != d) return refuse("C counts nothing, and is not D");
  if (beta_value == 1) call->pc = c;
  if (std::string wrong = misplaced(*call, *algorithm, workspace, workspace_bytes); !wrong.empty())
    return refuse(wrong);
  const char* fastest = environment("NABLA_FAKE_CUBLASLT_FASTEST");
  call->delay_ms = *fastest != 0 && algorithm->id != static_cast<uint64_t>(std::atoi(fastest)) ? 3 : 0;
  ++state().calls[fmt::format("algorithm {}", algorithm->id)];
  nabla::DType dtype = nabla::DType::kF32;
  dtype_of(call->d.type, dtype);
  state().last = fmt::format("{} {}x{}x{} batch {} epilogue {} compute {}", nabla::name_of(dtype), call->m(), call->n(),
                             call->k(), call->d.batch, call->desc.epilogue, call->desc.compute);
  if (call->of_bytes()) state().last += fmt::format(" of {} and {}", name_of(call->a.type), name_of(call->b.type));
  if (call->pc != nullptr) state().last += c == d ? " add in place" : " add";
  auto run = [](void* context) { return static_cast<Problem*>(context)->compute(), 0; };
  auto release = [](void* context) { delete static_cast<Problem*>(context); };
  return driver()->put(stream, run, call.release(), release) == 0 ? kOk : kExecutionFailed;
}

}  // extern "C"
