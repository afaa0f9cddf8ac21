// The toy bundle of the runtime's tests, built by hand. State: `w` f32[4]. Entries:
//   init(seed u32[])                     w[i] = seed + i
//   step(x f32[2,4]) -> loss f32[]       w += column sums of x; loss = sum of w
//   eval(x f32[2,4], mask f32[2]) -> mean f32[]    mean of x[b,0] over mask's ones
//   predict(x f32[2,4]) -> y f32[2,4]    y = x * w
//   dense(a f32[64,32]) -> c f32[64,16]  a times a constant matrix of ones, by oneDNN; only with `with_dense`
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/format/bundle_writer.h"

namespace nabla::exec {

std::unique_ptr<format::ProgramT> toy_program();
/// A bundle of such programs, with the CPU's kernels and the constants of the first beside `members`.
std::string bundle_of(const std::vector<const format::ProgramT*>& programs, std::vector<format::BundleMember> members);

/// The bundle's bytes after `change` was applied to the program. Needs libtest_kernels.so in the runfiles.
std::string toy_bundle(const std::function<void(format::ProgramT&)>& change = nullptr);

/// Adds the entry `dense`, which needs the library `soname`.
void with_dense(format::ProgramT& program, const std::string& soname = "libdnnl.so.2");

/// Writes the bundle below the test's temporary folder and returns its path.
std::string write_toy_bundle(const std::string& name, const std::function<void(format::ProgramT&)>& change = nullptr);

}  // namespace nabla::exec
