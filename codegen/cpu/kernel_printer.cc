#include "codegen/cpu/kernel_printer.h"

#include <algorithm>

#include "codegen/cpu/contract_printer.h"
#include "codegen/cpu/narrow.h"
#include "codegen/print/expr_printer.h"
#include "codegen/print/procedure_call.h"
#include "codegen/print/store_printer.h"

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

class KernelPrinter {
 public:
  KernelPrinter(Kernel k, const ir::Target& target) : k_(std::move(k)), target_(target) {}

  std::string run(const std::string& symbol) {
    out_.large_kernel = taken_in(k_.body) > kMostTakenIn;
    std::vector<ir::SymbolRef> symbols = symbols_of(k_);
    out_.open(fmt::format("extern \"C\" void {}(void* const* args, const long*{}, long begin, long end) {{", symbol,
                          symbols.empty() ? "" : " extents"));
    for (size_t i = 0; i < symbols.size(); ++i)
      out_.line(fmt::format("const long {} = extents[{}];", symbol_variable(*symbols[i]), i));
    for (size_t i = 0; i < k_.buffers.size(); ++i) {
      const Buffer& b = k_.buffers[i];
      const char* constness = b.role == BufferRole::kIn ? "const " : "";
      out_.line(fmt::format("{}{}* {} = ({}{}*)args[{}];  // {}", constness, storage_type(b.dtype), cpp_name(b.name),
                            constness, storage_type(b.dtype), i,
                            b.dtype == DType::kF32 ? ir::str(b.shape) : ir::Type(b.dtype, b.shape).str()));
    }
    clear_accumulators(k_.body);
    if (k_.procedure) {
      print_procedure(k_, cpu_schedule_of(k_).unit, "for (long u_ = begin; u_ < end; ++u_) {", out_);
    } else if (is_contract()) {
      print_contract(k_, target_, out_, next_temp_);
    } else {
      for (const Stmt& s : k_.body) {
        const Store* lone = lone_store(s);
        std::string apart = lone ? in_place_condition(k_, *lone) : "";
        if (!apart.empty()) out_.open(apart);
        if (const For* f = std::get_if<For>(&s.node))
          outer_for(*f);
        else
          stmt(s);
        if (!apart.empty()) out_.close();
      }
    }
    if (streams_) out_.line("nb_streamed();");
    out_.close();
    return out_.take();
  }

 private:
  // Mathematical functions and loads: some milliseconds of the host compiler each, for whole vectors and for the tail.
  static constexpr int kMostTakenIn = 24;
  static int taken_in(const Body& body) {
    int n = 0;
    auto count = [&](const Expr& e) {
      if (e)
        kernel_ir::visit(e, [&](const Expr& x) {
          n += x->kind == ExprKind::kLoad || (x->kind == ExprKind::kCall && is_math(x->fn->name));
        });
    };
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        count(let->expr);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        count(store->expr);
      } else if (const For* f = std::get_if<For>(&s.node)) {
        n += taken_in(f->body);
      } else if (const Loop* l = std::get_if<Loop>(&s.node)) {
        n += taken_in(l->body);
        for (const Expr& e : l->next) count(e);
      }
    }
    return n;
  }

  // The only statement of a loop, or one outside of loops.
  static const Store* lone_store(const Stmt& s) {
    const For* f = std::get_if<For>(&s.node);
    if (f && f->body.size() != 1) return nullptr;
    return std::get_if<Store>(f ? &f->body[0].node : &s.node);
  }

  bool is_contract() const {
    return std::any_of(k_.body.begin(), k_.body.end(), [](const Stmt& s) {
      const Let* let = std::get_if<Let>(&s.node);
      return let && let->contract;
    });
  }
  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  std::string extent(int axis) const { return size_text(size(axis)); }
  int64_t most(int axis) const { return size(axis).bounds().max; }  // for arrays and for choices
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }

  // Outputs that are only combined into start from the combiner's identity; such kernels have one unit.
  void clear_accumulators(const Body& b) {
    for (const Stmt& s : b) {
      if (const For* f = std::get_if<For>(&s.node)) clear_accumulators(f->body);
      if (const Loop* l = std::get_if<Loop>(&s.node)) clear_accumulators(l->body);
      const Store* store = std::get_if<Store>(&s.node);
      if (!store || store->combiner == Combiner::kNone || k_.buffers[store->buffer].role != BufferRole::kOut) continue;
      if (!cleared_.insert(store->buffer).second) continue;
      const Buffer& target = k_.buffers[store->buffer];
      Expr start = identity_of(store->combiner, target.dtype);
      ir::Dim size = ir::Type(target.dtype, target.shape).count();
      // With several units each clears what it owns: the slices of its own outermost iterations.
      std::string range = cpu_schedule_of(k_).units.is(1) ? fmt::format("long i = 0; i < {}; ++i", size_text(size))
                                                  : fmt::format("long i = begin * {0}; i < end * {0}; ++i",
                                                                size_text(ir::Dim::floordiv(size, cpu_schedule_of(k_).units)));
      out_.line(fmt::format("for ({}) {}[i] = nb_narrow({}{{}}, {});", range, cpp_name(target.name),
                            storage_type(target.dtype), number_text(target.dtype, start->number, start->integer)));
    }
  }

  // ---- Loops over units
  void outer_for(const For& f) {
    int lane = cpu_schedule_of(k_).vector_axis;
    bool lanes_here = std::find(f.axes.begin(), f.axes.end(), lane) != f.axes.end();
    std::vector<int> serial;
    ir::Dim total = 1;
    for (int a : f.axes)
      if (!lanes_here || a != lane) serial.push_back(a), total = total * size(a);
    if (total.is(0)) return;  // an empty tensor
    const CpuSchedule& s = cpu_schedule_of(k_);
    if (serial.empty()) {  // one flat axis: units are ranges of lanes
      lane_loop(f, lane, fmt::format("begin * {}", s.unit),
                fmt::format("(end * {0} < {1} ? end * {0} : {1})", s.unit, extent(lane)));
      return;
    }
    std::string u = serial.size() == 1 ? axis_name(serial[0]) : "u_";
    std::string last = s.units * s.unit == total
                           ? fmt::format("end * {}", s.unit)
                           : fmt::format("(end * {0} < {1} ? end * {0} : {1})", s.unit, size_text(total));
    out_.open(fmt::format("for (long {0} = begin * {1}; {0} < {2}; ++{0}) {{", u, s.unit, last));
    if (serial.size() > 1) {
      for (size_t i = 0; i < serial.size(); ++i) {
        ir::Dim inner = 1;
        for (size_t j = i + 1; j < serial.size(); ++j) inner = inner * size(serial[j]);
        std::string value = inner.is(1) ? "u_" : "u_ / " + size_text(inner);
        if (i > 0) value = fmt::format("{} % {}", value, extent(serial[i]));
        out_.line(fmt::format("const long {} = {};", axis_name(serial[i]), value));
      }
    }
    if (lanes_here)
      lane_loop(f, lane, "0", extent(lane));
    else
      body(f.body);
    out_.close();
  }

  // The whole body with neighbouring positions of `lane` in the lanes of vectors.
  void lane_loop(const For& f, int lane, const std::string& first, const std::string& last) {
    out_.open(fmt::format("nb_for({}, {}, [&](long {}, auto n) NB_INLINE {{", first, last, axis_name(lane)));
    outer_lane_ = lane;
    body(f.body);
    outer_lane_ = -1;
    out_.close("});");
  }

  void body(const Body& b) {
    for (const Stmt& s : b) stmt(s);
  }
  void stmt(const Stmt& s) {
    std::visit([&](const auto& node) { stmt(node); }, s.node);
  }
  void stmt(const For& f) {
    open_loops(f.axes);
    body(f.body);
    close_loops(f.axes);
  }
  void open_loops(const std::vector<int>& axes) {
    for (int a : axes) out_.open(fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", axis_name(a), extent(a)));
  }
  void close_loops(const std::vector<int>& axes) {
    for (size_t i = 0; i < axes.size(); ++i) out_.close();
  }

  // ---- The axis whose neighbours go to lanes, among a statement's own axes
  struct Score {
    int bad = 0, good = 0;
  };
  void score_access(const std::vector<Expr>& indices, const ir::Shape& shape, int axis, Score& score) const {
    ir::Dim stride = 1, total = 0;
    for (int d = static_cast<int>(indices.size()) - 1; d >= 0; --d) {
      if (uses_axis(indices[d], axis)) {
        std::optional<Affine> affine = as_affine(indices[d]);
        if (!affine) return void(score.bad += 2);
        total = total + stride * affine->of(axis);
      }
      stride = stride * shape[d];
    }
    if (total.is(1))
      ++score.good;
    else if (!total.is(0))
      ++score.bad;
  }
  ir::Shape value_shape(int v) const {
    ir::Shape shape;
    for (int a : k_.values[v].axes) shape.push_back(k_.axes[a].extent);
    return shape;
  }
  void score_expr(const Expr& e, int axis, Score& score) const {
    visit(e, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad) {
        score_access(x->args, k_.buffers[x->ref].shape, axis, score);
        if (x->guard && uses_axis(x->guard, axis)) ++score.bad;
      }
      if (x->kind == ExprKind::kValue) score_access(x->args, value_shape(x->ref), axis, score);
    });
  }
  // Of the choice of lanes, with which the order of a sum changes: no size counts where bits must not depend on it.
  int64_t weight(int axis) const { return target_.deterministic ? ir::kAnySize : most(axis); }
  int choose_lane(const std::vector<int>& candidates, const Expr& e, const Store* store) const {
    int best = -1;
    Score best_score;
    for (int a : candidates) {
      Score s;
      score_expr(e, a, s);
      if (store) {
        score_access(store->indices, k_.buffers[store->buffer].shape, a, s);
        bool moves =
            std::any_of(store->indices.begin(), store->indices.end(), [&](const Expr& i) { return uses_axis(i, a); });
        if (!moves) s.bad += 3;
        if (store->guard && uses_axis(store->guard, a)) ++s.bad;
      }
      if (weight(a) < target_.lanes(DType::kF32) / 4) ++s.bad;
      bool better = best < 0 || s.bad < best_score.bad || (s.bad == best_score.bad && s.good > best_score.good) ||
                    (s.bad == best_score.bad && s.good == best_score.good && weight(a) >= weight(best));
      if (better) best = a, best_score = s;
    }
    return best;
  }

  // ---- Statements
  static std::vector<int> without(std::vector<int> axes, int axis) {
    std::erase(axes, axis);
    return axes;
  }
  static std::string op_name(Combiner c) { return fmt::format("nb_{}_op{{}}", scalar_of(c)); }
  // Accumulators of 16-bit floats are floats, as everything in registers is.
  std::string identity(Combiner c, DType d) const {
    Expr e = identity_of(c, d);
    return number_text(d, e->number, e->integer);
  }

  // Whether the combination is a sum whose order no choice may change: reduced axes stand in their order then, the last
  // of them, which may have lanes, innermost.
  bool is_fixed(Combiner c, DType d) const {
    return target_.deterministic && is_float(d) && (c == Combiner::kSum || c == Combiner::kProd);
  }
  // The reduced axes that may go to lanes.
  std::vector<int> lane_candidates(Combiner c, DType d, const std::vector<int>& reduce) const {
    return is_fixed(c, d) && !reduce.empty() ? std::vector<int>{reduce.back()} : reduce;
  }

  // combiner over `reduce` of e, printed as nested folds; `lane` (one of reduce, or -1) innermost.
  std::string reduction(Combiner c, DType d, const std::vector<int>& reduce, int lane, const Expr& e,
                        ExprPrinter& outer) {
    std::vector<int> serial = without(reduce, lane);
    bool vector = lane < 0 && outer.varies(e);
    std::string type = vector ? vector_type(d) : compute_type(d);
    std::string start = vector ? fmt::format("nb_splat<{}>({})", type, identity(c, d)) : identity(c, d);
    std::string close;
    for (size_t i = 0; i < serial.size(); ++i) {
      size_t within = serial.size() - i - 1 + (lane >= 0 ? 1 : 0);
      // A fold has its body five times, which multiplies: what is around two others has it once. So has all but the last of
      // the axes of a fixed sum.
      const bool once = within >= (is_fixed(c, d) ? 1 : 2);
      const char* fold = once ? "nb_fold_once" : is_fixed(c, d) ? "nb_fold_fixed" : "nb_fold";
      out_.open(fmt::format("{}{}<{}>({}, {}, {}, [&](long {}) NB_INLINE {{", fold_prefix_, fold, type, op_name(c), start,
                            extent(serial[i]), axis_name(serial[i])));
      close += "})";
      fold_prefix_ = "return ";
    }
    if (lane >= 0) {
      const char* form = d == DType::kBool ? "_mask" : is_fixed(c, d) ? "_fixed" : "";
      out_.open(fmt::format("{}nb_reduce{}<{}>({}, {}, {}, [&](long {}, auto n) NB_INLINE {{", fold_prefix_, form, vector_type(d),
                            op_name(c), identity(c, d), extent(lane), axis_name(lane)));
      close += "})";
    }
    ExprPrinter inner(k_, places_, out_, next_temp_);
    inner.lane_axis = lane >= 0 ? lane : outer.lane_axis;
    std::string text = lane >= 0 || vector ? inner.print_vector(e) : inner.print(e);
    out_.line(fmt::format("return {};", text));
    for (size_t i = 0; i < close.size() / 2; ++i) out_.close("});");
    return type;
  }

  void stmt(const Let& s) {
    const ValueInfo& v = k_.values[s.value];
    std::string name = cpp_name(v.name);
    if (!v.axes.empty()) return row_let(s, v, name);
    ExprPrinter p = printer(outer_lane_);
    ValuePlace place;
    place.vector = p.varies(s.expr);
    std::string type = place.vector ? vector_type(v.dtype) : compute_type(v.dtype);
    if (s.combiner == Combiner::kNone) {
      out_.line(fmt::format("const {} {} = {};", type, name, p.print(s.expr)));
    } else {
      int lane = outer_lane_ >= 0 || place.vector ? -1 : choose_lane(lane_candidates(s.combiner, v.dtype, s.reduce), s.expr, nullptr);
      fold_prefix_ = fmt::format("const {} {} = ", type, name);
      reduction(s.combiner, v.dtype, s.reduce, lane, s.expr, p);
    }
    places_[s.value] = place;
  }

  void row_let(const Let& s, const ValueInfo& v, const std::string& name) {
    int64_t count = room(v);
    ValuePlace place;
    place.row = true;
    std::string at = row_offset(v);
    if (outer_lane_ >= 0) {  // an array of vectors
      place.vector = true;
      out_.line(fmt::format("{} {}[{}];", vector_type(v.dtype), name, count));
      open_loops(v.axes);
      ExprPrinter p = printer(outer_lane_);
      if (s.combiner == Combiner::kNone) {
        std::string text = p.print_vector(s.expr);
        out_.line(fmt::format("{}[{}] = {};", name, at, text));
      } else {
        bool varies = p.varies(s.expr);
        fold_prefix_ = varies ? fmt::format("{}[{}] = ", name, at) : fmt::format("const auto {}_ = ", name);
        reduction(s.combiner, v.dtype, s.reduce, -1, s.expr, p);
        if (!varies) out_.line(fmt::format("{0}[{1}] = nb_splat<{2}>({0}_);", name, at, vector_type(v.dtype)));
      }
      close_loops(v.axes);
      places_[s.value] = place;
      return;
    }
    out_.line(fmt::format("alignas(64) {} {}[{}];", compute_type(v.dtype), name, count));
    std::vector<int> candidates = v.axes, reduced = lane_candidates(s.combiner, v.dtype, s.reduce);
    candidates.insert(candidates.end(), reduced.begin(), reduced.end());
    int lane = choose_lane(candidates, s.expr, nullptr);
    bool own = std::find(v.axes.begin(), v.axes.end(), lane) != v.axes.end();
    if (own && v.axes.back() != lane && !row_stride(v, lane).is(1)) lane = v.axes.back();
    std::vector<int> loops = own ? without(v.axes, lane) : v.axes;
    open_loops(loops);
    ExprPrinter p = printer(own ? lane : -1);
    if (own) out_.open(fmt::format("nb_for(0, {}, [&](long {}, auto n) NB_INLINE {{", extent(lane), axis_name(lane)));
    if (s.combiner == Combiner::kNone) {
      std::string text = own ? p.print_vector(s.expr) : p.print(s.expr);
      out_.line(own ? fmt::format("nb_store({} + {}, {}, n);", name, at, text)
                    : fmt::format("{}[{}] = {};", name, at, text));
    } else {
      fold_prefix_ = own ? "const auto r_ = " : fmt::format("{}[{}] = ", name, at);
      bool varies = own && p.varies(s.expr);
      reduction(s.combiner, v.dtype, s.reduce, own ? -1 : lane, s.expr, p);
      if (own)
        out_.line(fmt::format("nb_store({} + {}, {}, n);", name, at,
                              varies ? "r_" : fmt::format("nb_splat<{}>(r_)", vector_type(v.dtype))));
    }
    if (own) out_.close("});");
    close_loops(loops);
    places_[s.value] = place;
  }
  std::string row_offset(const ValueInfo& v) const {
    std::string out;
    for (int a : v.axes) out = out.empty() ? axis_name(a) : fmt::format("({}) * {} + {}", out, extent(a), axis_name(a));
    return out;
  }
  ir::Dim row_stride(const ValueInfo& v, int axis) const {
    ir::Dim stride = 1;
    for (int d = static_cast<int>(v.axes.size()) - 1; v.axes[d] != axis; --d) stride = stride * size(v.axes[d]);
    return stride;
  }
  // Elements of a row at its largest: arrays on the stack have constant sizes.
  int64_t room(const ValueInfo& v) const {
    int64_t count = 1;
    for (int a : v.axes) count *= most(a);
    return count;
  }

  ExprPrinter printer(int lane) {
    ExprPrinter p(k_, places_, out_, next_temp_);
    p.lane_axis = lane;
    return p;
  }

  void stmt(const Store& s) {
    int lane = outer_lane_ >= 0 ? outer_lane_ : choose_lane(s.axes, s.expr, &s);
    bool own = outer_lane_ < 0 && lane >= 0;
    std::vector<int> loops = own ? without(s.axes, lane) : s.axes;
    open_loops(loops);
    if (own) out_.open(fmt::format("nb_for(0, {}, [&](long {}, auto n) NB_INLINE {{", extent(lane), axis_name(lane)));
    bool streamed = lane >= 0 && is_streamed(s, lane);
    streams_ |= streamed;
    print_store(k_, s, lane, places_, streamed, out_, next_temp_);
    if (own) out_.close("});");
    close_loops(loops);
  }

  // Only whole cache lines: every run of lanes starts and ends at one.
  bool is_streamed(const Store& s, int lane) const {
    const Buffer& b = k_.buffers[s.buffer];
    ir::Dim bytes = ir::Type(b.dtype, b.shape).bytes(), run = size(lane) * bytes_of(b.dtype);
    return b.role == BufferRole::kOut && s.combiner == Combiner::kNone && bytes.bounds().min >= target_.stream_bytes &&
           (run == bytes || ir::Dim::mod(run, 64).is(0));
  }

  void stmt(const Loop& l) {
    NABLA_CHECK(outer_lane_ < 0, "kernel {}: an ordered loop inside lanes", k_.name);
    for (size_t i = 0; i < l.state.size(); ++i) {
      const ValueInfo& v = k_.values[l.state[i]];
      std::string name = cpp_name(v.name);
      places_[l.state[i]] = {false, !v.axes.empty()};
      if (v.axes.empty()) {
        ExprPrinter p = printer(-1);
        out_.line(fmt::format("{} {} = {};", compute_type(v.dtype), name, p.print(l.init[i])));
        continue;
      }
      out_.line(fmt::format("alignas(64) {} {}[{}];", compute_type(v.dtype), name, room(v)));
      assign_tile(v, name, l.init[i]);
    }
    std::string axis = axis_name(l.axis);
    out_.open(l.reverse ? fmt::format("for (long {0} = {1}; {0} >= 0; --{0}) {{", axis, size_text(size(l.axis) - 1))
                        : fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", axis, extent(l.axis)));
    body(l.body);
    // All `next` expressions see the old state: numbers wait in temporaries until the tiles are done.
    std::vector<std::pair<std::string, std::string>> numbers;
    for (size_t i = 0; i < l.state.size(); ++i) {
      const ValueInfo& v = k_.values[l.state[i]];
      if (!v.axes.empty()) continue;
      ExprPrinter p = printer(-1);
      std::string temp = fmt::format("next{}_", next_temp_++);
      out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), temp, p.print(l.next[i])));
      numbers.push_back({cpp_name(v.name), temp});
    }
    for (size_t i = 0; i < l.state.size(); ++i) {
      const ValueInfo& v = k_.values[l.state[i]];
      if (!v.axes.empty()) assign_tile(v, cpp_name(v.name), l.next[i]);
    }
    for (const auto& [name, temp] : numbers) out_.line(fmt::format("{} = {};", name, temp));
    out_.close();
  }

  void assign_tile(const ValueInfo& v, const std::string& name, const Expr& e) {
    int lane = v.axes.back();
    std::vector<int> loops = without(v.axes, lane);
    open_loops(loops);
    out_.open(fmt::format("nb_for(0, {}, [&](long {}, auto n) NB_INLINE {{", extent(lane), axis_name(lane)));
    ExprPrinter p = printer(lane);
    std::string text = p.print_vector(e);
    out_.line(fmt::format("nb_store({} + {}, {}, n);", name, row_offset(v), text));
    out_.close("});");
    close_loops(loops);
  }

  const Kernel k_;
  const ir::Target& target_;
  CppWriter out_;
  std::map<int, ValuePlace> places_;
  std::set<int> cleared_;
  std::string fold_prefix_;
  int outer_lane_ = -1;
  int next_temp_ = 0;
  bool streams_ = false;
};

}  // namespace

std::string print_cpp(const Kernel& kernel, const std::string& symbol, const ir::Target& target) {
  return KernelPrinter(narrow_indices(kernel), target).run(symbol);
}

}  // namespace nabla::codegen
