// A kernel as the grids of its schedule.

#include <algorithm>
#include <functional>

#include "codegen/cuda/attention_printer.h"
#include "codegen/cuda/contract_printer.h"
#include "codegen/cuda/pack_printer.h"
#include "codegen/cuda/printer.h"
#include "codegen/cuda/scan_printer.h"
#include "codegen/cuda/scatter_printer.h"
#include "codegen/cuda/sort_printer.h"
#include "codegen/cuda/team_printer.h"
#include "codegen/cuda/turn_printer.h"
#include "codegen/print/procedure_call.h"
#include "codegen/print/store_printer.h"
#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/row_packs.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/window_product.h"

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

// Templates that print grids of their own.
struct TemplatePrinter {
  TemplateKind kind;
  TemplateCalls (*calls)(const Kernel& kernel);
};
constexpr TemplatePrinter kTemplatePrinters[] = {{TemplateKind::kAttention, attention_calls},
                                                 {TemplateKind::kSortInBlock, block_sort_calls},
                                                 {TemplateKind::kMergeSort, merge_sort_calls},
                                                 {TemplateKind::kTeamScan, scan_calls}};

class KernelPrinter {
 public:
  KernelPrinter(const Kernel& k, const std::string& symbol, bool at_packs)
      : k_(k), symbol_(symbol), at_packs_(at_packs), schedule_(cuda_schedule_of(k)), symbols_(symbols_of(k)) {}

  CudaKernel run() {
    if (k_.procedure) {
      procedure();
    } else {
      statements_ = statements_of_grids();
      for (const Grid& g : schedule_.grids) std::visit([&](const auto& mapping) { grid(g, mapping); }, g.mapping);
    }
    out_.text = text_.take();
    return std::move(out_);
  }

 private:
  // ---- Grids
  // Text of the grid goes to body_, since its head is known only after it.
  void open_grid() {
    body_ = CppWriter();
    body_.open("{");
    declare_sizes();
  }
  void close_grid(const Grid& g, const std::string& suffix, std::vector<TensorMap> maps = {}) {
    CudaGrid grid{symbol_ + suffix, g.blocks, g.threads, g.shared_bytes, g.beside, std::move(maps)};
    body_.close();
    std::string params;
    for (const Buffer& b : k_.buffers)
      params += fmt::format("{}{}{}* {}", params.empty() ? "" : ", ", b.role == BufferRole::kIn ? "const " : "",
                            storage_type(b.dtype), cpp_name(b.name));
    if (!symbols_.empty()) params += (params.empty() ? "" : ", ") + std::string("const long* extents_");
    for (size_t i = 0; i < grid.maps.size(); ++i) params += fmt::format(", const __grid_constant__ nb_tensor_map map{}_", i);
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
  // The numbers at the kernel's head, which every thread repeats.
  void heads(TeamPrinter& printer) {
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node)) printer.number(*let);
  }

  void grid(const Grid& g, const ClearMapping& clear) {
    const Buffer& b = k_.buffers[clear.buffer];
    Expr start = identity_of(combiner_of(clear.buffer), b.dtype);
    open_grid();
    body_.open(fmt::format("for (long u_ = nb_team<1>(); u_ < {}; u_ += nb_teams<1>()) {{",
                           size_text(ir::Type(b.dtype, b.shape).count())));
    body_.line(fmt::format("{}[u_] = nb_narrow({}{{}}, {});", cpp_name(b.name), storage_type(b.dtype),
                           number_text(b.dtype, start->number, start->integer)));
    body_.close();
    close_grid(g, "_clear_" + b.name);
  }
  Combiner combiner_of(int buffer) const {
    std::vector<const Store*> stores;
    collect_stores(k_.body, stores);
    auto found = std::ranges::find_if(
        stores, [&](const Store* s) { return s->buffer == buffer && s->combiner != Combiner::kNone; });
    NABLA_CHECK(found != stores.end(), "kernel @{}: nothing is combined into {}", k_.name, k_.buffers[buffer].name);
    return (*found)->combiner;
  }

  void grid(const Grid& g, const ProductMapping& cut) {
    std::optional<Kernel> statement = statements_.empty() ? std::nullopt : product_statement(k_, next_statement());
    std::optional<Product> product = find_product(statement ? *statement : k_);
    std::unique_ptr<WindowProduct> windows = product ? nullptr : find_window_product(k_);
    NABLA_CHECK(product || windows, "kernel @{} is no product", k_.name);
    open_grid();
    std::vector<TensorMap> maps =
        print_product(product ? *product : windows->product(), cut, g.threads, at_packs_, body_, next_temp_);
    close_grid(g, statement ? suffix() : "", std::move(maps));
  }

  // ---- Procedures
  void procedure() {
    NABLA_CHECK(schedule_.procedure_template, "kernel @{} has no template", k_.name);
    TemplateKind kind = *schedule_.procedure_template;
    for (const TemplatePrinter& printer : kTemplatePrinters) {
      if (printer.kind != kind) continue;
      TemplateCalls calls = printer.calls(k_);
      NABLA_CHECK(calls.size() == schedule_.grids.size(), "kernel @{}: {} calls in {} grids", k_.name, calls.size(),
                  schedule_.grids.size());
      for (size_t i = 0; i < calls.size(); ++i) call_of_template(calls[i], schedule_.grids[i]);
      return;
    }
    units_of_rows(kind == TemplateKind::kBlockPerRow, schedule_.grids.at(0));
  }

  void call_of_template(const TemplateCall& call, const Grid& g) {
    open_grid();
    const char* shared = std::get<TemplateMapping>(g.mapping).warpgroups ? "NB_SHARED_TILES" : "NB_SHARED";
    if (g.shared_bytes > 0) body_.line(fmt::format("{}(unsigned char, room_);", shared));
    body_.line(call.text);
    close_grid(g, call.suffix);
    out_.procedures = true;
  }

  // A block computes the rows of a unit, or else a thread.
  void units_of_rows(bool blocks, const Grid& g) {
    open_grid();
    int64_t unit = template_mapping(k_, 0).tile_rows;
    ir::Dim units = ir::Dim::max(1, ir::Dim::ceildiv(k_.procedure->rows(), unit));
    std::string first = blocks ? "blockIdx.x" : "nb_team<1>()", step = blocks ? "gridDim.x" : "nb_teams<1>()";
    print_procedure(k_, unit, fmt::format("for (long u_ = {}; u_ < {}; u_ += {}) {{", first, size_text(units), step),
                    body_, blocks ? "nb_block_" : "nb_");
    out_.procedures = true;
    close_grid(g, "");
  }
  void grid(const Grid&, const TemplateMapping&) { NABLA_CHECK(false, "kernel @{} has no procedure", k_.name); }

  // ---- Statements
  // None of a kernel whose body is one grid.
  std::vector<GridStatement> statements_of_grids() const {
    bool apart = std::ranges::any_of(schedule_.grids, [](const Grid& g) {
      return std::holds_alternative<TeamMapping>(g.mapping) || std::holds_alternative<TurnMapping>(g.mapping) ||
             std::holds_alternative<ScatterMapping>(g.mapping);
    });
    return apart ? grid_statements(k_) : std::vector<GridStatement>();
  }
  const GridStatement& next_statement() {
    NABLA_CHECK(next_ < statements_.size(), "kernel @{} has more grids than statements", k_.name);
    return statements_[next_++];
  }
  std::string suffix() const { return statements_.size() == 1 ? "" : fmt::format("_{}", next_ - 1); }

  void grid(const Grid& g, const TeamMapping& m) {
    const GridStatement& s = next_statement();
    const Store* lone = s.lone();
    open_grid();
    TeamPrinter printer(k_, {m.team, g.threads}, body_, next_temp_);
    printer.declare_rows(s.body);
    std::string apart = lone ? in_place_condition(k_, *lone) : "";
    if (!apart.empty()) body_.open(apart);
    heads(printer);
    m.team == 1 ? iterations(m, s.body, printer) : rows(m, s.body, printer);
    if (!apart.empty()) body_.close();
    close_grid(g, suffix());
  }
  void grid(const Grid& g, const TurnMapping& m) {
    const GridStatement& s = next_statement();
    std::optional<Turned> turned = find_turned(k_, m.parallel, s.body);
    NABLA_CHECK(turned && turned->across == m.across, "kernel @{}: statement {} turns nothing", k_.name, next_ - 1);
    open_grid();
    TeamPrinter printer(k_, {1, g.threads}, body_, next_temp_);
    heads(printer);
    print_turned(k_, *turned, m.parallel, s.body, body_, next_temp_);
    close_grid(g, suffix());
  }
  void by_packs(const std::vector<int>& buffers, const std::function<void()>& packs, const std::function<void()>& otherwise) {
    print_by_packs(k_, buffers, at_packs_, body_, packs, otherwise);
  }
  void iterations(const TeamMapping& m, const Body& body, TeamPrinter& printer) {
    auto one_by_one = [&] { printer.share_out(m.parallel, m.serial, body); };
    if (m.pack <= 1) return one_by_one();
    Packs packs = find_packs(k_, m.parallel, body);
    NABLA_CHECK(packs.width == m.pack, "kernel @{}: packs of {}, not {}", k_.name, packs.width, m.pack);
    by_packs(packs.buffers, [&] { print_packs(k_, packs, m.parallel, body, body_, next_temp_); }, one_by_one);
  }
  void rows(const TeamMapping& m, const Body& body, TeamPrinter& printer) {
    if (m.pack <= 1) return printer.share_out(m.parallel, m.serial, body);
    RowPacks packs = find_row_packs(k_, body, m.team);
    NABLA_CHECK(packs.width == m.pack, "kernel @{}: packs of {}, not {}", k_.name, packs.width, m.pack);
    auto moved = [&](bool aligned) {
      printer.move_packs(packs, aligned);
      printer.share_out(m.parallel, m.serial, body);
    };
    by_packs(packs.buffers, [&] { moved(true); }, [&] { moved(false); });
  }
  void grid(const Grid& g, const ScatterMapping& m) {
    const GridStatement& s = next_statement();
    std::optional<Scatter> scatter = s.lone() ? find_scatter(k_, *s.lone(), m.parallel, m.serial) : std::nullopt;
    NABLA_CHECK(scatter, "kernel @{}: statement {} is no scatter", k_.name, next_ - 1);
    open_grid();
    TeamPrinter printer(k_, {1, g.threads}, body_, next_temp_);
    heads(printer);
    print_scatter(k_, *scatter, m, body_, next_temp_);
    close_grid(g, suffix());
  }
  void grid(const Grid& g, const BlockMapping&) {
    open_grid();
    TeamPrinter printer(k_, {g.threads, g.threads}, body_, next_temp_);
    printer.declare_rows(k_.body);
    printer.whole(k_.body);
    close_grid(g, "");
  }

  const Kernel& k_;
  std::string symbol_;
  bool at_packs_;  // Whether all arrays begin at multiples of 16 bytes.
  const CudaSchedule& schedule_;
  std::vector<ir::SymbolRef> symbols_;
  std::vector<GridStatement> statements_;
  size_t next_ = 0;  // of the statements
  CudaKernel out_;
  CppWriter text_, body_;
  int next_temp_ = 0;
};

}  // namespace

CudaKernel print_cuda(const Kernel& kernel, const std::string& symbol, bool at_packs) {
  return KernelPrinter(kernel, symbol, at_packs).run();
}

}  // namespace nabla::codegen
