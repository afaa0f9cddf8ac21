// A kernel as grids: how its statements are cut, and which teams of threads share out their iterations.

#include <algorithm>

#include "codegen/cuda/attention_printer.h"
#include "codegen/cuda/contract_printer.h"
#include "codegen/cuda/pack_printer.h"
#include "codegen/cuda/printer.h"
#include "codegen/cuda/scan_printer.h"
#include "codegen/cuda/scatter_printer.h"
#include "codegen/cuda/sort_printer.h"
#include "codegen/cuda/team_printer.h"
#include "codegen/cuda/window_product.h"
#include "codegen/print/procedure_call.h"
#include "codegen/print/store_printer.h"
#include "ir/kernel_ir/procedure_template.h"

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

constexpr int kBlock = 256;
constexpr int64_t kPlainShared = 48 << 10;  // what every block may take, and several beside each other

// Templates that print grids of their own.
struct TemplatePrinter {
  TemplateKind kind;
  TemplateGrids (*grids)(const Kernel& kernel, const ir::Target& target);
};
constexpr TemplatePrinter kTemplatePrinters[] = {{TemplateKind::kAttention, attention_grids},
                                                 {TemplateKind::kSortInBlock, block_sort_grids},
                                                 {TemplateKind::kMergeSort, merge_sort_grids},
                                                 {TemplateKind::kTeamScan, scan_grids}};

class KernelPrinter {
 public:
  KernelPrinter(const Kernel& k, const std::string& symbol, const ir::Target& target)
      : k_(k), symbol_(symbol), target_(target), symbols_(symbols_of(k)) {}

  Result<CudaKernel> run() {
    if (k_.procedure) {
      procedure();
    } else {
      clear_accumulators();
      if (has_product(k_))
        product();
      else if (auto windows = find_window_product(k_, target_))
        product_of_windows(*windows);
      else if (can_be_cut())
        NABLA_TRY(statements());
      else
        NABLA_TRY(one_block());
    }
    out_.text = text_.take();
    return std::move(out_);
  }

 private:
  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  ir::Dim points(const std::vector<int>& axes) const {
    ir::Dim n = 1;
    for (int a : axes) n = n * size(a);
    return n;
  }

  // ---- Grids
  // Text of the grid goes to body_, since its head is known only after it.
  void open_grid() {
    body_ = CppWriter();
    body_.open("{");
  }
  void close_grid(CudaGrid grid, const std::string& suffix) {
    grid.symbol = symbol_ + suffix;
    body_.close();
    std::string params;
    for (const Buffer& b : k_.buffers)
      params += fmt::format("{}{}{}* {}", params.empty() ? "" : ", ", b.role == BufferRole::kIn ? "const " : "",
                            storage_type(b.dtype), cpp_name(b.name));
    if (!symbols_.empty()) params += (params.empty() ? "" : ", ") + std::string("const long* extents_");
    if (!out_.grids.empty()) text_.line("");
    std::string body = body_.take();
    std::string bounds = fmt::format("{}{}", grid.threads, grid.beside > 1 ? fmt::format(", {}", grid.beside) : "");
    text_.line(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {}", bounds, grid.symbol, params,
                           body.substr(0, body.size() - 1)));
    out_.grids.push_back(std::move(grid));
  }
  void declare_sizes() {
    for (size_t i = 0; i < symbols_.size(); ++i)
      body_.line(fmt::format("const long {} = extents_[{}];", symbol_variable(*symbols_[i]), i));
  }
  // Enough blocks for every team to have one iteration, but no more than keep the machine full some times over.
  ir::Dim blocks_for(const ir::Dim& iterations, const Team& team) const {
    int64_t full = int64_t{target_.cuda.multiprocessors} * (target_.cuda.resident_threads / team.block) * 8;
    return ir::Dim::max(ir::Dim::min(ir::Dim::ceildiv(iterations, team.per_block()), full), 1);
  }

  // Outputs that are only combined into start from the combiner's identity.
  void clear_accumulators() {
    std::vector<const Store*> stores;
    collect_stores(k_.body, stores);
    std::set<int> cleared;
    for (const Store* s : stores) {
      const Buffer& b = k_.buffers[s->buffer];
      if (s->combiner == Combiner::kNone || b.role != BufferRole::kOut || !cleared.insert(s->buffer).second) continue;
      ir::Dim count = ir::Type(b.dtype, b.shape).count();
      Expr start = identity_of(s->combiner, b.dtype);
      open_grid();
      declare_sizes();
      body_.open(fmt::format("for (long u_ = nb_team<1>(); u_ < {}; u_ += nb_teams<1>()) {{", size_text(count)));
      body_.line(fmt::format("{}[u_] = nb_narrow({}{{}}, {});", cpp_name(b.name), storage_type(b.dtype),
                             number_text(b.dtype, start->number, start->integer)));
      body_.close();
      close_grid({"", blocks_for(count, {1, kBlock}), kBlock, 0}, "_clear_" + b.name);
    }
  }

  void product() {
    open_grid();
    declare_sizes();
    CudaGrid grid;
    print_product(k_, target_, body_, next_temp_, grid);
    close_grid(grid, "");
  }

  void product_of_windows(const WindowProduct& windows) {
    open_grid();
    declare_sizes();
    CudaGrid grid;
    print_in_tiles(windows.product(target_), body_, next_temp_, grid);
    close_grid(grid, "");
  }

  // By the template that the pass schedule-kernels chose too.
  void procedure() {
    TemplateKind kind = template_of(*k_.procedure, {true, target_.cuda.block_shared_bytes}).kind;
    for (const TemplatePrinter& printer : kTemplatePrinters) {
      if (printer.kind != kind) continue;
      for (TemplateGrid& grid : printer.grids(k_, target_))
        procedure_of_blocks(grid.call, std::move(grid.launch), grid.suffix);
      return;
    }
    units_of_rows(kind == TemplateKind::kBlockPerRow ? threads_of_a_row() : 0);
  }

  // One call of a template, whose dynamic shared memory is room_.
  void procedure_of_blocks(const std::string& call, CudaGrid grid, const std::string& suffix) {
    open_grid();
    declare_sizes();
    if (grid.shared_bytes > 0) body_.line("NB_SHARED(unsigned char, room_);");
    body_.line(call);
    close_grid(std::move(grid), suffix);
    out_.procedures = true;
  }

  // Threads of the block that computes each row together.
  int threads_of_a_row() const {
    const Procedure& p = *k_.procedure;
    return static_cast<int>(std::clamp<int64_t>((p.def->parallel_in_row(p.most()) + 31) / 32 * 32, 32, kBlock));
  }
  // A block of so many threads or, for 0, a thread per unit.
  void units_of_rows(int threads) {
    open_grid();
    declare_sizes();
    const ir::Dim& units = schedule_of(k_).units;
    std::string first = threads ? "blockIdx.x" : "nb_team<1>()", step = threads ? "gridDim.x" : "nb_teams<1>()";
    print_procedure(k_, fmt::format("for (long u_ = {}; u_ < {}; u_ += {}) {{", first, size_text(units), step), body_,
                    threads ? "nb_block_" : "nb_");
    out_.procedures = true;
    Team few{1, 64};
    ir::Dim blocks = threads ? ir::Dim::max(ir::Dim::min(units, 1 << 20), 1) : blocks_for(units, few);
    close_grid({"", blocks, threads ? threads : few.block, 0}, "");
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
  Status statements() {
    auto count = std::count_if(k_.body.begin(), k_.body.end(),
                               [](const Stmt& s) { return !std::holds_alternative<Let>(s.node); });
    int next = 0;
    for (const Stmt& s : k_.body) {
      if (std::holds_alternative<Let>(s.node)) continue;
      std::string suffix = count == 1 ? "" : fmt::format("_{}", next++);
      const For* f = std::get_if<For>(&s.node);
      const Store* lone = std::get_if<Store>(f ? (f->body.size() == 1 ? &f->body[0].node : &s.node) : &s.node);
      if (!lone) {
        NABLA_TRY(nest(suffix, f->axes, f->body));
        continue;
      }
      // A lone store: its own axes are as good as those of the loop around it.
      std::vector<int> axes = f ? f->axes : std::vector<int>();
      axes.insert(axes.end(), lone->axes.begin(), lone->axes.end());
      Store store = *lone;
      store.axes.clear();
      Body body;
      body.push_back({std::move(store)});
      NABLA_TRY(nest(suffix, axes, body));
    }
    return Ok{};
  }

  // ---- Teams
  // The most positions that one statement of an iteration runs through.
  double width(const Body& b) const {
    double most = 1;
    for (const Stmt& s : b) {
      std::vector<int> axes;
      if (const Let* let = std::get_if<Let>(&s.node)) {
        axes = k_.values[let->value].axes;
        axes.insert(axes.end(), let->reduce.begin(), let->reduce.end());
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        axes = store->axes;
      } else if (const For* f = std::get_if<For>(&s.node)) {
        axes = f->axes;
      } else {
        most = std::max(most, width(std::get<Loop>(s.node).body));
      }
      most = std::max(most, static_cast<double>(points(axes).bounds().max));
    }
    return most;
  }
  Result<Team> team_for(const std::vector<int>& parallel, const Body& b) const {
    double inner = width(b), outer = static_cast<double>(points(parallel).bounds().max);
    int64_t bytes = TeamPrinter::row_bytes(k_, b);
    int lane = schedule_of(k_).vector_axis;
    bool lanes_outside = std::find(parallel.begin(), parallel.end(), lane) != parallel.end();
    bool full = outer >= 16384 || inner < 64;
    if (inner <= 4 || (lanes_outside && full && bytes <= 256)) return Team{1, kBlock};
    Team team{32, kBlock};
    if (inner > 2048 || (outer < 256 && inner >= 256)) team = {kBlock, kBlock};
    if (inner > 16384 || (parallel.empty() && inner >= 1024)) team = {1024, 1024};
    while (team.size == 32 && team.block > 64 && bytes * team.per_block() > kPlainShared) team.block /= 2;
    if (team.size == 32 && bytes * team.per_block() > kPlainShared) team = {kBlock, kBlock};
    if (bytes > target_.cuda.block_shared_bytes)
      return error(Code::kNoLowering,
                   "kernel {}: one iteration keeps {} bytes of rows; a block of {} has {} bytes of shared memory",
                   k_.name, bytes, target_.name, target_.cuda.block_shared_bytes);
    return team;
  }
  // Neighbouring threads take neighbouring positions of the last axis.
  void put_last(std::vector<int>& axes, int axis) const {
    auto at = std::find(axes.begin(), axes.end(), axis);
    if (at != axes.end()) std::rotate(at, at + 1, axes.end());
  }

  Status nest(const std::string& suffix, const std::vector<int>& axes, const Body& b) {
    std::vector<const Store*> stores;
    collect_stores(b, stores);
    std::vector<int> parallel, serial;
    for (int a : axes) {
      bool free = std::all_of(stores.begin(), stores.end(),
                              [&](const Store* s) { return !meets_along(k_, *s, a) || has_atomic(k_, *s); });
      (free ? parallel : serial).push_back(a);
    }
    const Store* lone = b.size() == 1 ? std::get_if<Store>(&b[0].node) : nullptr;
    if (lone && !serial.empty() && lone->axes.empty())
      if (auto found = find_scatter(k_, *lone, parallel, serial, target_)) return scatter(*found, suffix), Ok{};
    Team team = NABLA_TRY(team_for(parallel, b));
    if (team.alone()) put_last(parallel, schedule_of(k_).vector_axis);
    open_grid();
    declare_sizes();
    TeamPrinter printer(k_, team, body_, next_temp_);
    int bytes = printer.declare_rows(b);
    std::string apart = lone ? in_place_condition(k_, *lone) : "";
    if (!apart.empty()) body_.open(apart);
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node)) printer.number(*let);
    Packs packs = team.alone() && serial.empty() ? find_packs(k_, parallel, b) : Packs{};
    if (packs.width > 1) {
      std::string aligned;
      for (int buffer : packs.buffers)
        aligned += fmt::format("{}nb_is_aligned({})", aligned.empty() ? "" : " && ", cpp_name(k_.buffers[buffer].name));
      body_.open(fmt::format("if ({}) {{", aligned));
      print_packs(k_, packs, parallel, b, body_, next_temp_);
      body_.reopen("} else {");
    }
    printer.share_out(parallel, serial, b);
    if (packs.width > 1) body_.close();
    if (!apart.empty()) body_.close();
    ir::Dim iterations = ir::Dim::ceildiv(points(parallel), packs.width);
    close_grid({"", blocks_for(iterations, team), team.block, bytes * team.per_block()}, suffix);
    return Ok{};
  }
  void scatter(const Scatter& s, const std::string& suffix) {
    open_grid();
    declare_sizes();
    TeamPrinter heads(k_, Team{1, kBlock}, body_, next_temp_);
    for (const Stmt& stmt : k_.body)
      if (const Let* let = std::get_if<Let>(&stmt.node)) heads.number(*let);
    CudaGrid grid;
    print_scatter(k_, s, target_, body_, next_temp_, grid);
    close_grid(std::move(grid), suffix);
  }
  Status one_block() {
    Team team = NABLA_TRY(team_for({}, k_.body));
    if (team.size < kBlock) team = {kBlock, kBlock};
    open_grid();
    declare_sizes();
    TeamPrinter printer(k_, team, body_, next_temp_);
    int bytes = printer.declare_rows(k_.body);
    printer.whole(k_.body);
    close_grid({"", 1, team.block, bytes}, "");
    return Ok{};
  }
  const Kernel& k_;
  std::string symbol_;
  const ir::Target& target_;
  std::vector<ir::SymbolRef> symbols_;
  CudaKernel out_;
  CppWriter text_, body_;
  int next_temp_ = 0;
};

}  // namespace

Result<CudaKernel> print_cuda(const Kernel& kernel, const std::string& symbol, const ir::Target& target) {
  return KernelPrinter(kernel, symbol, target).run();
}

}  // namespace nabla::codegen
