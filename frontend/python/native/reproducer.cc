#include "frontend/python/native/reproducer.h"

#include <pybind11/pybind11.h>

#include <utility>

#include "cli/driver/reproducer.h"
#include "runtime/base/check_handler.h"

namespace nabla::python {
namespace {

// Where the file of the last failure on this thread is; empty: none was written since.
thread_local std::string place;

void keep(const ir::Module& before, const std::string& command) {
  Result<std::string> where = driver::write_reproducer(before, command, "nabla");
  place = where.ok() ? *where : "no reproducer could be written: " + where.errors()[0].message;
}

void throw_report(const std::string& report) {
  if (!PyGILState_GetThisThreadState()) return;
  Diagnostic d = error(Code::kInvalidModule, "{}", report.substr(0, report.find('\n')));
  if (size_t at = report.find("  while: "); at != std::string::npos)
    d.notes.push_back(report.substr(at + 2, report.find('\n', at) - at - 2));
  d.help = "this is a bug in Nabla, not in your program";
  if (!place.empty()) d.help += ": report the reproducer", d.notes.push_back(std::exchange(place, ""));
  throw Error(std::move(d));
}

}  // namespace

void raise_failed_checks() { set_check_handler(&throw_report); }

Reproducer::Reproducer(const ir::Module& module, const std::string& command)
    : rescue_([&module, command] { keep(module, command); }) {
  place.clear();
}

passes::ManagerOptions Reproducer::manager() const {
  passes::ManagerOptions out;
  out.reproduce = &keep;
  return out;
}

Diagnostics Reproducer::with_place(Diagnostics errors) {
  if (!place.empty() && !errors.empty()) errors.back().notes.push_back(std::exchange(place, ""));
  return errors;
}

}  // namespace nabla::python
