// One program with layouts: its values and its gradients on simulated ranks are those of one rank, and so many bytes
// are sent.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/remark.h"

namespace nabla::shard_tests {

struct Sent {
  double forward = 0;   ///< bytes that a rank sends, by @f
  double gradient = 0;  ///< and by its gradient
  std::string ops;      ///< the collectives of @f, in order
  std::string text;     ///< the local programs of @f and its gradient @g
  std::vector<ir::Remark> remarks;  ///< but for those about axes that nothing lies along
};

/// Adds @loss, a quarter of the sum of the squares of the first result of @f, and its gradient @g, to a module whose
/// transforms are not lowered yet. Other results have no part in it.
void add_gradient(ir::Module& traced, const std::vector<int64_t>& wrt);
/// Lays out the parameters of the function as those of `like`.
void lay_out_as(ir::Module& m, const std::string& function, const ir::Function& like);

/// Bytes that one rank sends in the collectives of a local function and of the scans that it runs. Branches and other
/// functions exchange nothing.
double bytes_sent(const ir::Module& local, const std::string& function);

/// Runs @f(params), whose result is one tensor, on every rank of the mesh, and compares with one rank; test failures
/// where they differ. Floating results are differentiated too: the gradient @g of the sum of squares of the result with
/// respect to `wrt`; none where wrt is empty. `compiled`: on threads as well.
struct Scene {
  std::string mesh, params, body;
  std::vector<int64_t> wrt = {0};
  bool compiled = false;
  /// Arguments; those that are not given are drawn, floats without ties.
  std::vector<Literal> args = {};
  std::string symbols = {};  ///< lines that declare sizes; then all arguments are given
};
Sent expect_same(const Scene& scene);

}  // namespace nabla::shard_tests
