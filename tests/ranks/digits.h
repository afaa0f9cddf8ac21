// The digits MLP as the program of many ranks, for tests that train it in processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nabla::tests {

/// In the folder of the test's files.
std::string path(const std::string& name);
/// Writes its module, m.nir, for `compile`. Both assert that it went well.
void write_digits();
/// Compiles it for a mesh, "dp=2,tp=2": NAME.nbundle.
void compile_digits(const std::string& mesh, const std::string& name, const std::string& target = "cpu");
/// The words of nabla-run that train NAME.nbundle, with more of them in between.
std::vector<std::string> train_digits(const std::string& name, int64_t steps, const std::vector<std::string>& more);
/// Have both files the same bytes?
void expect_same_file(const std::string& a, const std::string& b);

/// The words that start so many ranks on this machine, before those of the program.
std::vector<std::string> mpirun(int ranks);

}  // namespace nabla::tests
