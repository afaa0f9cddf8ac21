// Random chains of transforms over random programs; each link knows what its results are, given those below it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/transforms/random_program.h"

namespace nabla::transforms {

using Literals = std::vector<Literal>;

/// One transform. All functions are of floating tensors alone.
class Link {
 public:
  virtual ~Link() = default;
  virtual std::string name() const = 0;
  /// Adds @outer, made of @inner.
  virtual void add(ir::Module& m, const std::string& outer, const std::string& inner) = 0;
  /// How @outer's results `got` differ from what they should be, given a way to run @inner. Nothing where no number
  /// says: at a jump or a kink of @inner.
  using Run = std::function<Literals(const Literals&)>;
  virtual std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) = 0;
};

/// Functions f0, f1, ... of a traced module, f64: a random program under `links`, in this order.
struct Composition {
  ir::Module module;
  std::vector<std::unique_ptr<Link>> links;  ///< one to three
  std::string text;                          ///< "vmap(jvp(f0"
  std::string outermost() const { return "f" + std::to_string(links.size()); }
};
Composition random_composition(uint64_t seed);

}  // namespace nabla::transforms
