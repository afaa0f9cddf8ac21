#include "codegen/cuda/sketch_printer.h"

#include <algorithm>
#include <set>

#include "codegen/cpu/contract_printer.h"
#include "codegen/cpu/expr_printer.h"

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

constexpr const char* kPrelude =
#include "codegen/cuda/prelude_text.inc"
    ;

bool is_plain_index(const Store& s, int axis_id) {
  return std::any_of(s.indices.begin(), s.indices.end(),
                     [&](const Expr& i) { return i->kind == ExprKind::kAxis && i->ref == axis_id; });
}
// A store whose place is looked up may meet a place again even without a combiner: the last one wins.
bool may_meet(const Store& s) {
  return s.combiner != Combiner::kNone ||
         std::any_of(s.indices.begin(), s.indices.end(), [](const Expr& i) { return !as_affine(i); });
}
void collect_stores(const Body& b, std::vector<const Store*>& out) {
  for (const Stmt& s : b) {
    if (const Store* store = std::get_if<Store>(&s.node)) out.push_back(store);
    if (const For* f = std::get_if<For>(&s.node)) collect_stores(f->body, out);
    if (const Loop* l = std::get_if<Loop>(&s.node)) collect_stores(l->body, out);
  }
}

class SketchPrinter {
 public:
  explicit SketchPrinter(const Kernel& k) : k_(k), symbol_("nk_" + k.name) {
    for (char& c : symbol_)
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }

  CudaKernel run() {
    clear_accumulators();
    const Let* product = elementwise_product();
    if (product)
      print_product(*product);
    else if (can_be_cut())
      print_statements();
    else
      print_on_one_thread();
    out_.text = text_.take();
    return std::move(out_);
  }

 private:
  int64_t extent(int axis) const { return k_.axes[axis].extent.value(); }
  int64_t points(const std::vector<int>& axes) const {
    int64_t n = 1;
    for (int a : axes) n *= extent(a);
    return n;
  }
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }
  ExprPrinter printer() { return ExprPrinter(k_, places_, text_, next_temp_); }

  // ---- Launches
  void open_launch(const std::string& suffix, int64_t threads) {
    std::string params;
    for (const Buffer& b : k_.buffers)
      params += fmt::format("{}{}{}* {}", params.empty() ? "" : ", ", b.role == BufferRole::kIn ? "const " : "",
                            storage_type(b.dtype), cpp_name(b.name));
    if (!out_.launches.empty()) text_.line("");
    out_.launches.push_back({symbol_ + suffix, std::max<int64_t>(threads, 1)});
    text_.open(fmt::format("extern \"C\" __global__ void {}({}) {{", symbol_ + suffix, params));
  }
  // Opens a loop of all threads over `axes` flattened.
  void open_threads(const std::vector<int>& axes) {
    bool one = axes.size() == 1;
    std::string u = one ? axis_name(axes[0]) : "u_";
    text_.open(fmt::format("for (long {0} = nb_thread(); {0} < {1}; {0} += nb_threads()) {{", u, points(axes)));
    int64_t inner = points(axes);
    for (size_t i = 0; i < axes.size() && !one; ++i) {
      inner = extent(axes[i]) ? inner / extent(axes[i]) : 1;
      std::string at = inner == 1 ? "u_" : fmt::format("u_ / {}", inner);
      text_.line(
          fmt::format("const long {} = {}{};", axis_name(axes[i]), at, i ? fmt::format(" % {}", extent(axes[i])) : ""));
    }
  }
  void open_loops(const std::vector<int>& axes) {
    for (int a : axes) text_.open(fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", axis_name(a), extent(a)));
  }
  void close_loops(size_t count) {
    for (size_t i = 0; i < count; ++i) text_.close();
  }

  // Outputs that are only combined into start from the combiner's identity.
  void clear_accumulators() {
    std::vector<const Store*> stores;
    collect_stores(k_.body, stores);
    std::set<int> cleared;
    for (const Store* s : stores) {
      const Buffer& b = k_.buffers[s->buffer];
      if (s->combiner == Combiner::kNone || b.role != BufferRole::kOut || !cleared.insert(s->buffer).second) continue;
      int64_t size = ir::Type(b.dtype, b.shape).count().value();
      Expr start = identity_of(s->combiner, b.dtype);
      open_launch("_clear_" + b.name, size);
      text_.open(fmt::format("for (long u_ = nb_thread(); u_ < {}; u_ += nb_threads()) {{", size));
      text_.line(fmt::format("{}[u_] = nb_narrow({}{{}}, {});", cpp_name(b.name), storage_type(b.dtype),
                             number_text(b.dtype, start->number, start->integer)));
      close_loops(2);
    }
  }

  // A top-level product all of whose followers use the element that a thread has just computed; else null.
  const Let* elementwise_product() const {
    const Let* product = nullptr;
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node); let && let->contract) product = let;
    if (!product) return nullptr;
    const std::vector<int>& tile = k_.values[product->value].axes;
    auto own_element = [&](const Expr& e) {
      bool own = true;
      visit(e, [&](const Expr& x) {
        own &= x->kind != ExprKind::kValue || x->args.empty() || x->args == axes_as_indices(tile);
      });
      return own;
    };
    for (const Stmt& s : k_.body) {
      const Let* let = std::get_if<Let>(&s.node);
      const Store* store = std::get_if<Store>(&s.node);
      if (let && !own_element(let->expr)) return nullptr;
      if (let && let != product && let->combiner != Combiner::kNone) return nullptr;
      if (let && !k_.values[let->value].axes.empty() && k_.values[let->value].axes != tile) return nullptr;
      if (store && (store->axes != tile || may_meet(*store) || store->guard || !own_element(store->expr)))
        return nullptr;
      if (!let && !store) return nullptr;
    }
    return product;
  }
  void print_product(const Let& product) {
    const std::vector<int>& tile = k_.values[product.value].axes;
    open_launch("", points(tile));
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node); let && k_.values[let->value].axes.empty()) number(*let);
    open_threads(tile);
    for (const Stmt& s : k_.body) {
      if (const Let* let = std::get_if<Let>(&s.node); let && !k_.values[let->value].axes.empty()) number(*let);
      if (const Store* store = std::get_if<Store>(&s.node)) print_store(k_, *store, -1, places_, false, text_, next_temp_);
    }
    close_loops(2);
  }

  // Every thread repeats the numbers at the kernel's head. That is right where they read constant places of inputs:
  // a result may share memory with an operand only element by element.
  bool can_be_cut() const {
    int heads = 0, statements = 0;
    for (const Stmt& s : k_.body) {
      if (std::holds_alternative<Loop>(s.node)) return false;
      const Let* let = std::get_if<Let>(&s.node);
      if (!let && ++statements) continue;
      bool plain =
          statements == 0 && !let->contract && let->combiner == Combiner::kNone && k_.values[let->value].axes.empty();
      visit(let->expr,
            [&](const Expr& x) { plain &= x->kind != ExprKind::kLoad || k_.buffers[x->ref].role == BufferRole::kIn; });
      if (!plain) return false;
      ++heads;
    }
    return statements == 1 || heads == 0;
  }
  void print_statements() {
    size_t statements = std::count_if(k_.body.begin(), k_.body.end(),
                                      [](const Stmt& s) { return !std::holds_alternative<Let>(s.node); });
    int next = 0;
    for (const Stmt& s : k_.body) {
      if (std::holds_alternative<Let>(s.node)) continue;
      std::string suffix = statements == 1 ? "" : fmt::format("_{}", next++);
      if (const Store* store = std::get_if<Store>(&s.node))
        nest(suffix, {}, *store);
      else if (const For& f = std::get<For>(s.node);
               f.body.size() == 1 && std::holds_alternative<Store>(f.body[0].node))
        nest(suffix, f.axes, std::get<Store>(f.body[0].node));
      else
        nest(suffix, f.axes, f.body);
    }
  }
  // A lone store: its own axes are as good as those of the loop around it.
  void nest(const std::string& suffix, std::vector<int> axes, Store store) {
    axes.insert(axes.end(), store.axes.begin(), store.axes.end());
    store.axes.clear();
    Body body;
    body.push_back({std::move(store)});
    nest(suffix, axes, body);
  }
  void nest(const std::string& suffix, const std::vector<int>& axes, const Body& b) {
    std::vector<const Store*> stores;
    collect_stores(b, stores);
    std::vector<int> parallel, serial;
    for (int a : axes) {
      bool free = std::all_of(stores.begin(), stores.end(),
                              [&](const Store* s) { return !may_meet(*s) || is_plain_index(*s, a) || has_atomic(*s); });
      (free ? parallel : serial).push_back(a);
    }
    open_launch(suffix, points(parallel));
    if (parallel.empty()) text_.line("if (nb_thread() != 0) return;");
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node)) number(*let);
    if (!parallel.empty()) open_threads(parallel);
    open_loops(serial);
    parallel_ = parallel;
    body(b);
    parallel_.clear();
    close_loops(serial.size() + (parallel.empty() ? 1 : 2));
  }
  void print_on_one_thread() {
    open_launch("", 1);
    text_.line("if (nb_thread() != 0) return;");
    body(k_.body);
    text_.close();
  }
  bool has_atomic(const Store& s) const {
    DType d = k_.buffers[s.buffer].dtype;
    bool type = d == DType::kI32 || d == DType::kU32 || d == DType::kI64 || d == DType::kU64;
    return type && s.combiner != Combiner::kNone && s.combiner != Combiner::kProd;
  }

  // ---- Statements
  void body(const Body& b) {
    for (const Stmt& s : b) std::visit([&](const auto& node) { stmt(node); }, s.node);
  }
  void stmt(const For& f) {
    open_loops(f.axes);
    body(f.body);
    close_loops(f.axes.size());
  }
  void stmt(const Store& s) {
    Store one = s;
    one.axes.clear();
    open_loops(s.axes);
    bool shared =
        may_meet(s) && std::any_of(parallel_.begin(), parallel_.end(), [&](int a) { return !is_plain_index(s, a); });
    if (shared)
      atomic_store(one);
    else
      print_store(k_, one, -1, places_, false, text_, next_temp_);
    close_loops(s.axes.size());
  }
  void atomic_store(const Store& s) {
    ExprPrinter p = printer();
    const Buffer& b = k_.buffers[s.buffer];
    if (s.guard) text_.open(fmt::format("if ({}) {{", p.print(s.guard)));
    std::string value = p.print(s.expr);
    text_.line(fmt::format("nb_atomic_{}({} + {}, {});", scalar_of(s.combiner), cpp_name(b.name),
                           p.offset(s.indices, b.shape), value));
    if (s.guard) text_.close();
  }

  // acc = combiner over `reduce` of e; acc is declared here.
  void reduce(const Let& s, const std::string& acc) {
    DType d = k_.values[s.value].dtype;
    Expr start = identity_of(s.combiner, d);
    text_.line(fmt::format("{} {} = {};", compute_type(d), acc, number_text(d, start->number, start->integer)));
    open_loops(s.reduce);
    std::string text = printer().print(s.expr);
    bool plain_sum = s.combiner == Combiner::kSum && d != DType::kBool;
    text_.line(plain_sum
                   ? fmt::format("{} += {};", acc, text)
                   : fmt::format("{0} = nb_{1}<{2}>({0}, {3});", acc, scalar_of(s.combiner), compute_type(d), text));
    close_loops(s.reduce.size());
  }
  // A value of which the thread needs one element at a time.
  void number(const Let& s) {
    const ValueInfo& v = k_.values[s.value];
    std::string name = cpp_name(v.name);
    if (s.combiner != Combiner::kNone)
      reduce(s, name);
    else
      text_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), name, printer().print(s.expr)));
    places_[s.value] = {};
  }
  void stmt(const Let& s) {
    const ValueInfo& v = k_.values[s.value];
    if (v.axes.empty()) return number(s);
    std::string name = cpp_name(v.name);
    text_.line(fmt::format("{} {}[{}];", compute_type(v.dtype), name, points(v.axes)));
    open_loops(v.axes);
    if (s.combiner != Combiner::kNone) reduce(s, name + "_acc_");
    text_.line(fmt::format("{}[{}] = {};", name, element(v),
                           s.combiner != Combiner::kNone ? name + "_acc_" : printer().print(s.expr)));
    close_loops(v.axes.size());
    places_[s.value] = {false, true};
  }
  std::string element(const ValueInfo& v) {
    ir::Shape shape;
    for (int a : v.axes) shape.push_back(k_.axes[a].extent);
    return printer().offset(axes_as_indices(v.axes), shape);
  }

  void stmt(const Loop& l) {
    for (size_t i = 0; i < l.state.size(); ++i) {
      const ValueInfo& v = k_.values[l.state[i]];
      assign(v, cpp_name(v.name), l.init[i]);
      places_[l.state[i]] = {false, !v.axes.empty()};
    }
    std::string axis = axis_name(l.axis);
    text_.open(l.reverse ? fmt::format("for (long {0} = {1}; {0} >= 0; --{0}) {{", axis, extent(l.axis) - 1)
                         : fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", axis, extent(l.axis)));
    body(l.body);
    // All `next` expressions see the old state.
    for (size_t i = 0; i < l.state.size(); ++i) {
      const ValueInfo& v = k_.values[l.state[i]];
      assign(v, cpp_name(v.name) + "_next_", l.next[i]);
    }
    for (int state : l.state) {
      const ValueInfo& v = k_.values[state];
      std::string name = cpp_name(v.name), at = v.axes.empty() ? "" : fmt::format("[{}]", element(v));
      open_loops(v.axes);
      text_.line(fmt::format("{0}{1} = {0}_next_{1};", name, at));
      close_loops(v.axes.size());
    }
    text_.close();
  }
  // Declares `name`, a number or a row, with the value e.
  void assign(const ValueInfo& v, const std::string& name, const Expr& e) {
    std::string type = compute_type(v.dtype);
    if (v.axes.empty()) {
      std::string text = printer().print(e);
      return text_.line(fmt::format("{} {} = {};", type, name, text));
    }
    text_.line(fmt::format("{} {}[{}];", type, name, points(v.axes)));
    open_loops(v.axes);
    std::string text = printer().print(e);
    text_.line(fmt::format("{}[{}] = {};", name, element(v), text));
    close_loops(v.axes.size());
  }

  const Kernel& k_;
  std::string symbol_;
  CudaKernel out_;
  CppWriter text_;
  std::map<int, ValuePlace> places_;
  std::vector<int> parallel_;  // axes of the open launch that threads share out
  int next_temp_ = 0;
};

}  // namespace

CudaKernel print_cuda(const Kernel& kernel) { return SketchPrinter(kernel).run(); }

const char* cuda_prelude() { return kPrelude; }

}  // namespace nabla::codegen
