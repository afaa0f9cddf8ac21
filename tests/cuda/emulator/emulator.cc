#include "tests/cuda/emulator/emulator.h"

#include <cstring>

#include "tests/cuda/emulator/engine.h"

namespace nabla::emulator {

std::string Finding::str() const {
  std::string place = fmt::format("block {}, thread {}", block, thread);
  if (line > 0) place += fmt::format(", line {}", line);
  if (!source_line.empty()) place += fmt::format(": `{}`", source_line);
  return fmt::format("{}: {} ({})", kind, text, place);
}

std::string Report::str() const {
  std::string out;
  for (const Finding& f : findings) out += f.str() + "\n";
  return out;
}

std::string Options::str() const {
  const char* orders[] = {"forward", "reverse", "random"};
  return fmt::format("{}{}, {} copies", orders[static_cast<int>(order)],
                     order == Order::kRandom ? fmt::format(" {}", seed) : "", late_copies ? "late" : "eager");
}

Machine::Machine(bool checked) : memory_(checked) {
  if (checked)
    checker_ = std::make_unique<Checker>(memory_, [](const char* kind, const std::string& text, const void* pc) {
      Engine::get().fault(kind, text, pc);
    });
}

Machine::~Machine() = default;

void* Machine::allocate(int64_t bytes, const std::string& name) { return memory_.allocate(bytes, name); }

void Machine::write(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, bytes);
  memory_.mark_initialised(to, bytes);
}

void Machine::poison(void* at, int64_t bytes) {
  std::memset(at, 0xff, bytes);
  memory_.mark_uninitialised(at, bytes);
}

void Machine::expect_written(const void* at, Report& report) const {
  int64_t first = memory_.first_unwritten(at);
  if (first < 0) return;
  Finding f;
  f.kind = "unwritten";
  f.text = memory_.find(at)->place(static_cast<const char*>(at) + first) + " is never written";
  report.findings.push_back(std::move(f));
}

Traffic& Traffic::operator+=(const Traffic& x) {
  global_read += x.global_read, global_written += x.global_written;
  shared_read += x.shared_read, shared_written += x.shared_written;
  sectors += x.sectors, least_sectors += x.least_sectors;
  bank_clocks += x.bank_clocks, least_bank_clocks += x.least_bank_clocks;
  return *this;
}

Report Machine::launch(const Object& object, const std::string& symbol, const Shape& shape,
                       const std::vector<void*>& args, const Options& options) {
  Report report;
  auto refuse = [&](const char* kind, const std::string& text) {
    Finding f;
    f.kind = kind, f.text = text;
    report.findings.push_back(std::move(f));
  };
  const NbEmuKernel* kernel = object.find(symbol);
  if (!kernel || kernel->args != static_cast<int>(args.size())) {
    refuse("launch", kernel ? fmt::format("`{}` takes {} arguments, not {}", symbol, kernel->args, args.size())
                            : fmt::format("there is no kernel `{}`", symbol));
    return report;
  }
  std::vector<void*> values = args;
  Launch launch{&object.table(), kernel, shape.blocks, shape.threads, shape.shared_bytes, values.data()};
  Engine::get().run(
      launch, options, [&](const void* pc) { return object.lines(pc); }, checker_.get(), report);
  for (Finding& f : report.findings) {
    f.line = object.line(f.pc);
    f.source_line = object.source_line(f.line);
  }
  for (const std::string& name : memory_.broken_guards()) refuse("bounds", "a write next to `" + name + "`");
  return report;
}

}  // namespace nabla::emulator
