// What a compile works on from `local` on: the programs of all ranks, a module per class of ranks, and under them the
// global picture, which no module has. One device is the only rank of the only class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// A digit of a rank's number: rank / stride % count.
struct RankDigit {
  int64_t stride = 1, count = 1;
  bool operator==(const RankDigit&) const = default;
};
/// Most significant first.
using RankDigits = std::vector<RankDigit>;
/// The digits of a rank's number that are its coordinate along the axes. Requires check_axes.
RankDigits digits_of(const Mesh& mesh, const Axes& axes);

/// Divides all ranks: the members of one group differ in these digits alone, which number them.
struct RankGroup {
  std::string name;
  RankDigits digits;
};

/// A dimension of a part: it begins at begin + its extent * (the number that the digits make).
struct RankCut {
  int64_t begin = 0;
  RankDigits digits;
  bool operator==(const RankCut&) const = default;
};
/// Where the ranks of a class have their parts of a tensor.
struct ClassPlacement {
  int of_class = 0;           ///< of ProgramSet::classes
  int index = 0;              ///< of the class's state leaves, or of the entry's inputs or outputs
  std::vector<RankCut> cuts;  ///< one per dimension; none: every rank has the whole
  bool copy = false;          ///< another placement owns these elements
  bool operator==(const ClassPlacement&) const = default;
};

/// A tensor of all ranks together. Of ranks with the same part the lowest one owns it.
struct WholeTensor {
  std::string entry;  ///< of inputs and outputs
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;         ///< upper bounds where a caller decides
  std::vector<std::string> formulas;  ///< empty, or per dimension: empty, or the size of which `shape` has the bound
  std::vector<ClassPlacement> placements;
  bool operator==(const WholeTensor&) const = default;
};

/// The ranks that run the same programs: `first` with all values of these digits, which are 0 in it.
struct RankClass {
  std::string name;
  int64_t first = 0;
  RankDigits digits;
  std::vector<int> groups;  ///< what its programs call group 0, 1, ...: of ProgramSet::groups
  Module module;
};

struct ProgramSet {
  int64_t ranks = 1;
  std::vector<Mesh> meshes;
  std::vector<RankGroup> groups;
  std::vector<RankClass> classes;
  std::vector<WholeTensor> state, inputs, outputs;

  bool one_device() const { return ranks == 1 && classes.size() == 1; }
};

/// The name of the class of a set of one class.
inline constexpr const char* kClassOfAll = "main";

/// A local program that all ranks run, as it serves every rank of a mesh. Where parts lie in the whole follows from the
/// layouts of `sharded`, the module before `partition`, of which `local` is made; a program for one device has none,
/// and may be given as both.
ProgramSet set_of(const Module& sharded, Module local);

/// The programs of the class call these axes of the set's mesh group 0, 1, ...
void set_groups(ProgramSet& set, size_t of_class, const std::vector<Axes>& groups);

}  // namespace nabla::ir
