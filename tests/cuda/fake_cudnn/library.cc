// A libcudnn.so for tests: convolutions on the memory of the fake driver ($NABLA_CUDA_DRIVER), which runs them where a
// stream comes to them. What the manual forbids is refused with CUDNN_STATUS_BAD_PARAM and said on stderr; so is what
// this project does not want: an algorithm whose results depend on the run, and one that rounds f32 to f16.
// $NABLA_FAKE_CUDNN_FAIL="NAME:COUNT[:STATUS]" makes a call fail, or with COUNT 0 every one; _VERSION ("8907") changes
// what it is; _FASTEST is the algorithm that does not dawdle.
#include <cstdlib>
#include <memory>

#include "runtime/base/diagnostic.h"
#include "tests/cuda/fake_cudnn/problem.h"
#include "tests/cuda/fake_library/fake_library.h"

using namespace nabla::fake_cudnn;    // NOLINT: this is its library
using namespace nabla::fake_library;  // NOLINT

namespace {

enum Status : int { kOk = 0, kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000, kExecutionFailed = 5000 };

State& state() {
  static State* all = new State{"fake cudnn", "NABLA_FAKE_CUDNN_FAIL", kBadParam, kExecutionFailed};
  return *all;
}
int refuse(const std::string& why) { return state().refuse(why); }

struct Handle {
  void* stream = nullptr;
  bool ready = false;
};

/// cudnnConvolutionFwdAlgoPerf_t and its kin.
struct Perf {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math;
  int reserved[3];
};

/// In the order in which they are offered, for every kind. The arithmetic -1 is that of the description.
struct Algorithm {
  int id, status;
  size_t memory;
  bool deterministic;
  int math;
};
constexpr Algorithm kAlgorithms[] = {
    {3, kOk, 0, false, -1},           // adds by atomics
    {4, kOk, 0, true, 2},             // rounds f32 to f16
    {2, kNotSupported, 0, true, -1},  // not for this problem
    {5, kOk, 64 << 20, true, -1},     // more than programs give
    {1, kOk, 1 << 20, true, -1},
    {0, kOk, 0, true, -1},
};

const Algorithm* algorithm_of(int id) {
  for (const Algorithm& a : kAlgorithms)
    if (a.id == id) return &a;
  return nullptr;
}

/// The problem of three descriptions in the order of the kind's functions.
Problem problem_of(Kind kind, void* first, void* second, void* windows, void* third) {
  Problem p;
  p.kind = kind;
  p.windows = *static_cast<Windows*>(windows);
  void* x = kind == kBackwardData ? third : first;
  void* w = kind == kForward ? second : kind == kBackwardData ? first : third;
  void* y = kind == kForward ? third : second;
  p.x = *static_cast<Tensor*>(x), p.w = *static_cast<Filter*>(w), p.y = *static_cast<Tensor*>(y);
  return p;
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"Forward", "BackwardData", "BackwardFilter"};
  return kNames[kind];
}

int find(Kind kind, void* handle, void* first, void* second, void* windows, void* third, int most, int* found,
         Perf* out) {
  if (int wish = state().begin(fmt::format("cudnnGetConvolution{}Algorithm_v7", name_of(kind)))) return wish;
  if (!state().alive({handle, first, second, windows, third}) || most < 1) return refuse("algorithms of nothing");
  Problem p = problem_of(kind, first, second, windows, third);
  if (std::string wrong = p.fault(); !wrong.empty()) return refuse(wrong);
  *found = 0;
  for (const Algorithm& a : kAlgorithms) {
    if (*found == most) break;
    int math = a.math < 0 ? p.windows.math : a.math;
    out[(*found)++] = {a.id, a.status, -1, a.memory, a.deterministic ? 1 : 0, math, {}};
  }
  return kOk;
}

std::string misplaced(const Problem& p, const Algorithm& a, const void* workspace, size_t bytes) {
  for (auto [at, size, name] : {std::tuple(p.px, p.x.bytes(), "x"), std::tuple(p.pw, p.w.as_tensor().bytes(), "w"),
                                std::tuple(p.py, p.y.bytes(), "y")}) {
    if (driver()->holds(address(at), size) == 0) return fmt::format("{} lies outside of memory", name);
    if (address(at) % 16 != 0) return fmt::format("{} is not aligned to 16 bytes", name);
  }
  if (bytes < a.memory) return fmt::format("{} bytes of workspace of {}", bytes, a.memory);
  if (bytes > 0 && (address(workspace) % 256 != 0 || driver()->holds(address(workspace), bytes) == 0))
    return "the workspace is not aligned to 256 bytes, or lies outside of memory";
  return "";
}

int run(Kind kind, void* handle, const void* alpha, void* first, const void* a, void* second, const void* b,
        void* windows, int id, void* workspace, size_t bytes, const void* beta, void* third, void* c) {
  if (int wish = state().begin(fmt::format("cudnnConvolution{}", name_of(kind)))) return wish;
  if (!state().alive({handle, first, second, windows, third})) return refuse("a convolution of nothing");
  auto call = std::make_unique<Problem>(problem_of(kind, first, second, windows, third));
  call->px = kind == kBackwardData ? c : a;
  call->pw = kind == kForward ? b : kind == kBackwardData ? a : c;
  call->py = kind == kForward ? c : b;
  if (std::string wrong = call->fault(); !wrong.empty()) return refuse(wrong);
  const Algorithm* algorithm = algorithm_of(id);
  if (algorithm == nullptr || algorithm->status != kOk) return kNotSupported;
  if (!algorithm->deterministic) return refuse("results would depend on the run");
  if (call->windows.math == 2 || algorithm->math == 2) return refuse("factors would be rounded to f16");
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    return refuse("factors other than 1 and 0");
  if (std::string wrong = misplaced(*call, *algorithm, workspace, bytes); !wrong.empty()) return refuse(wrong);
  const char* fastest = environment("NABLA_FAKE_CUDNN_FASTEST");
  call->delay_ms = *fastest != 0 && id != std::atoi(fastest) ? 3 : 0;
  ++state().calls[fmt::format("algorithm {}", id)];
  state().last =
      fmt::format("{} {} type {} math {}", name_of(kind), fmt::format("{}x{}", call->y.sizes[0], call->y.sizes[1]),
                  call->x.type, call->windows.math);
  auto work = [](void* context) { return static_cast<Problem*>(context)->compute(), 0; };
  auto release = [](void* context) { delete static_cast<Problem*>(context); };
  void* stream = static_cast<Handle*>(handle)->stream;
  return driver()->put(stream, work, call.release(), release) == 0 ? kOk : kExecutionFailed;
}

}  // namespace

extern "C" {

/// For tests: how often a call was made, and an algorithm ran ("algorithm 1").
int nb_fake_cudnn_count(const char* name) { return state().calls[name]; }
/// The last convolution: "Forward 64x16 type 0 math 3".
const char* nb_fake_cudnn_last(void) { return state().last.c_str(); }
/// Handles and descriptors that nobody has destroyed.
int nb_fake_cudnn_live(void) { return static_cast<int>(state().live.size()); }
void nb_fake_cudnn_reset(void) { state().calls.clear(), state().last.clear(); }

size_t cudnnGetVersion(void) {
  const char* version = environment("NABLA_FAKE_CUDNN_VERSION");
  return *version == 0 ? 92800 : static_cast<size_t>(std::atoi(version));
}
const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kOk:
      return "CUDNN_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    case kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case kExecutionFailed:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return nullptr;
  }
}

int cudnnCreate(void** handle) {
  if (int wish = state().begin("cudnnCreate")) return wish;
  if (driver() == nullptr || driver()->ready() == 0) return kNotInitialized;
  return state().make(handle, Handle{});
}
int cudnnDestroy(void* handle) { return state().drop<Handle>(handle); }
int cudnnSetStream(void* handle, void* stream) {
  if (int wish = state().begin("cudnnSetStream")) return wish;
  if (!state().alive({handle})) return refuse("no handle");
  static_cast<Handle*>(handle)->stream = stream;
  return kOk;
}

int cudnnCreateTensorDescriptor(void** desc) {
  if (int wish = state().begin("cudnnCreateTensorDescriptor")) return wish;
  return state().make(desc, Tensor{});
}
int cudnnDestroyTensorDescriptor(void* desc) { return state().drop<Tensor>(desc); }
int cudnnSetTensorNdDescriptor(void* desc, int type, int rank, const int* sizes, const int* strides) {
  if (int wish = state().begin("cudnnSetTensorNdDescriptor")) return wish;
  if (!state().alive({desc}) || rank < 4 || rank > 8) return refuse(fmt::format("a tensor of {} dimensions", rank));
  *static_cast<Tensor*>(desc) = {type, Ints(sizes, sizes + rank), Ints(strides, strides + rank)};
  return kOk;
}

int cudnnCreateFilterDescriptor(void** desc) { return state().make(desc, Filter{}); }
int cudnnDestroyFilterDescriptor(void* desc) { return state().drop<Filter>(desc); }
int cudnnSetFilterNdDescriptor(void* desc, int type, int format, int rank, const int* sizes) {
  if (!state().alive({desc}) || rank < 4 || rank > 8) return refuse(fmt::format("a filter of {} dimensions", rank));
  *static_cast<Filter*>(desc) = {type, format, Ints(sizes, sizes + rank)};
  return kOk;
}

int cudnnCreateConvolutionDescriptor(void** desc) { return state().make(desc, Windows{}); }
int cudnnDestroyConvolutionDescriptor(void* desc) { return state().drop<Windows>(desc); }
int cudnnSetConvolutionNdDescriptor(void* desc, int spatial, const int* padding, const int* strides,
                                    const int* dilation, int mode, int compute) {
  if (!state().alive({desc}) || spatial < 2 || spatial > 3) return refuse(fmt::format("{} windows", spatial));
  Windows& w = *static_cast<Windows*>(desc);
  w.padding.assign(padding, padding + spatial), w.strides.assign(strides, strides + spatial);
  w.dilation.assign(dilation, dilation + spatial);
  w.mode = mode, w.compute = compute;
  return kOk;
}
int cudnnSetConvolutionGroupCount(void* desc, int groups) {
  if (!state().alive({desc}) || groups < 1) return refuse(fmt::format("{} groups", groups));
  static_cast<Windows*>(desc)->groups = groups;
  return kOk;
}
int cudnnSetConvolutionMathType(void* desc, int math) {
  if (!state().alive({desc}) || math < 0 || math > 3) return refuse(fmt::format("arithmetic {}", math));
  static_cast<Windows*>(desc)->math = math;
  return kOk;
}

#define NABLA_FAKE_KIND(name, kind)                                                                                    \
  int cudnnGetConvolution##name##Algorithm_v7(void* handle, void* first, void* second, void* windows, void* third,     \
                                              int most, int* found, Perf* out) {                                       \
    return find(kind, handle, first, second, windows, third, most, found, out);                                        \
  }                                                                                                                    \
  int cudnnConvolution##name(void* handle, const void* alpha, void* first, const void* a, void* second, const void* b, \
                             void* windows, int algorithm, void* workspace, size_t bytes, const void* beta,            \
                             void* third, void* c) {                                                                   \
    return run(kind, handle, alpha, first, a, second, b, windows, algorithm, workspace, bytes, beta, third, c);        \
  }
NABLA_FAKE_KIND(Forward, kForward)
NABLA_FAKE_KIND(BackwardData, kBackwardData)
NABLA_FAKE_KIND(BackwardFilter, kBackwardFilter)

}  // extern "C"
