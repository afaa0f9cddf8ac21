// The algorithm behind `propagate`: axes of dimensions, and who gave them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// Lays out the values of a flat module without regions (place_regions) over its mesh.
class Propagation {
 public:
  /// `explains`: keeps what did not come about.
  Propagation(const ir::Module& m, bool explains, PassContext& context)
      : m_(m), mesh_(*m.mesh()), explains_(explains), context_(context) {}

  Result<ir::Module> run();
  /// Why the value is laid out as it is: by dimension, back to what the user said, and what did not come about. After
  /// run.
  std::string explain(const std::string& function, ir::ValueId value) const;

 private:
  /// A dimension of a value: what the algorithm gives axes to. Dimensions that must agree (a carry in and out of a
  /// loop, a leaf in two entries) are one.
  struct Place {
    int function;
    ir::ValueId value;
    int dim;
  };
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
  Result<Ok> annotate();
  Result<Ok> annotate(int f, ir::ValueId v, const ir::Sharding* s, const std::string& who);
  Diagnostic contradiction(int f, ir::ValueId v, int dim, const ir::DimSharding& said, const std::string& who) const;

  // ---- One node. propagation_rules.cc
  bool sweep(int f, bool forward);
  bool relate(int f, const ir::Node& n);
  bool relate_border(int f, const ir::Node& n);
  bool relate_barrier(int f, const ir::Node& n);
  std::vector<ir::Axes> agree(int f, const ir::Node& n, const ir::Factors& factors, const std::vector<Tensor>& all,
                              std::vector<int>& places);
  bool extend(int place, const ir::Axes& axes, const Cause& cause);
  bool refuse(int variable, const ir::Axes& axes, const Cause& cause, const char* why);
  const char* misfit(int variable, const ir::Axes& axes) const;
  int64_t bytes(int f, ir::ValueId v) const { return m_.functions[f]->type(v).bytes().bounds().max; }

  // ---- Explanations. propagation_report.cc
  std::string name_of(int place) const;
  std::string chain(int variable) const;
  std::map<std::string, std::pair<Cause, const char*>> refused_of(int variable) const;
  void report_conflicts();

  // ---- The result.
  ir::ShardingRef sharding(int f, ir::ValueId v) const;
  ir::Module result() const;

  const ir::Module& m_;
  const ir::Mesh& mesh_;
  bool explains_;
  PassContext& context_;
  std::map<std::string, int> index_;              // of functions
  std::vector<std::vector<int>> first_;           // variable of dimension 0, per function and value
  std::vector<Place> places_;                     // per variable
  mutable std::vector<int> parent_;               // union-find
  std::vector<std::vector<int>> members_;         // of the roots
  std::vector<ir::Axes> axes_;                    // of the roots
  std::vector<char> closed_;                      // of the roots
  std::map<int, std::string> said_by_;            // of those that were annotated: by whom
  std::map<int, std::pair<int, Cause>> because_;  // of those that got axes: the place where, and the last cause
  std::map<int, std::map<std::string, std::pair<Cause, const char*>>> refused_;  // by axes: what did not come about
  std::vector<std::vector<std::pair<int, ir::ValueId>>> leaves_;  // where each state leaf is read and written
  std::map<const ir::Node*, ir::Factors> factors_;
  std::map<std::pair<int, int64_t>, std::pair<ir::ValueId, ir::ValueId>>
      conflicts_;  // by function and node: who won, who lost
};

}  // namespace nabla::passes
