// Printing and checking of kernels.
#include "ir/kernel_ir/kernel.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ir/kernel_ir/grid_text.h"
#include "ir/kernel_ir/procedure_template.h"
#include "ir/kernel_ir/text.h"
#include "ir/lexer.h"

namespace nabla::kernel_ir {
namespace {

constexpr const char* kRoles[] = {"in", "out", "inout", "workspace"};

class KernelPrinter {
 public:
  explicit KernelPrinter(const Kernel& k) : k_(k) {
    names_.axis = [this](int a) { return k_.axes[a].name; };
    names_.tensor = [this](int b) { return k_.buffers[b].name; };
    names_.value = [this](int v) { return k_.values[v].name; };
  }

  std::string run() {
    out_ = "kernel @" + k_.name + "(";
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const Buffer& b = k_.buffers[i];
      std::string shape;
      for (const ir::Dim& d : b.shape) shape += (shape.empty() ? "" : ",") + size(d);
      out_ += fmt::format("{}{} {}: {}[{}]", i ? ", " : "", kRoles[static_cast<int>(b.role)], b.name, name_of(b.dtype),
                          shape);
    }
    out_ += ") {\n";
    if (!k_.axes.empty()) {
      out_ += "  axes ";
      for (size_t i = 0; i < k_.axes.size(); ++i)
        out_ += fmt::format("{}{} = {}", i ? ", " : "", k_.axes[i].name, size(k_.axes[i].extent));
      out_ += "\n";
    }
    if (k_.schedule)
      std::visit([&](const auto& s) { schedule(s); }, *k_.schedule);
    else
      out_ += "  schedule none\n";
    if (k_.procedure) procedure(*k_.procedure);
    body(k_.body, 1);
    return out_ + "}\n";
  }
  std::string mapping(const Grid& g) {
    return std::visit([&](const auto& m) { return text(m); }, g.mapping);
  }

 private:
  void schedule(const CpuSchedule& s) {
    out_ += fmt::format("  schedule unit {} units {} threads {}", s.unit, size(s.units), s.max_threads);
    if (s.vector_axis >= 0) out_ += " vector " + k_.axes[s.vector_axis].name;
    out_ += "\n";
  }
  void schedule(const CudaSchedule& s) {
    out_ += "  schedule cuda";
    if (s.procedure_template) out_ += fmt::format(" template {}", name_of(*s.procedure_template));
    if (!s.work.is(1)) out_ += " work " + size(s.work);
    out_ += "\n";
    for (const Grid& g : s.grids) {
      out_ += fmt::format("    grid {} blocks {} threads {}", mapping(g), size(g.blocks), g.threads);
      if (g.shared_bytes > 0) out_ += fmt::format(" shared {}", g.shared_bytes);
      if (g.beside > 1) out_ += fmt::format(" beside {}", g.beside);
      out_ += "\n";
    }
  }
  std::string text(const ClearMapping& m) { return "clear " + k_.buffers[m.buffer].name; }
  std::string text(const TeamMapping& m) {
    return fmt::format("team {}{}{}{}", m.team, along("parallel", m.parallel), along("serial", m.serial),
                       m.pack > 1 ? fmt::format(" pack {}", m.pack) : "");
  }
  std::string text(const TurnMapping& m) { return fmt::format("turn{} across {}", along("parallel", m.parallel), axes({m.across})); }
  std::string text(const ScatterMapping& m) {
    return fmt::format("scatter{}{} tile_columns {} row_tiles {}", along("parallel", m.parallel),
                       along("serial", m.serial), m.tile_columns, m.row_tiles);
  }
  std::string text(const ProductMapping& m) {
    using By = ProductMapping::By;
    const char* by = m.by == By::kWarpgroups ? " warpgroups" : m.by == By::kWarps ? " tensor_cores" : "";
    return fmt::format("product{} tile {}, {} stages {}", by, m.tile_rows, m.tile_columns, m.stages);
  }
  std::string text(const BlockMapping&) { return "block"; }
  std::string text(const TemplateMapping& m) {
    return fmt::format("template{} team {} tile {}, {}", m.warpgroups ? " warpgroups" : "", m.team, m.tile_rows,
                       m.tile_columns);
  }
  std::string along(const char* how, const std::vector<int>& ids) {
    return ids.empty() ? "" : fmt::format(" {} {}", how, axes(ids));
  }
  void procedure(const Procedure& p) {
    std::vector<std::string> names = p.names();
    out_ += fmt::format("  procedure {}(", p.def->name);
    for (size_t i = 0; i < p.numbers.size(); ++i)
      out_ += fmt::format("{}{} = {}", i ? ", " : "", names[i], size(p.numbers[i]));
    out_ += ")\n";
    if (p.user) user(*p.user);
  }
  void user(const UserCode& u) {
    out_ += fmt::format("  calls {}", u.name);
    if (u.type) out_ += fmt::format(" T {}", name_of(*u.type));
    if (u.rows >= 0) {
      out_ += fmt::format(" rows {} of ", u.sizes[u.rows]);
      bool first = true;
      for (size_t i = 0; i < u.by_rows.size(); ++i)
        if (u.by_rows[i]) out_ += (std::exchange(first, false) ? "" : ", ") + k_.buffers[i].name;
    }
    out_ += "\n";
    if (!u.cpp.text.empty()) out_ += "  cpp" + place(u.cpp);
    if (!u.cuda.text.empty())
      out_ += fmt::format("  cuda threads {} shared {}", u.cuda_threads, u.cuda_shared_bytes) + place(u.cuda);
  }
  static std::string place(const UserText& t) {
    return fmt::format(" from {} line {} text {}\n", ir::quoted(t.file), t.line, ir::quoted(t.text));
  }
  static std::string size(const ir::Dim& d) { return d.is_static() ? d.str() : "dim(" + d.str() + ")"; }
  std::string axes(const std::vector<int>& ids) {
    std::string s;
    for (int a : ids) s += (s.empty() ? "" : ", ") + k_.axes[a].name;
    return s;
  }
  std::string text(const Expr& e) { return to_text(e, names_); }
  std::string value_decl(int v) {
    const ValueInfo& info = k_.values[v];
    std::string s = info.name;
    if (!info.axes.empty()) s += "[" + axes(info.axes) + "]";
    return s + ": " + std::string(name_of(info.dtype));
  }
  void line(int depth, const std::string& s) { out_ += std::string(2 * depth, ' ') + s + "\n"; }
  void body(const Body& b, int depth) {
    for (const Stmt& s : b) std::visit([&](const auto& node) { stmt(node, depth); }, s.node);
  }
  void stmt(const Let& s, int depth) {
    std::string reduce =
        s.combiner == Combiner::kNone ? "" : fmt::format("{}({}) ", name_of(s.combiner), axes(s.reduce));
    line(depth,
         fmt::format("{} {} = {}{}", s.contract ? "contract" : "let", value_decl(s.value), reduce, text(s.expr)));
  }
  void stmt(const Store& s, int depth) {
    std::string at;
    for (const Expr& i : s.indices) at += (at.empty() ? "" : ", ") + text(i);
    line(depth, fmt::format("store {}[{}]{} {}= {}{}", k_.buffers[s.buffer].name, at,
                            s.axes.empty() ? "" : " over " + axes(s.axes),
                            s.combiner == Combiner::kNone ? "" : name_of(s.combiner), text(s.expr),
                            s.guard ? " if " + text(s.guard) : ""));
  }
  void stmt(const For& s, int depth) {
    line(depth, "for " + axes(s.axes) + " {");
    body(s.body, depth + 1);
    line(depth, "}");
  }
  void stmt(const Loop& s, int depth) {
    std::string carry;
    for (size_t i = 0; i < s.state.size(); ++i)
      carry += (i ? ", " : "") + value_decl(s.state[i]) + " = " + text(s.init[i]);
    line(depth, fmt::format("loop {}{} carry ({}) {{", k_.axes[s.axis].name, s.reverse ? " reverse" : "", carry));
    body(s.body, depth + 1);
    for (size_t i = 0; i < s.state.size(); ++i)
      line(depth + 1, "next " + k_.values[s.state[i]].name + " = " + text(s.next[i]));
    line(depth, "}");
  }

  const Kernel& k_;
  ExprNames names_;
  std::string out_;
};

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k) {}
  Status run() {
    for (const Axis& a : k_.axes)
      if (a.extent.bounds().min < 0) return fail("axis {} has the extent {}", a.name, a.extent.str());
    if (k_.procedure && !k_.body.empty()) return fail("statements beside a procedure");
    if (k_.procedure && k_.procedure->user) return user(*k_.procedure);
    return body(k_.body, {}, {});
  }

 private:
  // Every buffer is passed on as it is; those that are cut have a first dimension of `outer`.
  Status user(const Procedure& p) {
    const UserCode& u = *p.user;
    if (!p.inner().is(1) || (u.rows < 0 && !p.outer().is(1)))
      return fail("{} is called for {} rows of {}", u.name, p.outer().str(), p.inner().str());
    if (u.rows >= 0 && !(p.numbers[3 + u.rows] == p.outer()))
      return fail("{} rows for {} = {}", p.outer().str(), u.sizes[u.rows], p.numbers[3 + u.rows].str());
    if (!u.cuda.text.empty() && p.cuda_blocks().bounds().min < 1)
      return fail("{} runs in {} blocks", u.name, p.cuda_blocks().str());
    if (u.cuda_threads < 1 || u.cuda_threads > 1024 || u.cuda_shared_bytes < 0)
      return fail("blocks of {} have {} threads and {} bytes of shared memory", u.name, u.cuda_threads,
                  u.cuda_shared_bytes);
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const Buffer& b = k_.buffers[i];
      if (b.role != BufferRole::kIn && b.role != BufferRole::kOut) return fail("{} is neither in nor out", b.name);
      if (u.by_rows[i] && (b.shape.empty() || !(b.shape[0] == p.outer())))
        return fail("{} has no {} rows", b.name, p.outer().str());
    }
    return Ok{};
  }
  using Set = std::set<int>;
  template <class... Args>
  Diagnostic fail(fmt::format_string<Args...> f, Args&&... args) const {
    return error(Code::kInvalidModule, "kernel @{}: {}", k_.name, fmt::format(f, std::forward<Args>(args)...));
  }
  static Set with(Set s, const std::vector<int>& more) {
    s.insert(more.begin(), more.end());
    return s;
  }
  Status expr(const Expr& e, const Set& axes, const Set& values) {
    Status status = Ok{};
    visit(e, [&](const Expr& x) {
      if (!status.ok()) return;
      if (x->kind == ExprKind::kAxis && !axes.count(x->ref))
        status = fail("axis {} is used outside its loop", k_.axes[x->ref].name);
      if (x->kind == ExprKind::kValue) {
        const ValueInfo& v = k_.values[x->ref];
        if (!values.count(x->ref))
          status = fail("value {} is used before it is defined", v.name);
        else if (v.axes.size() != x->args.size())
          status = fail("value {} takes {} indices", v.name, v.axes.size());
        else if (v.dtype != x->dtype)
          status = fail("value {} is {}", v.name, name_of(v.dtype));
      }
      if (x->kind == ExprKind::kLoad) {
        const Buffer& b = k_.buffers[x->ref];
        if (b.shape.size() != x->args.size())
          status = fail("buffer {} takes {} indices", b.name, b.shape.size());
        else if (b.dtype != x->dtype)
          status = fail("buffer {} is {}", b.name, name_of(b.dtype));
      }
    });
    return status;
  }
  Status dtype(const Expr& e, DType want, const std::string& what) {
    if (e->dtype == want) return Ok{};
    return fail("{} is {}, its expression {}", what, name_of(want), name_of(e->dtype));
  }
  Status combiner(Combiner how, DType type, const std::string& what) {
    if ((how != Combiner::kAnd && how != Combiner::kOr) || !is_float(type)) return Ok{};
    return fail("{} of {}, which is {}: bits are of integers and bools", name_of(how), what, name_of(type));
  }
  Status body(const Body& b, Set axes, Set values) {
    for (const Stmt& s : b) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        const ValueInfo& v = k_.values[let->value];
        NABLA_TRY(expr(let->expr, with(with(axes, v.axes), let->reduce), values));
        NABLA_TRY(dtype(let->expr, v.dtype, "value " + v.name));
        NABLA_TRY(combiner(let->combiner, v.dtype, v.name));
        values.insert(let->value);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        const Buffer& target = k_.buffers[store->buffer];
        Set inner = with(axes, store->axes);
        if (target.role == BufferRole::kIn) return fail("store to the input {}", target.name);
        if (target.shape.size() != store->indices.size())
          return fail("store to {} with {} indices", target.name, store->indices.size());
        for (const Expr& i : store->indices) NABLA_TRY(expr(i, inner, values));
        NABLA_TRY(expr(store->expr, inner, values));
        NABLA_TRY(dtype(store->expr, target.dtype, "buffer " + target.name));
        NABLA_TRY(combiner(store->combiner, target.dtype, target.name));
        if (store->guard) NABLA_TRY(expr(store->guard, inner, values));
      } else if (const For* loop = std::get_if<For>(&s.node)) {
        NABLA_TRY(body(loop->body, with(axes, loop->axes), values));
      } else {
        const Loop& l = std::get<Loop>(s.node);
        for (size_t i = 0; i < l.state.size(); ++i) {
          NABLA_TRY(expr(l.init[i], with(axes, k_.values[l.state[i]].axes), values));
          NABLA_TRY(dtype(l.init[i], k_.values[l.state[i]].dtype, "state " + k_.values[l.state[i]].name));
        }
        values.insert(l.state.begin(), l.state.end());
        NABLA_TRY(body(l.body, with(axes, {l.axis}), values));
        Set inside = values;
        for (const Stmt& inner : l.body)
          if (const Let* let = std::get_if<Let>(&inner.node)) inside.insert(let->value);
        for (size_t i = 0; i < l.state.size(); ++i)
          NABLA_TRY(expr(l.next[i], with(with(axes, {l.axis}), k_.values[l.state[i]].axes), inside));
      }
    }
    return Ok{};
  }
  const Kernel& k_;
};

// Every expression of a body, replaced.
void map_expressions(Body& body, const std::function<Expr(const Expr&)>& f) {
  auto change = [&](Expr& e) {
    if (e) e = f(e);
  };
  for (Stmt& s : body) {
    if (Let* let = std::get_if<Let>(&s.node)) {
      change(let->expr);
    } else if (Store* store = std::get_if<Store>(&s.node)) {
      for (Expr& i : store->indices) change(i);
      change(store->expr);
      change(store->guard);
    } else if (For* loop = std::get_if<For>(&s.node)) {
      map_expressions(loop->body, f);
    } else {
      Loop& l = std::get<Loop>(s.node);
      for (Expr& e : l.init) change(e);
      map_expressions(l.body, f);
      for (Expr& e : l.next) change(e);
    }
  }
}

}  // namespace

const CpuSchedule& cpu_schedule_of(const Kernel& kernel) {
  NABLA_CHECK(kernel.schedule, "kernel @{} has no schedule", kernel.name);
  const CpuSchedule* s = std::get_if<CpuSchedule>(&*kernel.schedule);
  NABLA_CHECK(s, "kernel @{} is scheduled for a GPU", kernel.name);
  return *s;
}
const CudaSchedule& cuda_schedule_of(const Kernel& kernel) {
  NABLA_CHECK(kernel.schedule, "kernel @{} has no schedule", kernel.name);
  const CudaSchedule* s = std::get_if<CudaSchedule>(&*kernel.schedule);
  NABLA_CHECK(s, "kernel @{} is scheduled for a CPU", kernel.name);
  return *s;
}

namespace {

void resolve_sizes(Schedule& schedule, const std::function<ir::Dim(const ir::Dim&)>& resolve) {
  if (CpuSchedule* cpu = std::get_if<CpuSchedule>(&schedule)) {
    cpu->units = resolve(cpu->units);
    return;
  }
  CudaSchedule& cuda = std::get<CudaSchedule>(schedule);
  cuda.work = resolve(cuda.work);
  for (Grid& g : cuda.grids) g.blocks = resolve(g.blocks);
}

}  // namespace

Kernel with_sizes(const Kernel& kernel, const std::function<ir::Dim(const ir::Dim&)>& resolve) {
  Kernel out = kernel;
  for (Buffer& b : out.buffers)
    for (ir::Dim& d : b.shape) d = resolve(d);
  for (Axis& a : out.axes) a.extent = resolve(a.extent);
  if (out.schedule) resolve_sizes(*out.schedule, resolve);
  if (out.procedure)
    for (ir::Dim& d : out.procedure->numbers) d = resolve(d);
  map_expressions(out.body, [&](const Expr& e) {
    return rewrite(e, [&](const Expr& x) { return x->kind == ExprKind::kDim ? dim(resolve(x->dim)) : Expr(); });
  });
  return out;
}

std::vector<ir::SymbolRef> symbols_of(const Kernel& kernel) {
  std::vector<ir::SymbolRef> out;
  with_sizes(kernel, [&](const ir::Dim& d) {
    for (const ir::SymbolRef& s : d.symbols())
      if (std::none_of(out.begin(), out.end(), [&](const ir::SymbolRef& t) { return t->name == s->name; }))
        out.push_back(s);
    return d;
  });
  return out;
}

namespace {

// Where infinities and NaN in a kernel's results can come from.
struct Specials {
  bool infinity = false, nan = false;  // one of its constants is such a number
  bool computed = false;               // it computes floats: finite ones may give such a number

  void add(const Expr& e) {
    if (!e) return;
    visit(e, [&](const Expr& x) {
      if (!is_float(x->dtype)) return;
      const bool constant = x->kind == ExprKind::kConst;
      infinity |= constant && std::isinf(x->number), nan |= constant && std::isnan(x->number);
      computed |= x->kind == ExprKind::kCall && std::find(std::begin(kExact), std::end(kExact), x->fn->name) == std::end(kExact);
    });
  }
  void add(const Body& body) {
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        add(let->expr), computed |= sums(let->combiner);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        add(store->expr), computed |= sums(store->combiner);
      } else if (const For* loop = std::get_if<For>(&s.node)) {
        add(loop->body);
      } else {
        add(std::get<Loop>(s.node).body);
        for (const Expr& e : std::get<Loop>(s.node).next) add(e);
      }
    }
  }

 private:
  static constexpr std::string_view kExact[] = {"select", "neg", "abs", "maximum", "minimum"};
  static bool sums(Combiner c) { return c == Combiner::kSum || c == Combiner::kProd; }
};

}  // namespace

WantedSpecials wanted_specials(const Kernel& kernel) {
  Specials found;
  found.add(kernel.body);
  const bool moves = !kernel.procedure && !found.computed;
  return {found.infinity || moves, found.nan || moves};
}

std::string print(const Kernel& kernel) { return KernelPrinter(kernel).run(); }
std::string mapping_text(const Kernel& kernel, const Grid& grid) { return KernelPrinter(kernel).mapping(grid); }
Status verify(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace nabla::kernel_ir
