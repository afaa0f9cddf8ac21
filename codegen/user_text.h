// The user's text in a file of ours: what both backends write around it.
#pragma once

#include <string>

#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

/// The text of one kernel, and names that it cannot hold, because they hold its hash.
class UserFile {
 public:
  UserFile(const kernel_ir::Kernel& kernel, const kernel_ir::UserText& text);

  /// A name of ours: `nb_` + what + the hash.
  std::string name(const char* what) const { return std::string("nb_") + what + "_" + mark_; }
  /// The user's function: after the text only.
  std::string function() const { return name("user") + "::" + user_.name; }
  /// In front of the text, where its macros do not reach: the function's type by the name `type`, and what checks it.
  std::string head() const;
  /// The text at its own lines in a namespace of its own, and the check: a mistake is a static_assert that begins with
  /// "expected " and `prototype`. It leaves an anonymous namespace open, in which code that uses function() may follow;
  /// `words` are those that it needs, which are no macros then.
  std::string enclosed(const std::string& prototype, std::initializer_list<const char*> words) const;

 private:
  const kernel_ir::Kernel& kernel_;
  const kernel_ir::UserCode& user_;
  const kernel_ir::UserText& text_;
  std::string mark_;
};

/// The C++ type of a pointer that the function takes: "const float*". Types are those of the language, without ours for
/// narrow floats.
std::string user_pointer(const kernel_ir::Buffer& buffer);
/// "void scale(const float* x0, float* y0, int64_t n)": what a text must define.
std::string user_prototype(const kernel_ir::Kernel& kernel);
/// E0504 for a text that reads another file than a header that the compiler finds by itself: objects are kept by the text alone, so
/// that a change of such a file would go unseen.
Status require_own_text(const kernel_ir::UserCode& user, const kernel_ir::UserText& text);
/// What size_text may call, in C++.
extern const char* const kUserSizeFunctions;

}  // namespace nabla::codegen
