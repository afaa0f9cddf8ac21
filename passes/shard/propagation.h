// The algorithm behind `propagate`: axes of dimensions, and who gave them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.h"
#include "passes/shard/layout.h"
#include "passes/shard/layout_order.h"
#include "passes/shard/propagate.h"
#include "passes/shard/rules/rules.h"

namespace nabla::passes {

/// Lays out the values of a flat module without regions (place_regions) over its mesh.
class Propagation {
 public:
  /// `explains`: keeps what did not come about. `late`: axes that other values get last.
  Propagation(const ir::Module& m, bool explains, PassContext& context, const LateAxes& late = {})
      : m_(m), mesh_(*m.mesh()), explains_(explains), context_(context), late_(late) {}

  Result<ir::Module> run();
  /// Why the value has its layout. Requires that `run` has ended.
  LayoutExplanation explain(const std::string& function, ir::ValueId value) const;

 private:
  /// A dimension of a value: what the algorithm gives axes to. Dimensions that must agree (a carry in and out of a
  /// loop, a leaf in two entries) are one.
  struct Place {
    int function;
    ir::ValueId value;
    int dim;
  };
  /// What a dimension may still get. Constraints on values in the middle say how they lie over the ranks, and nothing of when parts
  /// are computed.
  enum Closed : char { kOpen, kToRanks, kAltogether };
  /// Which node hands axes on, and from which dimension.
  struct Cause {
    int function;
    const ir::Node* node;
    int from;  ///< a place
  };
  /// A tensor of a node with the factors of its dimensions.
  struct Tensor {
    ir::ValueId value;
    const ir::Factors::Tensor* dims;
  };

  /// What is followed: only elementwise ops and movements, or all; and what a conflict leaves open, or what it is
  /// worth.
  struct Phase {
    bool movement, aggressive;
  };
  struct NodeState {
    ir::Factors factors;
    Ties ties;
    bool known = false;      ///< are they there?
    bool contested = false;  ///< do its tensors ask for what cannot both be?
    int64_t seen = -1;       ///< when it was looked at last
  };
  /// Who laid a value out.
  struct Said {
    std::string who;
    LocationRef at;
    bool constraint = false;  ///< an op of the program, and neither an input nor a leaf
  };
  /// What won at a node, and what lost.
  struct Conflict {
    std::string winner, loser;          ///< "the layout of %w", ...
    int64_t winner_bytes, loser_bytes;  ///< of the tensors that move, if this one wins
  };
  /// What a factor may get, and the tensors that have it so.
  struct Candidate {
    ir::Axes axes;
    int place;  ///< of the largest tensor
    ir::ValueId largest;
    int64_t bytes;  ///< of all
  };

  // ---- Variables: one per dimension, joined where they must agree. propagation.cc
  void number();
  int variable(int f, ir::ValueId v, int d) const { return find(first_[f][v] + d); }
  int find(int v) const {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void join(int f, ir::ValueId a, int g, ir::ValueId b, int skip_a = 0, int skip_b = 0);
  void tie();
  void tie_control(int f, const ir::Node& n);

  // ---- What the user said.
  std::set<int> priorities() const;
  Result<Ok> annotate(int priority);
  Result<Ok> annotate(int f, ir::ValueId v, const ir::Sharding* s, int priority, const Said& said);
  /// A leaf of the state keeps its share: what is said of a dimension that a stronger priority has laid out otherwise goes to the
  /// first one after it that is free, or beside what is there. Not where no dimension takes it.
  bool beside(int f, ir::ValueId v, const ir::Sharding& s, int dim, const Said& said);
  Diagnostic contradiction(int f, ir::ValueId v, int dim, const ir::DimSharding& wish, const Said& said,
                           const char* unfit) const;

  // ---- One node. propagation_rules.cc
  void to_fixpoint(Phase phase);
  bool sweep(int f, bool forward);
  bool changed_since(int f, const ir::Node& n, int64_t when) const;
  bool visit(int f, size_t index);
  bool relate(int f, const ir::Node& n, NodeState& state);
  bool hand_on(int f, const ir::Node& n, const Ties& ties);
  bool relate_border(int f, const ir::Node& n);
  bool relate_barrier(int f, const ir::Node& n);
  /// Axes of the first operand to those of the first result, dimension by dimension, and back.
  bool pass_on(int f, const ir::Node& n, bool forward, bool backward);
  /// Per factor what its tensors have, those that continue others alone. Values that are made of scalars take axes and hand none on to
  /// other values: every reader has such a value as it wants it. Example: gradients of all weights are scaled by one broadcast number.
  std::vector<std::vector<Candidate>> candidates(int f, const ir::Factors& factors,
                                                 const std::vector<Tensor>& all) const;
  Candidate chosen(int f, const ir::Node& n, const std::vector<Candidate>& of_factor, NodeState& state);
  /// The dimensions of a tensor in the order in which they are to get what they want.
  std::vector<size_t> order(int f, const ir::Node& n, const Tensor& t, const std::vector<ir::Axes>& wanted,
                            const std::vector<Candidate>& from, NodeState& state);
  /// The axes of a dimension that others may get now: those before its first late axis, while late axes wait.
  ir::Axes handed_on(int variable) const;
  void hold_late_axes();
  void set(int variable, ir::Axes axes) { axes_[variable] = std::move(axes), changed_[variable] = ++clock_; }
  bool extend(int place, const ir::Axes& axes, const Cause& cause);
  bool refuse(int variable, const ir::Axes& axes, const Cause& cause, const std::string& why);
  /// `follows`: the axes come from another value, and not from what the user said.
  const char* misfit(int variable, const ir::Axes& axes, bool follows, bool allow_padding = false) const;
  int64_t bytes(int f, ir::ValueId v) const { return m_.functions[f]->type(v).bytes().bounds().max; }

  // ---- Explanations. propagation_report.cc
  std::string name_of(int place) const;
  const std::pair<int, Cause>* cause_of(int variable, size_t count) const;
  void follow(int variable, DimExplanation& out) const;
  std::map<std::string, std::pair<Cause, std::string>> refused_of(int variable) const;
  void report_conflicts();

  // ---- The result.
  ir::ShardingRef sharding(int f, ir::ValueId v) const;
  ir::Module result() const;

  const ir::Module& m_;
  const ir::Mesh& mesh_;
  bool explains_;
  PassContext& context_;
  const LateAxes late_;
  std::map<int, std::set<std::string>> held_;     // of the roots: late axes that wait
  std::map<std::string, int> index_;              // of functions
  std::vector<std::vector<int>> first_;           // variable of dimension 0, per function and value
  std::vector<std::vector<char>> free_;           // per function and value: is it made of scalars alone?
  std::vector<Place> places_;                     // per variable
  mutable std::vector<int> parent_;               // union-find
  std::vector<std::vector<int>> members_;         // of the roots
  std::vector<ir::Axes> axes_;                    // of the roots
  std::vector<Closed> closed_;                    // of the roots
  std::vector<char> of_leaf_;                     // of the roots: a dimension of a state leaf
  std::map<int, ir::Axes> kept_off_;              // of such: along which the leaf is the same on all ranks
  std::map<int, Said> said_by_;                   // of those that were annotated: by whom
  /// Why a variable has its first n axes, by n: the place that got the last of them, and the cause. A variable that got them from the
  /// user's layout has a cause without a node.
  std::map<int, std::map<size_t, std::pair<int, Cause>>> because_;
  std::map<int, std::map<std::string, std::pair<Cause, std::string>>> refused_;  // by axes: what did not come about
  std::vector<std::vector<std::pair<int, ir::ValueId>>> leaves_;  // where each state leaf is read and written
  std::vector<std::vector<NodeState>> nodes_;                     // per function and node
  std::vector<int64_t> changed_;                                  // of the roots: when
  int64_t clock_ = 0;
  Phase phase_ = {};
  int priority_ = 0;  // of what is followed
  std::map<std::pair<int, const ir::Node*>, Conflict> conflicts_;  // by function and node
};

/// Why axes do not fit where the extent does not allow them; compared by its address.
extern const char* const kIndivisible;

}  // namespace nabla::passes
