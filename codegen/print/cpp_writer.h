// Collects the text of generated C++.
#pragma once

#include <string>
#include <utility>

namespace nabla::codegen {

/// Lines of C++ with indentation.
class CppWriter {
 public:
  void line(const std::string& text) { text_ += std::string(2 * depth_, ' ') + text + "\n"; }
  void open(const std::string& text) { line(text), ++depth_; }
  void close(const std::string& text = "}") { --depth_, line(text); }
  void reopen(const std::string& text) { close(text), ++depth_; }
  std::string take() { return std::move(text_); }

  /// The kernel is so large that mathematical functions and loads of tails are called, not taken in (ExprPrinter).
  bool large_kernel = false;

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace nabla::codegen
