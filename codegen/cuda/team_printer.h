// Prints the statements of a kernel for a team of threads that executes them together.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/pack_reader.h"
#include "codegen/print/expr_printer.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/row_packs.h"

namespace nabla::codegen {

/// The threads that execute one iteration together: a single thread, a warp, or a whole block.
struct Team {
  int size = 1;
  int block = 256;  ///< threads per block, a multiple of `size`
  int per_block() const { return block / size; }
  bool alone() const { return size == 1; }
};

/// Prints bodies into `out`. Every thread of the team computes scalars, all threads of the team compute a reduction
/// together, rows are kept in shared memory, and the axes that a store adds are distributed over the threads. A barrier is
/// printed wherever a thread reads what another thread wrote.
class TeamPrinter {
 public:
  TeamPrinter(const kernel_ir::Kernel& kernel, Team team, CppWriter& out, int& next_temp)
      : k_(kernel), team_(team), out_(out), next_temp_(next_temp) {}

  /// Declares the rows of `body` in shared memory, if there are any.
  void declare_rows(const kernel_ir::Body& body);

  /// Threads move packs along rows from now on. `aligned`: by one instruction each, where all addresses admit it; else element by
  /// element, in the same order, so that sums have the same bits.
  void move_packs(kernel_ir::RowPacks packs, bool aligned) { packs_ = std::move(packs), aligned_ = aligned; }
  /// Distributes the iterations of `parallel` over all teams of the grid; each team runs those of `serial` in order.
  void share_out(const std::vector<int>& parallel, const std::vector<int>& serial, const kernel_ir::Body& body);
  /// Prints a whole kernel for one block.
  void whole(const kernel_ir::Body& body);
  /// Prints a scalar, which every thread computes for itself.
  void number(const kernel_ir::Let& let);

 private:
  struct Access {
    int buffer;
    std::vector<kernel_ir::Expr> at;
    std::vector<int> shared_out;  // The axes of the statement that are distributed over the threads.
    bool once;                    // Whether a single thread executes the statement.
  };
  /// The accesses since the last barrier that later accesses of other threads must not overtake.
  struct Pending {
    std::vector<Access> loads, stores;
    std::set<int> written;  // Rows in shared memory; the thread that owns an element wrote it.
    std::set<int> lent;     // Rows in shared memory from which other threads than the owners read.

    void add(const Pending& other);
  };

  bool serial() const { return team_.alone() || inside_; }
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }
  std::string extent(int axis) const { return size_text(k_.axes[axis].extent); }
  std::string points(const std::vector<int>& axes) const;
  int64_t most(const std::vector<int>& axes) const;
  int64_t room(const std::vector<int>& axes) const;  // of a local array, which C++ does not let be empty
  bool may_be_empty(const std::vector<int>& axes) const;
  ExprPrinter printer() { return ExprPrinter(k_, places_, out_, next_temp_); }

  // Loops; each returns how many braces it opened.
  size_t open_loops(const std::vector<int>& axes);
  size_t open_flat(const std::vector<int>& axes, const std::string& counter, const std::string& first,
                   const std::string& step, int width = 1);
  void flat_axes(const std::vector<int>& axes, const std::string& counter, int width);
  size_t open_shared_out(const std::vector<int>& axes, int width = 1);
  size_t open_kept(const std::vector<int>& axes, int trips, std::string& trip);

  // Statements whose axes are shared out: `each` prints one element of `e`, whose result goes to `target`, an element of a pack
  // that is stored at `to`; no target: not by packs, or nothing is stored so.
  using Each = std::function<void(const kernel_ir::Expr& e, const std::string& target)>;
  void share(const std::vector<int>& axes, const kernel_ir::Expr& e, const std::optional<PackPlace>& to, const Each& each);
  void declare_kept();
  std::optional<PackPlace> pack_of(const kernel_ir::Store& s) const;
  bool counts_narrow(const std::vector<int>& axes) const;
  void close(size_t count);

  void sync();
  void repeat(bool may_be_empty, const std::function<void()>& iteration);
  void note_loads(const kernel_ir::Expr& e, const std::vector<int>& shared_out, bool once);
  void before_store(const kernel_ir::Store& s, const std::vector<int>& shared_out, bool once);
  void before_reads(const kernel_ir::Expr& e, const std::vector<int>& shared_out, bool once);
  void before_row(int value);
  bool reads_only_at(int buffer, const std::vector<kernel_ir::Expr>& place) const;
  bool is_lent(const kernel_ir::Expr& x, const std::vector<int>& shared_out, bool once) const;

  void body(const kernel_ir::Body& b);
  void stmt(const kernel_ir::Let& s);
  void stmt(const kernel_ir::Store& s);
  void stmt(const kernel_ir::For& s);
  void stmt(const kernel_ir::Loop& s);
  void loop_state(const kernel_ir::Loop& l);
  void next_state(const kernel_ir::Loop& l);
  void before_iterations(const kernel_ir::Body& b, const std::vector<int>& axes);
  void row(const kernel_ir::Let& s);
  void narrow_rows(const kernel_ir::Let& s);
  void store_one(const kernel_ir::Store& s);
  void atomic_store(const kernel_ir::Store& s);
  void accumulate(const kernel_ir::Let& s, const kernel_ir::Expr& e, const std::string& acc);
  void combine(const kernel_ir::Let& s, const std::string& partial, const std::string& result);
  std::string element(const kernel_ir::ValueInfo& v);
  void assign_row(const kernel_ir::ValueInfo& v, const std::string& name, const kernel_ir::Expr& e);

  kernel_ir::Kernel k_;  // It has a value more for each pack that is read.
  Team team_;
  kernel_ir::RowPacks packs_;
  bool aligned_ = true;
  std::vector<PackReader::Kept> kept_;  // As packs_.kept, in the iteration that is printed.
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
  std::vector<int> parallel_;  // The axes that are distributed over the teams of the grid.
  Pending pending_;
  bool inside_ = false;  // Whether a loop is open whose iterations single threads execute.
};

}  // namespace nabla::codegen
