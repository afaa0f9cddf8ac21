#include "codegen/cuda/team_printer.h"

#include <algorithm>

#include "codegen/print/store_printer.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/team_rows.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

// A size beside a counter, which is narrow where it has 32 bits.
std::string sized(const ir::Dim& d, bool narrow) {
  if (d.is(0)) return "1";  // of a loop that never runs
  return d.is_static() || !narrow ? size_text(d) : "int(" + size_text(d) + ")";
}

// Every expression of these statements.
void collect_reads(const Body& b, std::vector<Expr>& out) {
  for (const Stmt& s : b) {
    if (const Let* let = std::get_if<Let>(&s.node)) out.push_back(let->expr);
    if (const For* f = std::get_if<For>(&s.node)) collect_reads(f->body, out);
    if (const Store* store = std::get_if<Store>(&s.node)) {
      out.insert(out.end(), {store->expr, store->guard});
      out.insert(out.end(), store->indices.begin(), store->indices.end());
    }
    if (const Loop* l = std::get_if<Loop>(&s.node)) {
      out.insert(out.end(), l->init.begin(), l->init.end());
      out.insert(out.end(), l->next.begin(), l->next.end());
      collect_reads(l->body, out);
    }
  }
}

}  // namespace

void TeamPrinter::declare_rows(const Body& b) {
  std::vector<TeamRow> rows = team_rows(k_, b);
  if (team_.alone() || rows.empty()) return;
  int total = static_cast<int>(team_rows_bytes(k_, b)), at = 0;
  out_.line("NB_SHARED(unsigned char, shared_);");
  std::string base = "shared_";
  if (team_.per_block() > 1) {
    out_.line(fmt::format("unsigned char* const room_ = shared_ + threadIdx.x / {} * {};", team_.size, total));
    base = "room_";
  }
  for (auto [value, copies] : rows) {
    const ValueInfo& v = k_.values[value];
    for (int c = 0; c < copies; ++c) {
      out_.line(fmt::format("{0}* const {1}{2} = ({0}*)({3} + {4});", compute_type(v.dtype), cpp_name(v.name),
                            c ? "_next_" : "", base, at));
      at += static_cast<int>(row_bytes(k_, value));
    }
  }
}

// ---- Loops
std::string TeamPrinter::points(const std::vector<int>& axes) const {
  ir::Dim n = 1;
  for (int a : axes) n = n * k_.axes[a].extent;
  return size_text(n);
}
int64_t TeamPrinter::most(const std::vector<int>& axes) const {
  int64_t n = 1;
  for (int a : axes) n *= k_.axes[a].extent.bounds().max;
  return n;
}

int64_t TeamPrinter::room(const std::vector<int>& axes) const { return std::max<int64_t>(1, most(axes)); }

bool TeamPrinter::may_be_empty(const std::vector<int>& axes) const {
  return std::any_of(axes.begin(), axes.end(), [&](int a) { return k_.axes[a].extent.bounds().min == 0; });
}

size_t TeamPrinter::open_loops(const std::vector<int>& axes) {
  for (int a : axes) {
    // NVRTC 13.0 breaks down over some loops of a team that count in 64 bits.
    bool narrow = !serial() && k_.axes[a].extent.bounds().max < 1 << 30;
    std::string counter = narrow ? fmt::format("c{}_", next_temp_++) : axis_name(a);
    out_.open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", narrow ? "int" : "long", counter, extent(a)));
    if (narrow) out_.line(fmt::format("const long {} = {};", axis_name(a), counter));
  }
  return axes.size();
}
// Counts in 32 bits where they suffice: GPUs divide those several times faster.
bool TeamPrinter::counts_narrow(const std::vector<int>& axes) const { return most(axes) < 1 << 30; }
size_t TeamPrinter::open_flat(const std::vector<int>& axes, const std::string& counter, const std::string& first,
                              const std::string& step, int width) {
  bool narrow = counts_narrow(axes);
  ir::Dim inner = 1;
  for (int a : axes) inner = inner * k_.axes[a].extent;
  inner = ir::Dim::floordiv(inner, width);
  std::string count = inner.is(0) ? "0" : sized(inner, narrow), type = narrow ? "int" : "long";
  // Not as a loop where it would run once: NVRTC 13.0 breaks down over some of those.
  bool once = inner.is_static() && step == std::to_string(team_.size) && inner.value() <= team_.size;
  out_.open(once ? fmt::format("if (const {0} {1} = {2}; {1} < {3}) {{", type, counter, first, count)
                 : fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", type, counter, first, count, step));
  flat_axes(axes, counter, width);
  return 1;
}
// The positions at which a counter of elements, or of packs, stands.
void TeamPrinter::flat_axes(const std::vector<int>& axes, const std::string& counter, int width) {
  bool narrow = counts_narrow(axes);
  ir::Dim inner = 1;
  std::vector<std::string> lines;
  for (size_t i = axes.size(); i-- > 0;) {
    const bool packs = width > 1 && i + 1 == axes.size();
    ir::Dim extent = k_.axes[axes[i]].extent;
    if (packs) extent = ir::Dim::floordiv(extent, width);
    std::string at = inner.is(1) ? counter : fmt::format("{} / {}", counter, sized(inner, narrow));
    if (i) at += fmt::format(" % {}", sized(extent, narrow));
    lines.push_back(packs ? fmt::format("const long {}_first_ = {} * {};", axis_name(axes[i]), i ? "(" + at + ")" : at, width)
                          : fmt::format("const long {} = {};", axis_name(axes[i]), at));
    inner = inner * extent;
  }
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) out_.line(*line);
}
size_t TeamPrinter::open_shared_out(const std::vector<int>& axes, int width) {
  return open_flat(axes, fmt::format("u{}_", next_temp_++), fmt::format("nb_rank<{}>()", team_.size),
                   fmt::format("{}", team_.size), width);
}
// Every trip has registers of its own, which are known by its number once the loop is unrolled.
size_t TeamPrinter::open_kept(const std::vector<int>& axes, int trips, std::string& trip) {
  trip = fmt::format("t{}_", next_temp_);
  std::string counter = fmt::format("u{}_", next_temp_++);
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", trip, trips));
  out_.open(fmt::format("if (const int {0} = nb_rank<{1}>() + {2} * {1}; {0} < {3}) {{", counter, team_.size, trip,
                        most(axes) / packs_.width));
  flat_axes(axes, counter, packs_.width);
  return 2;
}
void TeamPrinter::close(size_t count) {
  for (size_t i = 0; i < count; ++i) out_.close();
}

// ---- Packs
void TeamPrinter::declare_kept() {
  kept_.clear();
  for (const KeptLoad& l : packs_.kept) {
    kept_.push_back({l.load, fmt::format("kept{}_", kept_.size()), false});
    out_.line(fmt::format("nb_pack<{}, {}> {}[{}];", storage_type(l.load->dtype), packs_.width, kept_.back().name, l.trips));
  }
}

void TeamPrinter::share(const std::vector<int>& axes, const Expr& e, const std::optional<PackPlace>& to, const Each& each) {
  if (serial() || !by_packs(k_, axes, team_.size, packs_.width)) {
    size_t open = open_shared_out(axes);
    each(e, "");
    return close(open);
  }
  int trips = 0;
  std::vector<PackReader::Kept*> kept;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const KeptLoad& l = packs_.kept[i];
    if (l.axes != axes || !reads(e, l.load)) continue;
    kept.push_back(&kept_[i]);
    trips = l.trips;  // as many for all of the same axes
  }
  std::string trip;
  size_t open = trips > 0 ? open_kept(axes, trips, trip) : open_shared_out(axes, packs_.width);
  PackReader reader(k_, packs_.width, axes.back(), aligned_, out_, next_temp_);
  reader.load(e, kept, trip);
  bool stores = to && reader.moves(*to);
  std::string pack = stores ? to->name + "_pack_" : "";
  if (stores) reader.declare(*to, pack);
  reader.open(places_);
  each(reader.element(e), stores ? pack + ".at[l_]" : "");
  out_.close();
  if (stores) reader.store(*to, pack);
  close(open);
}

// ---- Barriers
void TeamPrinter::Pending::add(const Pending& other) {
  loads.insert(loads.end(), other.loads.begin(), other.loads.end());
  stores.insert(stores.end(), other.stores.begin(), other.stores.end());
  written.insert(other.written.begin(), other.written.end());
  lent.insert(other.lent.begin(), other.lent.end());
}
void TeamPrinter::sync() {
  out_.line(fmt::format("nb_sync<{}>();", team_.size));
  pending_ = {};
}
// An iteration begins with what the one before has left. It is printed once for that alone.
void TeamPrinter::repeat(bool may_be_empty, const std::function<void()>& iteration) {
  if (serial()) return iteration();
  Pending before = pending_;
  CppWriter text = out_;
  int temp = next_temp_;
  iteration();
  out_ = std::move(text), next_temp_ = temp;
  pending_.add(before);
  iteration();
  if (may_be_empty) pending_.add(before);
}
// An element of a row that another thread may have written.
bool TeamPrinter::is_lent(const Expr& x, const std::vector<int>& shared_out, bool once) const {
  if (x->kind != ExprKind::kValue || k_.values[x->ref].axes.empty()) return false;
  const std::vector<int>& axes = k_.values[x->ref].axes;
  return once || axes != shared_out || x->args != axes_as_indices(axes);
}
void TeamPrinter::note_loads(const Expr& e, const std::vector<int>& shared_out, bool once) {
  if (serial() || !e) return;
  visit(e, [&](const Expr& x) {
    if (x->kind == ExprKind::kLoad) pending_.loads.push_back({x->ref, x->args, shared_out, once});
    if (is_lent(x, shared_out, once)) pending_.lent.insert(x->ref);
  });
}
// Before an expression that reads rows or results which other threads have made since the last barrier. A thread may
// read of a row what it has written itself.
void TeamPrinter::before_reads(const Expr& e, const std::vector<int>& shared_out, bool once) {
  if (serial() || !e) return;
  bool wait = false;
  visit(e, [&](const Expr& x) {
    wait |= x->kind == ExprKind::kLoad && std::any_of(pending_.stores.begin(), pending_.stores.end(),
                                                      [&](const Access& s) { return s.buffer == x->ref; });
    wait |= is_lent(x, shared_out, once) && pending_.written.contains(x->ref);
  });
  if (wait) sync();
}
// Before elements of a row are written by the threads that own them.
void TeamPrinter::before_row(int value) {
  if (serial()) return;
  if (pending_.lent.contains(value)) sync();
  pending_.written.insert(value);
}
// The memory plan puts a result where an operand lies only if the kernel reads each element where it stores it.
bool TeamPrinter::reads_only_at(int buffer, const std::vector<Expr>& place) const {
  std::vector<Expr> read;
  collect_reads(k_.body, read);
  bool only = true;
  for (const Expr& e : read)
    if (e) visit(e, [&](const Expr& x) { only &= x->kind != ExprKind::kLoad || x->ref != buffer || x->args == place; });
  return only;
}
// A result may lie where an operand lies: nobody overwrites what another thread has still to read. Stores to
// the same places, shared out alike, reach each from one thread.
void TeamPrinter::before_store(const Store& s, const std::vector<int>& shared_out, bool once) {
  if (serial()) return;
  const Buffer& to = k_.buffers[s.buffer];
  bool wait = std::any_of(pending_.loads.begin(), pending_.loads.end(), [&](const Access& l) {
    const Buffer& from = k_.buffers[l.buffer];
    if (bytes_of(from.dtype) != bytes_of(to.dtype) || from.shape != to.shape) return false;
    if (l.buffer != s.buffer && !reads_only_at(l.buffer, s.indices)) return false;
    return l.once || once || l.shared_out != shared_out || l.at != s.indices;
  });
  wait |= std::any_of(pending_.stores.begin(), pending_.stores.end(), [&](const Access& e) {
    return e.buffer == s.buffer && (e.shared_out != shared_out || e.at != s.indices);
  });
  if (wait) sync();
  pending_.stores.push_back({s.buffer, s.indices, shared_out, once});
}

// ---- Statements
void TeamPrinter::share_out(const std::vector<int>& parallel, const std::vector<int>& serial_axes, const Body& b) {
  parallel_ = parallel;
  size_t open = 0;
  if (!parallel.empty()) {
    open =
        open_flat(parallel, "u_", fmt::format("nb_team<{}>()", team_.size), fmt::format("nb_teams<{}>()", team_.size));
  } else {
    out_.line(fmt::format("if (nb_team<{}>() != 0) return;", team_.size));
  }
  open += open_loops(serial_axes);
  // Iterations share nothing but rows: none reads what another stores, and what meets is the same thread's.
  pending_ = {};
  repeat(false, [&] {
    pending_.loads.clear(), pending_.stores.clear();
    declare_kept();
    body(b);
  });
  close(open);
  parallel_.clear();
}

void TeamPrinter::whole(const Body& b) {
  out_.line("if (blockIdx.x != 0) return;");
  body(b);
}

void TeamPrinter::body(const Body& b) {
  for (const Stmt& s : b) std::visit([&](const auto& node) { stmt(node); }, s.node);
}

// acc = combiner over this thread's share of `reduce`; acc is declared already.
void TeamPrinter::accumulate(const Let& s, const Expr& e, const std::string& acc) {
  DType d = k_.values[s.value].dtype;
  std::string text = printer().print(e);
  bool plain_sum = s.combiner == Combiner::kSum && d != DType::kBool;
  out_.line(plain_sum ? fmt::format("{} += {};", acc, text)
                      : fmt::format("{0} = nb_{1}<{2}>({0}, {3});", acc, scalar_of(s.combiner), compute_type(d), text));
}
void TeamPrinter::combine(const Let& s, const std::string& partial, const std::string& result) {
  out_.line(fmt::format("const {} {} = nb_combine<{}>(nb_{}_op{{}}, {});", compute_type(k_.values[s.value].dtype),
                        result, team_.size, scalar_of(s.combiner), partial));
  if (team_.size != 32) pending_ = {};  // there is a barrier in it
}

void TeamPrinter::number(const Let& s) {
  const ValueInfo v = k_.values[s.value];
  std::string name = cpp_name(v.name), type = compute_type(v.dtype);
  places_[s.value] = {};
  bool together = !serial() && !shared_axes(k_, s, team_.size).empty();
  before_reads(s.expr, together ? s.reduce : std::vector<int>(), !together);
  if (s.combiner == Combiner::kNone) {
    out_.line(fmt::format("const {} {} = {};", type, name, printer().print(s.expr)));
    note_loads(s.expr, {}, true);
    return;
  }
  Expr start = identity_of(s.combiner, v.dtype);
  std::string identity = number_text(v.dtype, start->number, start->integer);
  std::string acc = together ? name + "_part_" : name;
  out_.line(fmt::format("{} {} = {};", type, acc, identity));
  if (together) {
    share(s.reduce, s.expr, std::nullopt, [&](const Expr& e, const std::string&) { accumulate(s, e, acc); });
  } else {
    size_t open = open_loops(s.reduce);
    accumulate(s, s.expr, acc);
    close(open);
  }
  note_loads(s.expr, s.reduce, !together);
  if (together) combine(s, acc, name);
}

std::string TeamPrinter::element(const ValueInfo& v) {
  return printer().offset(axes_as_indices(v.axes), row_shape(k_, v));
}

void TeamPrinter::stmt(const Let& s) {
  const ValueInfo v = k_.values[s.value];
  if (v.axes.empty()) return number(s);
  bool few = !serial() && computed_together(k_, s, team_.size);
  before_reads(s.expr, few ? s.reduce : v.axes, s.combiner != Combiner::kNone);
  if (serial()) out_.line(fmt::format("{} {}[{}];", compute_type(v.dtype), cpp_name(v.name), room(v.axes)));
  few ? narrow_rows(s) : row(s);
  places_[s.value] = {false, true};
}
// Every thread makes whole elements.
void TeamPrinter::row(const Let& s) {
  const ValueInfo v = k_.values[s.value];
  std::string name = cpp_name(v.name);
  before_row(s.value);
  auto each = [&](const Expr& e, const std::string& target) {
    std::string value;
    if (s.combiner == Combiner::kNone) {
      value = printer().print(e);
    } else {
      Expr start = identity_of(s.combiner, v.dtype);
      value = name + "_acc_";
      out_.line(fmt::format("{} {} = {};", compute_type(v.dtype), value, number_text(v.dtype, start->number, start->integer)));
      size_t loops = open_loops(s.reduce);
      accumulate(s, e, value);
      close(loops);
    }
    out_.line(fmt::format("{} = {};", target.empty() ? fmt::format("{}[{}]", name, element(v)) : target, value));
  };
  if (serial()) {
    size_t open = open_loops(v.axes);
    each(s.expr, "");
    close(open);
  } else {
    share(v.axes, s.expr, row_place(k_, s.value, axes_as_indices(v.axes)), each);
  }
  note_loads(s.expr, v.axes, s.combiner != Combiner::kNone);
}
// Few elements: all threads make each together, and its owner keeps it.
void TeamPrinter::narrow_rows(const Let& s) {
  const ValueInfo v = k_.values[s.value];
  std::string name = cpp_name(v.name), part = name + "_part_", all = name + "_all_";
  Expr start = identity_of(s.combiner, v.dtype);
  size_t open = open_loops(v.axes);
  out_.line(
      fmt::format("{} {} = {};", compute_type(v.dtype), part, number_text(v.dtype, start->number, start->integer)));
  share(s.reduce, s.expr, std::nullopt, [&](const Expr& e, const std::string&) { accumulate(s, e, part); });
  combine(s, part, all);
  out_.line(fmt::format("if (nb_rank<{}>() == {}) {}[{}] = {};", team_.size, element(v), name, element(v), all));
  close(open);
  pending_.written.insert(s.value);
  note_loads(s.expr, s.reduce, true);
}

void TeamPrinter::store_one(const Store& s) {
  bool shared =
      may_meet(s) && std::any_of(parallel_.begin(), parallel_.end(), [&](int a) { return !is_plain_index(s, a); });
  if (shared)
    atomic_store(s);
  else
    print_store(k_, s, -1, places_, false, out_, next_temp_);
}
void TeamPrinter::atomic_store(const Store& s) {
  ExprPrinter p = printer();
  const Buffer& b = k_.buffers[s.buffer];
  if (s.guard) out_.open(fmt::format("if ({}) {{", p.print(s.guard)));
  std::string value = p.print(s.expr);
  out_.line(fmt::format("nb_atomic_{}({} + {}, {});", scalar_of(s.combiner), cpp_name(b.name),
                        p.offset(s.indices, b.shape), value));
  if (s.guard) out_.close();
}
void TeamPrinter::stmt(const Store& s) {
  Store one = s;
  one.axes.clear();
  if (serial()) {
    size_t open = open_loops(s.axes);
    store_one(one);
    return close(open);
  }
  // Positions that may meet at one place belong to one thread, in order.
  std::vector<int> apart = shared_axes(k_, s), in_order;
  for (int a : s.axes)
    if (meets_along(k_, s, a)) in_order.push_back(a);
  before_reads(s.expr, apart, apart.empty() || !in_order.empty());
  before_reads(s.guard, apart, true);
  for (const Expr& i : s.indices) before_reads(i, apart, true);
  before_store(s, apart, apart.empty());
  auto each = [&](const Expr& e, const std::string& target) {
    size_t open = open_loops(in_order);
    one.expr = e;
    if (target.empty())
      store_one(one);
    else
      out_.line(fmt::format("{} = nb_narrow({}{{}}, {});", target, storage_type(k_.buffers[s.buffer].dtype), printer().print(e)));
    close(open);
  };
  if (apart.empty()) {
    out_.open(fmt::format("if (nb_rank<{}>() == 0) {{", team_.size));
    each(s.expr, "");
    out_.close();
  } else {
    share(apart, s.expr, pack_of(s), each);
  }
  note_loads(s.expr, apart, apart.empty() || !in_order.empty());
  note_loads(s.guard, apart, true);
  for (const Expr& i : s.indices) note_loads(i, apart, true);
}
std::optional<PackPlace> TeamPrinter::pack_of(const Store& s) const {
  if (s.guard || may_meet(s)) return std::nullopt;
  return buffer_place(k_, s.buffer, s.indices);
}

// Iterations of an inner loop: one thread each, unless they meet.
void TeamPrinter::stmt(const For& f) {
  if (serial() || walked_together(k_, f)) {
    size_t open = open_loops(f.axes);
    repeat(may_be_empty(f.axes), [&] { body(f.body); });
    return close(open);
  }
  before_iterations(f.body, f.axes);
  size_t open = open_shared_out(f.axes);
  inside_ = true;
  body(f.body);
  inside_ = false;
  close(open);
}
// Single threads are to run these statements: what they read, others have made, and the other way round.
void TeamPrinter::before_iterations(const Body& b, const std::vector<int>& axes) {
  std::vector<Expr> read;
  collect_reads(b, read);
  std::vector<const Store*> stores;
  collect_stores(b, stores);
  for (const Expr& e : read) before_reads(e, axes, true);
  for (const Store* s : stores) before_store(*s, axes, true);
  for (const Expr& e : read) note_loads(e, axes, true);
}

void TeamPrinter::assign_row(const ValueInfo& v, const std::string& name, const Expr& e) {
  size_t open = serial() ? open_loops(v.axes) : open_shared_out(v.axes);
  std::string text = printer().print(e);
  out_.line(fmt::format("{}[{}] = {};", name, element(v), text));
  close(open);
}
void TeamPrinter::loop_state(const Loop& l) {
  for (size_t i = 0; i < l.state.size(); ++i) {
    const ValueInfo& v = k_.values[l.state[i]];
    std::string name = cpp_name(v.name), type = compute_type(v.dtype);
    before_reads(l.init[i], v.axes, v.axes.empty());
    if (v.axes.empty()) {
      std::string text = printer().print(l.init[i]);
      out_.line(fmt::format("{} {} = {};", type, name, text));
      note_loads(l.init[i], {}, true);
    } else {
      if (serial()) out_.line(fmt::format("{0} {1}[{2}], {1}_next_[{2}];", type, name, room(v.axes)));
      before_row(l.state[i]);
      assign_row(v, name, l.init[i]);
      note_loads(l.init[i], v.axes, false);
    }
  }
  for (int state : l.state) places_[state] = {false, !k_.values[state].axes.empty()};
}
void TeamPrinter::stmt(const Loop& l) {
  loop_state(l);
  std::string axis = axis_name(l.axis);
  out_.open(l.reverse ? fmt::format("for (long {0} = {1} - 1; {0} >= 0; --{0}) {{", axis, extent(l.axis))
                      : fmt::format("for (long {0} = 0; {0} < {1}; ++{0}) {{", axis, extent(l.axis)));
  repeat(may_be_empty({l.axis}), [&] {
    body(l.body);
    next_state(l);
  });
  out_.close();
}
// All `next` expressions see the old state.
void TeamPrinter::next_state(const Loop& l) {
  for (size_t i = 0; i < l.state.size(); ++i) {
    const ValueInfo& v = k_.values[l.state[i]];
    std::string name = cpp_name(v.name) + "_next_";
    before_reads(l.next[i], v.axes, v.axes.empty());
    if (v.axes.empty()) {
      std::string text = printer().print(l.next[i]);
      out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), name, text));
    } else {
      assign_row(v, name, l.next[i]);
    }
    note_loads(l.next[i], v.axes, v.axes.empty());
  }
  for (int state : l.state) {
    const ValueInfo& v = k_.values[state];
    std::string name = cpp_name(v.name);
    if (v.axes.empty()) {
      out_.line(fmt::format("{0} = {0}_next_;", name));
      continue;
    }
    before_row(state);
    size_t open = serial() ? open_loops(v.axes) : open_shared_out(v.axes);
    out_.line(fmt::format("{0}[{1}] = {0}_next_[{1}];", name, element(v)));
    close(open);
  }
}

}  // namespace nabla::codegen
