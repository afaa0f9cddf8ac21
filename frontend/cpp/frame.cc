#include "frontend/cpp/frame.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "frontend/cpp/trace.h"
#include "ir/ops/all_ops.h"
#include "ir/verifier.h"

namespace nabla {
namespace {

std::vector<std::shared_ptr<Frame>>& frames() {
  thread_local std::vector<std::shared_ptr<Frame>> stack;
  return stack;
}

// Bazel compiles with paths relative to the workspace; `bazel run` says where that is.
std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  if (const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY"); !in && workspace)
    in.open(std::string(workspace) + "/" + file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    size_t begin = line.find_first_not_of(" \t");
    lines.push_back(begin == line.npos ? "" : line.substr(begin));
  }
  return lines;
}

Error foreign_value(const Site& site, const std::string& owner, const std::string& user) {
  Diagnostic d = error(Code::kMisuse, "a value of function `{}` is used in `{}`, which is not inside it", owner, user);
  d.location = locate(site, user);
  d.help = fmt::format(
      "a value exists while its function is traced: let `{}` return it, and do not keep it in a variable of outside",
      owner);
  return Error(std::move(d));
}

/// The places that were asked for, with the lines of their files, as long as no file changes: programs that are written
/// while the process lives, in notebooks and by reloading, change under it.
class Places {
 public:
  LocationRef at(const std::string& file, int line, const std::string& function) {
    refresh();
    LocationRef& location = known_[{file, line, function}];
    if (!location) location = std::make_shared<const Location>(Location{file, line, 0, function, text(file, line)});
    return location;
  }

 private:
  struct File {
    std::vector<std::string> lines;
    std::filesystem::file_time_type written;
  };
  static std::filesystem::file_time_type written(const std::string& file) {
    std::error_code ignored;
    return std::filesystem::last_write_time(file, ignored);
  }
  std::string text(const std::string& file, int line) {
    auto [it, fresh] = files_.try_emplace(file);
    if (fresh) it->second = {lines_of(file), written(file)};
    const std::vector<std::string>& lines = it->second.lines;
    return line >= 1 && line <= static_cast<int>(lines.size()) ? lines[line - 1] : "";
  }
  void refresh() {
    timespec now;  // of some milliseconds' precision, for a few nanoseconds
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == checked_) return;
    checked_ = now.tv_sec;
    auto changed = [](const auto& file) { return written(file.first) != file.second.written; };
    if (std::none_of(files_.begin(), files_.end(), changed)) return;
    files_.clear();
    known_.clear();
  }

  std::map<std::tuple<std::string, int, std::string>, LocationRef> known_;
  std::map<std::string, File> files_;
  time_t checked_ = 0;
};

}  // namespace

std::string Context::unique_name(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !function_names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

void Context::take_symbols(const ir::Function& f) {
  for (const ir::Value& v : f.values)
    for (const ir::Dim& d : v.type.shape)
      for (const ir::SymbolRef& s : d.symbols())
        if (std::none_of(module.symbols.begin(), module.symbols.end(), [&](const auto& t) { return *t == *s; }))
          module.symbols.push_back(s);
}

bool Context::has_mesh(const ir::Mesh& mesh) const {
  return !module.meshes.empty() && module.meshes[0].name == mesh.name && module.meshes[0].axes == mesh.axes;
}

void Context::need_mesh(const ir::Mesh& mesh, const std::string& what, const Site& site) {
  if (module.meshes.empty()) module.meshes.push_back(mesh), first_laid_out = what;
  if (has_mesh(mesh)) return;
  const ir::Mesh& known = module.meshes[0];
  Diagnostic d = error(Code::kBadSharding, "{} is laid out over mesh {}, and is used beside values of mesh {}{}", what,
                       mesh.str(), known.str(), first_laid_out.empty() ? "" : ", such as " + first_laid_out);
  d.location = locate(site, "");
  d.help =
      "ranks of one program are all of one mesh: before they meet, outside of traced functions, lay one out over the mesh of the "
      "other, by reshard(x, mesh, P(...)) or transfer_to(x, sharding=...)";
  throw OtherMesh(std::move(d));
}

LocationRef locate(const Site& site, const std::string& function) {
  thread_local Places places;
  // Bodies are lambdas, whose own name says nothing.
  std::string_view own = site.function;
  std::string name = own.empty() || own == "operator()" ? function : std::string(own);
  std::string file = site.file;
  if (file.starts_with("./")) file.erase(0, 2);  // headers that the compiler found relative to the workspace
  return places.at(file, site.line, name);
}

Frame::Frame(std::shared_ptr<Context> context_in, std::shared_ptr<Frame> parent_in, const std::string& wanted)
    : context(std::move(context_in)),
      parent(std::move(parent_in)),
      name(context->unique_name(wanted)),
      builder(name, ops::all_ops(), &context->module) {}

std::shared_ptr<Frame> Frame::current() { return frames().empty() ? nullptr : frames().back(); }
void Frame::push(std::shared_ptr<Frame> frame) { frames().push_back(std::move(frame)); }
void Frame::pop() { frames().pop_back(); }

Tensor Frame::wrap(ir::Val v) {
  const ir::Type& type = builder.type(v.id);
  int64_t elements = 1;
  for (const ir::Dim& each : type.shape) {
    int64_t n = std::max<int64_t>(each.bounds().max, 1);
    if (n <= ir::kMaxElements / elements) {
      elements *= n;
      continue;
    }
    double bytes = static_cast<double>(bytes_of(type.dtype));
    for (const ir::Dim& factor : type.shape) bytes *= static_cast<double>(std::max<int64_t>(factor.bounds().max, 1));
    Diagnostic d = error(Code::kTooLarge, "{} may have more than {} elements: its size is up to {:.3g} bytes",
                         type.str(), ir::kMaxElements, bytes);
    d.location = builder.location();
    d.help = "make it smaller, or give its sizes smaller upper bounds";
    throw Error(std::move(d));
  }
  return {shared_from_this(), v.id};
}

ir::Val Frame::value_of(const Tensor& t, const Site& site) {
  if (!t.has_value()) throw error_at(site, Code::kMisuse, "a tensor without a value is used");
  if (t.frame().get() == this) return {&builder, t.id()};
  auto known = captured_.find({t.frame().get(), t.id()});
  if (known != captured_.end()) return {&builder, known->second};
  if (!parent)
    throw foreign_value(site, t.frame()->name, name);
  ir::Val outer = parent->value_of(t, site);
  const ir::Value& value = parent->builder.function().values[outer.id];
  ir::Val inner = builder.param(value.name, outer.type());
  if (manual.empty()) builder.lay_out(inner, value.sharding);  // what a region takes from outside is whole on every rank
  captures.push_back(parent->wrap(outer));
  capture_params.push_back(inner.id);
  captured_[{t.frame().get(), t.id()}] = inner.id;
  return inner;
}

ir::FunctionPtr Frame::finish(const std::vector<Tensor>& results, const std::vector<int>& params, const Site& site) {
  std::vector<ir::Val> values;
  for (const Tensor& t : results) values.push_back(value_of(t, site));
  std::vector<int> order = params;
  order.insert(order.end(), capture_params.begin(), capture_params.end());
  // The builder keeps its types for tensors that are looked at later.
  ir::Function f = builder.function();
  for (ir::Val v : values) f.results.push_back(v.id);
  std::vector<ir::ValueId> to(f.values.size(), -1);
  std::deque<ir::Value> renumbered;
  std::set<std::string> names;
  auto move = [&](ir::ValueId& id) {
    if (to[id] < 0) {
      to[id] = static_cast<int>(renumbered.size());
      ir::Value value = f.values[id];
      std::string wanted = value.name;
      for (int i = 2; !wanted.empty() && !names.insert(value.name).second; ++i)
        value.name = fmt::format("{}_{}", wanted, i);
      renumbered.push_back(std::move(value));
    }
    id = to[id];
  };
  f.params = order;
  for (ir::ValueId& id : f.params) move(id);
  for (ir::Node& node : f.nodes) {
    for (ir::ValueId& id : node.operands) move(id);
    for (ir::ValueId& id : node.results) move(id);
  }
  for (ir::ValueId& id : f.results) move(id);
  f.values = std::move(renumbered);
  f.location = locate(site, name);
  auto out = std::make_shared<const ir::Function>(std::move(f));
  context->module.functions.push_back(out);
  return out;
}

const ir::Type& Tensor::type() const {
  if (!frame_) throw Error(error(Code::kMisuse, "a tensor without a value is used"));
  return frame_->builder.type(id_);
}

int64_t Tensor::size(int axis, Site site) const {
  int at = axis < 0 ? axis + rank() : axis;
  if (at < 0 || at >= rank())
    throw error_at(site, Code::kBadAttribute, "size: {} has no dimension {}", type().str(), axis);
  if (!shape()[at].is_static())
    throw error_at(site, Code::kBadAttribute, "size: dimension {} of {} is known only at run time", axis, type().str());
  return shape()[at].value();
}

Tensor::operator ir::Dim() const {
  Diagnostic d = error(Code::kBadAttribute,
                       "a shape depends on data: a size is {} of type {}, whose value is known only "
                       "when the program runs",
                       name_of(*this).empty() ? "a tensor" : "%" + name_of(*this), type().str());
  std::shared_ptr<Frame> frame = Frame::current();
  d.location = frame ? frame->builder.location() : nullptr;
  d.help =
      "sizes follow from the shapes of inputs: declare a symbol with an upper bound, and mask what lies after the "
      "data";
  throw Error(std::move(d));
}

Tensor Tensor::named(const std::string& name) const {
  if (!frame_) throw Error(error(Code::kMisuse, "a tensor without a value is named `{}`", name));
  frame_->builder.name_value({&frame_->builder, id_}, name);
  return *this;
}

}  // namespace nabla
