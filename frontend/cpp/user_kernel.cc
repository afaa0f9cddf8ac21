#include "frontend/cpp/user_kernel.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"

namespace nabla {
namespace {

// The line at which `text` stands in the file, at or after the call's: compilers tell where the call begins, not where
// its argument does. The call's own line where the file cannot be read or holds the text in another form.
int64_t line_of_text(const Site& site, const std::string& text) {
  std::ifstream in(site.file, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  std::string file = all.str();
  size_t at = 0;
  int64_t line = 1;
  for (; line < site.line && at != std::string::npos; ++line) {
    at = file.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  size_t found = at == std::string::npos || text.empty() ? at : file.find(text, at);
  if (found == std::string::npos) return std::max(site.line, 1);
  return line + std::count(file.begin() + static_cast<std::ptrdiff_t>(at),
                           file.begin() + static_cast<std::ptrdiff_t>(found), '\n');
}

}  // namespace

struct UserKernel::Parts {
  struct Text {
    std::string source, file;
    int64_t line = 1;
  };
  std::string name, signature;
  Text cpp, cuda;
  CudaLaunch launch;
  std::string factors;
  Batching batching = Batching::kSequential;
  TensorFunction reference, vjp;
  // Functions that were traced for a call, by module and types: layers that repeat share them. Modules end, as those of
  // Python's eager values do again and again; the kernel does not keep them.
  struct Made {
    std::weak_ptr<Context> context;
    std::string key;
    ir::FunctionRefs refs;
  };
  std::shared_ptr<std::vector<Made>> traced = std::make_shared<std::vector<Made>>();

  // `f` on parameters of these types, as a function of the module being traced. None where f is empty.
  ir::FunctionRefs function(const TensorFunction& f, const char* what, const std::vector<ir::Type>& types,
                            const Site& site) const;
  static Text text(std::string source, const Site& site) {
    int64_t line = line_of_text(site, source);
    return {std::move(source), site.file, line};
  }
  // Empty where the operands do not fit.
  static std::vector<ir::Type> result_types(const std::vector<ir::Type>& operands, const ir::Attrs& attrs);
};

std::vector<ir::Type> UserKernel::Parts::result_types(const std::vector<ir::Type>& operands, const ir::Attrs& attrs) {
  const ir::OpDef& op = ops::all_ops().get("custom_call");
  Result<ir::Attrs> complete = ir::complete_attrs(op, attrs);
  std::shared_ptr<Frame> frame = Frame::current();
  auto lookup = [&](std::string_view f) -> const ir::Function* { return frame->context->module.find(f); };
  if (!complete.ok() || !frame) return {};
  Result<std::vector<ir::Type>> types = ir::infer_types(op, operands, *complete, lookup);
  return types.ok() ? *types : std::vector<ir::Type>{};
}

ir::FunctionRefs UserKernel::Parts::function(const TensorFunction& f, const char* what,
                                             const std::vector<ir::Type>& types, const Site& site) const {
  if (!f) return {};
  std::string key = what;
  for (const ir::Type& t : types) key += " " + t.str();
  std::shared_ptr<Frame> frame = Frame::current();
  if (!frame) throw error_at(site, Code::kMisuse, "kernel `{}` is called outside of a traced function", name);
  std::erase_if(*traced, [](const Made& m) { return m.context.expired(); });
  for (const Made& m : *traced)
    if (m.key == key && m.context.lock() == frame->context) return m.refs;
  Tracing tracing(name + "_" + what, site);
  std::vector<Tensor> params;
  for (const ir::Type& t : types) params.push_back(tracing.param("", t));
  TracedFunction made = tracing.finish(f(params));
  if (!made.captures.empty())
    throw error_at(site, Code::kMisuse,
                   "kernel `{}`: its {} uses a value of an enclosing function: make it an operand of the kernel", name,
                   what);
  ir::FunctionRefs refs{ir::FunctionRef{made.function->name}};
  traced->push_back({frame->context, std::move(key), refs});
  return refs;
}

UserKernel UserKernel::cuda(std::string source, CudaLaunch launch, const Site& site) const {
  auto parts = std::make_shared<Parts>(*parts_);
  parts->cuda = Parts::text(std::move(source), site);
  parts->launch = std::move(launch);
  return UserKernel(std::move(parts));
}

UserKernel UserKernel::with_reference(TensorFunction f) const {
  auto parts = std::make_shared<Parts>(*parts_);
  parts->reference = std::move(f);
  parts->traced = std::make_shared<std::vector<Parts::Made>>();
  return UserKernel(std::move(parts));
}

UserKernel UserKernel::with_vjp(TensorFunction f) const {
  auto parts = std::make_shared<Parts>(*parts_);
  parts->vjp = std::move(f);
  parts->traced = std::make_shared<std::vector<Parts::Made>>();
  return UserKernel(std::move(parts));
}

UserKernel UserKernel::factors(std::string text) const {
  auto parts = std::make_shared<Parts>(*parts_);
  parts->factors = std::move(text);
  return UserKernel(std::move(parts));
}

UserKernel UserKernel::batching(Batching batching) const {
  auto parts = std::make_shared<Parts>(*parts_);
  parts->batching = batching;
  return UserKernel(std::move(parts));
}

const std::string& UserKernel::name() const { return parts_->name; }

std::vector<Tensor> UserKernel::results(const std::vector<Tensor>& operands, Site site) const {
  const Parts& p = *parts_;
  AtSite at(site);
  ir::Attrs attrs{{"name", p.name},
                  {"cpp", p.cpp.source},
                  {"file", p.cpp.file},
                  {"line", p.cpp.line},
                  {"cuda", p.cuda.source},
                  {"cuda_file", p.cuda.file},
                  {"cuda_line", p.cuda.line},
                  {"threads", int64_t{p.launch.threads}},
                  {"blocks", p.launch.blocks},
                  {"shared_bytes", int64_t{p.launch.shared_bytes}},
                  {"signature", p.signature},
                  {"factors", p.factors},
                  {"batching", std::string(p.batching == Batching::kLeading ? "leading" : "sequential")}};
  std::vector<ir::Type> types;
  std::vector<Arg> args;
  for (const Tensor& t : operands) {
    types.push_back(t.type());
    args.emplace_back(t, site);
  }
  attrs.set("reference", p.function(p.reference, "reference", types, site));
  if (p.vjp) {
    // Where the operands do not fit, emit says so.
    std::vector<ir::Type> made = p.result_types(types, attrs);
    types.insert(types.end(), made.begin(), made.end());
    std::copy_if(made.begin(), made.end(), std::back_inserter(types),
                 [](const ir::Type& t) { return is_float(t.dtype); });
    if (!made.empty()) attrs.set("vjp", p.function(p.vjp, "vjp", types, site));
  }
  return emit("custom_call", args, std::move(attrs), site);
}

Tensor UserKernel::one(const std::vector<Tensor>& operands, Site site) const {
  std::vector<Tensor> all = results(operands, site);
  if (all.size() != 1)
    throw error_at(site, Code::kOperandCount, "kernel `{}` has {} results: `{}.results({{x, ...}})` gives all of them",
                   name(), all.size(), name());
  return all[0];
}

UserKernel cpp_kernel(std::string name, std::string signature, std::string source, Site site) {
  auto parts = std::make_shared<UserKernel::Parts>();
  parts->name = std::move(name);
  parts->signature = std::move(signature);
  parts->cpp = UserKernel::Parts::text(std::move(source), site);
  return UserKernel(std::move(parts));
}

UserKernel cuda_kernel(std::string name, std::string signature, std::string source, CudaLaunch launch, Site site) {
  auto parts = std::make_shared<UserKernel::Parts>();
  parts->name = std::move(name);
  parts->signature = std::move(signature);
  return UserKernel(std::move(parts)).cuda(std::move(source), std::move(launch), site);
}

}  // namespace nabla
