#include "codegen/cuda/user_printer.h"

#include <algorithm>
#include <regex>

#include "codegen/compiler_messages.h"
#include "codegen/print/expr_printer.h"
#include "codegen/user_text.h"

namespace nabla::codegen {
namespace {

using kernel_ir::Buffer;
using kernel_ir::Kernel;
using kernel_ir::UserCode;

// NVRTC has no headers.
constexpr const char* kIntegers = R"(typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
)";

// The kernel: sizes become numbers, and every thread goes on in `callee`.
std::string wrapper(const Kernel& kernel, const std::string& symbol, const std::string& callee) {
  const kernel_ir::Procedure& p = *kernel.procedure;
  const UserCode& user = *p.user;
  std::string params, args;
  auto add = [](std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; };
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    add(params, fmt::format("{} __restrict__ nb_p{}", user_pointer(kernel.buffers[i]), i));
    add(args, fmt::format("nb_p{}", i));
  }
  std::vector<ir::SymbolRef> symbols = symbols_of(kernel);
  if (!symbols.empty()) add(params, "const long* nb_extents");
  CppWriter out;
  out.open(
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{", user.cuda_threads, symbol, params));
  for (size_t i = 0; i < symbols.size(); ++i)
    out.line(fmt::format("const long {} = nb_extents[{}];", symbol_variable(*symbols[i]), i));
  for (size_t i = 0; i < user.sizes.size(); ++i) add(args, fmt::format("int64_t({})", size_text(p.numbers[3 + i])));
  out.line(fmt::format("{}({});", callee, args));
  out.close();
  return out.take();
}

}  // namespace

std::string cuda_prototype(const Kernel& kernel) { return "__device__ " + user_prototype(kernel); }

// NVRTC takes a call of a `__global__` function in a template.
Status require_device_function(const Kernel& kernel) {
  const UserCode& user = *kernel.procedure->user;
  const std::regex form("__global__\\s+(?:(?:__launch_bounds__\\s*\\([^)]*\\)|\\w+)\\s+)*" + user.name + "\\s*\\(");
  std::smatch found;
  if (!std::regex_search(user.cuda.text, found, form)) return Ok{};
  Diagnostic d = error(Code::kUserCode, "kernel `{}`: its function is __global__", user.name);
  auto begin = user.cuda.text.begin();
  d.location = user_location(user.cuda, user.cuda.line + std::count(begin, begin + found.position(0), '\n'));
  d.help = "every thread of a generated kernel calls it: define " + cuda_prototype(kernel);
  return d;
}

// The kernel stands before the user's text and calls a template whose body stands after it: a pointer to the function
// would keep the compiler from inlining it.
CudaKernel print_user_cuda(const Kernel& kernel, const std::string& symbol) {
  const UserCode& user = *kernel.procedure->user;
  UserFile file(kernel, user.cuda);
  std::string call = file.name("call");
  CudaKernel out;
  out.text = kIntegers + file.head() + kUserSizeFunctions;
  out.text += fmt::format("namespace {{ template <class... A> __device__ void {}(A... a); }}\n", call);
  out.text += wrapper(kernel, symbol, call);
  out.text += file.enclosed(cuda_prototype(kernel), {"template", "class", "void"});
  out.text += fmt::format("template <class... nb_A> __device__ void {}(nb_A... nb_a) {{ {}(nb_a...); }}\n}}\n", call,
                          file.function());
  const kernel_ir::Grid& grid = cuda_schedule_of(kernel).grids.at(0);
  out.grids.push_back({symbol, grid.blocks, grid.threads, grid.shared_bytes});
  return out;
}

}  // namespace nabla::codegen
