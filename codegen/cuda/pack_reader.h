// Prints what a thread reads and writes along one axis by packs of neighbouring elements.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/print/expr_printer.h"
#include "ir/kernel_ir/row_packs.h"

namespace nabla::codegen {

/// Where a pack lies: in an array, or in a row that a team keeps in shared memory.
struct PackPlace {
  std::string name, type;             ///< of the array; of its elements in memory
  std::vector<kernel_ir::Expr> at;    ///< where the loops stand
  ir::Shape shape;
};
/// Prints what moves by packs where all of these buffers begin at multiples of 16 bytes, and else `otherwise`; nothing is asked at run
/// time where `at_packs` says that all arrays do.
void print_by_packs(const kernel_ir::Kernel& kernel, const std::vector<int>& buffers, bool at_packs, CppWriter& out,
                    const std::function<void()>& packs, const std::function<void()>& otherwise);

PackPlace buffer_place(const kernel_ir::Kernel& kernel, int buffer, const std::vector<kernel_ir::Expr>& at);
PackPlace row_place(const kernel_ir::Kernel& kernel, int value, const std::vector<kernel_ir::Expr>& at);

/// Within loops in which axis `lane` stands at the first element of a pack, NAME_first_, and other axes in their names.
class PackReader {
 public:
  /// `kernel` gets a value for each load. `aligned`: packs are moved by one instruction, else element by element.
  PackReader(kernel_ir::Kernel& kernel, int width, int lane, bool aligned, CppWriter& out, int& next_temp)
      : k_(kernel), width_(width), lane_(lane), aligned_(aligned), out_(out), next_temp_(next_temp) {}

  /// What registers hold from the first time on that it is read: a pack for each trip, in an array of this name.
  struct Kept {
    kernel_ir::Expr load;
    std::string name;
    bool loaded;
  };
  /// Prints the packs that an expression reads; those of `kept` are the ones of `trip`.
  void load(const kernel_ir::Expr& e, const std::vector<Kept*>& kept = {}, const std::string& trip = "");
  /// Opens the loop over the elements `l_` of a pack, with what was read.
  void open(std::map<int, ValuePlace>& places);
  /// The expression for element `l_`.
  kernel_ir::Expr element(const kernel_ir::Expr& e) const;

  /// Whether the elements at this place are a pack.
  bool moves(const PackPlace& place) const;
  /// The pack that is to be stored there, declared as `name`.
  void declare(const PackPlace& place, const std::string& name);
  void store(const PackPlace& place, const std::string& name);

 private:
  /// Random words of a key that the elements of a pack take from whole blocks of four: `stride` each.
  struct Words {
    kernel_ir::Expr k0, k1;
    kernel_ir::Affine first;  ///< of the pack's first element, a multiple of 4
    int64_t stride;
    std::string name;  ///< of the array of blocks
    bool operator==(const Words& o) const;
  };
  /// A word of the element, and the value that stands for it.
  struct Word {
    kernel_ir::Expr call;
    size_t of;  ///< words_
    int64_t offset;
    int value;
  };

  std::string first(const PackPlace& place) const;
  std::string first(const kernel_ir::Affine& flat) const;
  std::string read(const PackPlace& place) const;
  void take_word(const kernel_ir::Expr& call);
  void open_words(const std::map<int, ValuePlace>& places);

  kernel_ir::Kernel& k_;
  int width_, lane_;
  bool aligned_;
  CppWriter& out_;
  int& next_temp_;
  std::vector<std::pair<kernel_ir::Expr, int>> loaded_;  // What was read, and the values that stand for it.
  std::vector<Words> words_;
  std::vector<Word> taken_;
};

}  // namespace nabla::codegen
