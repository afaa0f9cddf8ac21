// Finds functions in C++ text by their braces, well enough to measure how long they are.
#pragma once

#include <string>
#include <vector>

namespace nabla::style {

struct FunctionLines {
  std::string head;  ///< what stands before the opening brace, for messages
  int first, last;   ///< lines, from 1
};

/// Function bodies outside other functions; lambdas and local classes count for the function around them.
/// Preprocessor lines, strings and comments are not looked into.
std::vector<FunctionLines> find_functions(const std::string& text);

}  // namespace nabla::style
