#include "codegen/program/print.h"

#include <fmt/ranges.h>

namespace nabla::program {
namespace {

constexpr std::string_view kBases[] = {"arena", "constants", "input", "output", "host"};
constexpr std::string_view kReductions[] = {"", " sum", " prod", " max", " min", " and", " or"};

std::string str(const Operand& o) { return o.type.str() + " " + print(o.address); }

// "(reads) -> (writes)"; each operand follows its role, if it has one.
class Signature {
 public:
  void add(const Operand& o, std::string_view role = "") {
    (o.written ? writes_ : reads_).push_back(role.empty() ? str(o) : fmt::format("{}: {}", role, str(o)));
  }
  std::string str_all() const {
    std::string out = fmt::format("({})", fmt::join(reads_, ", "));
    return writes_.empty() ? out : out + fmt::format(" -> ({})", fmt::join(writes_, ", "));
  }

 private:
  std::vector<std::string> reads_, writes_;
};
std::string signature(const std::vector<Operand>& operands) {
  Signature out;
  for (const Operand& o : operands) out.add(o);
  return out.str_all();
}

class Printer {
 public:
  explicit Printer(const LocalProgram& p) : p_(p) {}

  std::string run() {
    std::string host = p_.host_bytes == 0 ? "" : fmt::format("; of the host {} bytes", p_.host_bytes);
    out_ = fmt::format("program {}\n  arena {} bytes, of which state {}; constants {} bytes{}\n", p_.target.name,
                       p_.arena_bytes, p_.state_bytes, p_.constants_bytes, host);
    for (const ir::SizeConstraint& c : p_.constraints) out_ += fmt::format("  require {}\n", c.relation.str());
    for (const LocalProgram::Leaf& l : p_.state)
      out_ += fmt::format("  state \"{}\": {} at {}+{}\n", l.name, l.type.str(), kBases[static_cast<int>(l.base)], l.offset);
    for (const kernel_ir::KernelPtr& k : p_.kernels) {
      out_ += fmt::format("  kernel @{}: {}\n", k->name, std::visit([](const auto& s) { return text(s); }, *k->schedule));
    }
    for (size_t i = 0; i < p_.blocks.size(); ++i) {
      out_ += fmt::format("\nblock {}\n", i);
      print_list(p_.blocks[i]);
    }
    for (const Entry& e : p_.entries) print_entry(e);
    return out_;
  }

 private:
  static std::string text(const kernel_ir::CpuSchedule& s) {
    std::string threads = s.max_threads > 1 ? fmt::format(", at most {} threads", s.max_threads) : "";
    return fmt::format("{} unit{}{}", s.units.str(), s.units.is(1) ? "" : "s", threads);
  }
  static std::string text(const kernel_ir::CudaSchedule& s) {
    return fmt::format("{} grid{}", s.grids.size(), s.grids.size() == 1 ? "" : "s");
  }
  std::string tensors(const std::vector<Named>& list) const {
    std::vector<std::string> out;
    for (const Named& t : list) out.push_back(fmt::format("{}: {}", t.name, t.type.str()));
    return fmt::format("({})", fmt::join(out, ", "));
  }
  std::string leaves(const std::vector<int>& list) const {
    std::vector<std::string> out;
    for (int i : list) out.push_back(fmt::format("\"{}\"", p_.state[i].name));
    return fmt::format("{}", fmt::join(out, ", "));
  }

  void print_entry(const Entry& e) {
    out_ += fmt::format("\nentry {}{} -> {}\n", e.name, tensors(e.inputs), tensors(e.outputs));
    if (!e.reads.empty()) out_ += fmt::format("  reads {}\n", leaves(e.reads));
    if (!e.writes.empty()) out_ += fmt::format("  writes {}\n", leaves(e.writes));
    for (const ir::SizeSource& s : e.sources) {
      ir::Dim extent = s.scale * ir::Dim::symbol(s.symbol) + s.offset;
      out_ += fmt::format("  {} in [{}, {}] from {} = extent {} of input {}\n", s.symbol->name, s.symbol->min,
                          s.symbol->max, extent.str(), s.dimension, s.input);
    }
    print_list(e.instructions);
    for (const Variant& v : e.variants) {
      std::vector<std::string> values;
      for (const auto& [name, value] : v.values) values.push_back(fmt::format("{}={}", name, value));
      out_ += fmt::format("\n  variant {}\n", fmt::join(values, ", "));
      print_list(v.instructions);
    }
  }

  void print_list(const Instructions& list) {
    for (const Instruction& i : list) {
      std::visit([&](const auto& action) { print_action(action, i); }, i.action);
      out_ += "\n";
    }
  }

  void line(const std::string& text) { out_ += "  " + text; }
  std::string kernel(const Launch& a) const { return p_.kernels[a.kernel]->name; }

  void print_action(const Launch& a, const Instruction&) {
    line(fmt::format("launch @{} {}", kernel(a), signature(a.operands)));
  }
  void print_action(const LibraryCall& a, const Instruction&) {
    Signature roles;
    for (const LibraryCall::Role& r : a.roles) roles.add(r.operand, r.name);
    auto [key, epilogue] = std::visit([](const auto& p) { return std::pair(p.key(), p.epilogue()); }, a.problem);
    line(fmt::format("{} by {} {} {}", key, a.library, a.implementation, roles.str_all()));
    if (!epilogue.empty()) out_ += fmt::format(" epilogue {}", epilogue);
    if (a.workspace) out_ += fmt::format(" workspace {} bytes {}", a.workspace->bytes, print(*a.workspace));
    if (a.fallback) out_ += fmt::format("\n    fallback @{} {}", kernel(*a.fallback), signature(a.fallback->operands));
  }
  void print_action(const Copy& a, const Instruction& i) {
    line(fmt::format("copy {} -> {}  // {}", str(a.from), print(a.to.address), i.label));
  }
  void print_action(const Transfer& a, const Instruction& i) {
    line(fmt::format("{} handle {} {}", i.label, a.handle, signature({a.from, a.to})));
  }
  void print_action(const Loop& a, const Instruction& i) {
    line(fmt::format("loop r{} {} {} block {}  // {}", a.counter, a.reverse ? "down from" : "up to", a.trips.str(),
                     a.body, i.label));
  }
  void print_action(const While& a, const Instruction& i) {
    line(fmt::format("while block {} sets {} block {}  // {}", a.condition, print(a.predicate), a.body, i.label));
  }
  void print_action(const Branch& a, const Instruction& i) {
    line(fmt::format("branch by {} to blocks {}  // {}", str(a.index), fmt::join(a.blocks, ", "), i.label));
  }
  void print_action(const Call& a, const Instruction&) {
    line(fmt::format("call block {}", a.block));
    for (const Call::Set& s : a.registers) out_ += fmt::format(" r{}={}", s.counter, s.value);
  }
  void print_action(const Debug& a, const Instruction& i) {
    line(fmt::format("{} \"{}\" {}", i.label, a.callback.empty() ? a.text : a.callback, signature(a.operands)));
  }
  void print_action(const Collective& a, const Instruction&) {
    std::string how;
    if (a.kind == CollectiveKind::kBroadcast) how = fmt::format(" root {}", a.root);
    if (a.kind == CollectiveKind::kPermute) how = fmt::format(" targets {}", fmt::join(a.targets, ","));
    line(fmt::format("{}{} group {}{} handle {} {}", collective_def(a.kind).name,
                     kReductions[static_cast<int>(a.reduction)], a.group, how, a.handle, signature({a.from, a.to})));
  }
  void print_action(const Send& a, const Instruction&) {
    line(fmt::format("send channel {} handle {} {}", a.channel, a.handle, signature({a.from})));
  }
  void print_action(const Recv& a, const Instruction&) {
    line(fmt::format("recv channel {} handle {} {}", a.channel, a.handle, signature({a.to})));
  }
  void print_action(const Wait& a, const Instruction&) {
    line(fmt::format("wait handle {} {}", a.handle, signature(a.operands)));
  }

  const LocalProgram& p_;
  std::string out_;
};

}  // namespace

std::string print(const Address& a) {
  std::string out(kBases[static_cast<int>(a.base)]);
  bool indexed = a.base == ir::Base::kInput || a.base == ir::Base::kOutput;
  if (indexed) out += fmt::format(" {}", a.index);
  if (!indexed || a.offset != 0) out += fmt::format("+{}", a.offset);
  for (const Address::Term& t : a.terms) {
    std::string counter = fmt::format("r{}", t.counter);
    if (t.modulus != 0) counter = fmt::format("({}%{})", counter, t.modulus);
    out += "+" + counter + (t.stride.is_static() ? "*" + t.stride.str() : "*(" + t.stride.str() + ")");
  }
  return out;
}

std::string print(const LocalProgram& program) { return Printer(program).run(); }

}  // namespace nabla::program
