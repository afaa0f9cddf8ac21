#include "cli/driver/tuning.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/driver/emit_program.h"
#include "cli/driver/machine.h"
#include "cli/driver/report_text.h"
#include "ir/library/convolution.h"
#include "ir/library/gemm.h"
#include "ir/library/implementation.h"
#include "passes/lower/prepare.h"
#include "passes/pass_manager.h"
#include "runtime/base/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::driver {
namespace {

constexpr const char* kHeader = "nabla-tuning 3";
constexpr const char* kOldHeaders[] = {"nabla-tuning 1", "nabla-tuning 2"};
bool is_old_header(std::string_view line) {
  return std::find(std::begin(kOldHeaders), std::end(kOldHeaders), line) != std::end(kOldHeaders);
}
// What may stand after a key of this kind of problem.
std::vector<std::string> choices_of(bool gpu, std::string_view kind) {
  std::vector<std::string> out = {"generated"};
  for (const ir::Implementation& i : ir::implementations())
    if (i.problem == kind && i.gpu == gpu) out.emplace_back(i.name);
  return out;
}

std::string_view known_kind(std::string_view text, std::string_view& rest) {
  return kind_of_key<GemmProblemOf<int64_t>, ConvolutionSpec>(text, rest);
}

// Of a record: after the key of the problem may come what only the library knows of.
bool is_record_key(std::string_view text) {
  std::string_view rest, kind = known_kind(text, rest);
  return !kind.empty() && (rest.empty() || rest.starts_with(' '));
}

std::string trim(const std::string& s) {
  size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

// A module with one entry that computes the product alone.
ir::Module product(const GemmProblemOf<int64_t>& p, const ir::OpTable& ops) {
  ir::FunctionBuilder b("product", ops);
  ir::Shape a = p.transpose_a ? ir::Shape{p.k, p.m} : ir::Shape{p.m, p.k},
            c = p.transpose_b ? ir::Shape{p.n, p.k} : ir::Shape{p.k, p.n};
  ir::Ints batch;
  bool batched = p.batch != 1;
  if (batched) a.insert(a.begin(), p.batch), c.insert(c.begin(), p.batch), batch = {0};
  int64_t shift = batched;
  ir::Val x = b.param("a", ir::Type(p.dtype, a)), y = b.param("b", ir::Type(p.dtype, c));
  ir::Val out = b.op("dot_general", {x, y},
                     {{"lhs_contract", ir::Ints{shift + !p.transpose_a}},
                      {"rhs_contract", ir::Ints{shift + p.transpose_b}},
                      {"lhs_batch", batch},
                      {"rhs_batch", batch}});
  ir::Module m;
  m.stage = ir::Stage::kLocal;
  m.functions.push_back(std::make_shared<ir::Function>(b.finish({out})));
  m.entries.push_back({"product", "product", {}, {}, {"a", "b"}, {"c"}});
  return m;
}

struct Timing {
  double seconds;
  int threads;
};

// One run, the best of several, with the implementation forced.
Result<Timing> measure(const ir::Module& m, const GemmProblemOf<int64_t>& p, const std::string& choice,
                       const ir::OpTable& ops, ir::Target target, int threads) {
  target.choices[problem_key(p)] = choice;
  ir::Module planned = NABLA_TRY(passes::run_passes(m, passes::lowering_steps(), ops, target)).module;
  EmittedProgram program = NABLA_TRY(emit_program(planned, target, {{2, codegen::cache_directory()}, {}}));
  format::Bundle bundle =
      NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(program.bytes)), "tuning"));
  auto session = NABLA_TRY(exec::Session::create(std::move(bundle), {.threads = threads}));
  std::vector<Literal> arrays;
  for (const auto& info : session->entries()[0].inputs) arrays.push_back(Literal(info.dtype, info.shape));
  Literal out(session->entries()[0].outputs[0].dtype, session->entries()[0].outputs[0].shape);
  const void* inputs[] = {arrays[0].data(), arrays[1].data()};
  void* outputs[] = {out.mutable_data()};
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  auto deadline = Clock::now() + std::chrono::milliseconds(300);
  for (int i = 0; i < 200 && (i < 5 || Clock::now() < deadline); ++i) {
    auto start = Clock::now();
    NABLA_TRY(session->run(0, inputs, outputs));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return Timing{best, session->threads()};
}

}  // namespace

bool Tuning::concerns(const ir::Target& target) const {
  if (choices.empty() && records.empty()) return true;
  if (choices.count(target.name) > 0) return true;
  return target.is_cuda() ? !records.empty() : choices.count("") > 0;
}

void Tuning::apply(ir::Target& target) const {
  if (target.is_cuda()) target.records = records;
  for (const std::string& section : {target.is_cuda() ? target.name : std::string(), target.name})
    if (auto found = choices.find(section); found != choices.end())
      for (const auto& [key, choice] : found->second) target.choices[key] = choice;
  if (auto found = rates.find(target.name); found != rates.end()) target.rates = found->second;
}

std::string Tuning::targets() const {
  std::string out;
  for (const auto& [target, unused] : choices) out += (out.empty() ? "" : ", ") + (target.empty() ? "CPUs" : target);
  if (!records.empty()) out += out.empty() ? "GPUs" : ", GPUs";
  return out;
}

Result<Tuning> read_tuning(const std::string& path) {
  std::ifstream in(path);
  if (!in) return error(Code::kNotFound, "cannot open the tuning file {}", path);
  if (std::filesystem::is_directory(path)) return error(Code::kNotFound, "the tuning file {} is a folder", path);
  std::string line;
  auto bad = [&](int number, const std::string& what) {
    Diagnostic d = error(Code::kBadTuning, "tuning file: {}", what);
    d.location = std::make_shared<Location>(Location{path, number, 0, "", shortened(line)});
    d.help = "correct the line; `nablac tune MODULE` writes files for CPUs, and for GPUs `nablac tune --gpu-records` adds what the "
             "runtime measured";
    return d;
  };
  if (in.peek() == std::ifstream::traits_type::eof())
    return bad(1, fmt::format("it is empty; the first line of one is `{}`", kHeader));
  Tuning out;
  std::string section;
  bool gpu = false;
  for (int number = 1; std::getline(in, line); ++number) {
    std::string text = trim(line.substr(0, line.find('#')));
    if (number == 1) {
      if (text != kHeader && !is_old_header(text)) return bad(1, fmt::format("the first line is not `{}`", kHeader));
      continue;
    }
    if (text.empty()) continue;
    if (text.starts_with("record ")) {
      std::optional<GemmRecord> record = GemmRecord::parse(text);
      if (!record || !is_record_key(record->problem))
        return bad(number, "expected `record GPU | VERSION | PROBLEM = BYTES`");
      out.records.push_back(std::move(*record));
      continue;
    }
    if (text.starts_with("target ")) {
      auto target = ir::find_target(shortened(trim(text.substr(7))));
      if (!target.ok()) return bad(number, target.errors()[0].message);
      section = target->name, gpu = target->is_cuda();
      if (gpu && text.find(':') != text.npos) return bad(number, fmt::format("choices are for all GPUs of a target: `target {}`", section));
      out.choices[section];
      continue;
    }
    if (text.starts_with("machine ")) {
      if (section.empty() || gpu) return bad(number, "what CPUs measured as stands below the `target` that they ran");
      if (!read_rate(text.substr(8), out.rates.try_emplace(section, no_rates()).first->second))
        return bad(number, "expected a rate such as `machine step = 0.09` or `machine copy 2 65536 = 81000`, in ascending order");
      continue;
    }
    size_t equals = text.find('=');
    if (equals == std::string::npos) return bad(number, "expected `PROBLEM = CHOICE`");
    std::string key = trim(text.substr(0, equals)), choice = trim(text.substr(equals + 1)), known;
    std::string_view rest, kind = known_kind(key, rest);
    if (kind.empty() || !rest.empty()) {
      Diagnostic d = bad(number, fmt::format("`{}` is no problem", shortened(key)));
      d.help = "such as `gemm f32 1x64x128x64 nn`, `convolution f32 forward ...`, or `gemm` alone for all others";
      return d;
    }
    if (out.choices[section].count(key) > 0) return bad(number, fmt::format("`{}` stands twice for one target", key));
    std::vector<std::string> all = choices_of(gpu, kind);
    for (const std::string& c : all) known += (known.empty() ? "" : ", ") + c;
    if (std::find(all.begin(), all.end(), choice) == all.end()) {
      const std::vector<std::string> others = choices_of(!gpu, kind);
      const char* here = section.empty() ? "CPUs, which all above the first `target` is for" : section.c_str();
      if (std::find(others.begin(), others.end(), choice) == others.end())
        return bad(number, fmt::format("unknown choice `{}`; known: {}", shortened(choice), known));
      const char* of = gpu ? "CPUs" : "GPUs";
      Diagnostic d = bad(number, fmt::format("`{}` is a choice of {}, not of {}; known there: {}", choice, of, here, known));
      d.help = fmt::format("put it below a line `target {}`, of what is compiled for", gpu ? "cpu:x86-64-v3" : "sm_90a");
      return d;
    }
    out.choices[section][key] = choice;
  }
  for (auto& [target, rates] : out.rates)
    if (rates.copies.empty()) rates.copies = ir::CpuRates().copies;
  return out;
}

std::string empty_tuning() { return std::string(kHeader) + "\n"; }

std::string with_records(const std::string& text, const std::vector<GemmRecord>& records) {
  std::string out, line;
  std::istringstream in(text);
  while (std::getline(in, line)) {
    std::optional<GemmRecord> old = GemmRecord::parse(trim(line));
    bool replaced = old && std::any_of(records.begin(), records.end(), [&](const auto& r) { return r.replaces(*old); });
    if (!replaced) out += (is_old_header(line) ? std::string(kHeader) : line) + "\n";
  }
  for (const GemmRecord& r : records) out += r.str() + "\n";
  return out;
}

Result<std::string> tune(const ir::Module& flat, const ir::OpTable& ops, const ir::Target& target, int threads,
                         const std::function<void(const std::string&)>& progress) {
  if (target.is_cuda()) {
    Diagnostic d = error(Code::kBadOption, "nablac tune measures CPUs; {} is a GPU target", target.name);
    d.help = "the runtime measures on the GPU when it loads a bundle; nablac tune --gpu-records takes over what it found";
    return d;
  }
  std::map<std::string, GemmProblemOf<int64_t>> problems;
  passes::PassContext context{ops, target};
  const ir::Module prepared = NABLA_TRY(passes::prepare(flat, context));
  for (const ir::FunctionPtr& f : prepared.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kContraction)
        if (auto p = ir::gemm_problem(n, *f); p && p->dtype == DType::kF32) problems[p->key()] = p->at_bounds();
  std::string lines;
  int used = 0;  // the pool may be smaller than asked for
  for (const auto& [key, p] : problems) {
    std::string best, figures;
    double best_seconds = 1e9;
    for (const std::string& choice : choices_of(false, p.kKind)) {
      if (choice == "sgemm" && p.batch != 1) continue;
      auto [seconds, real_threads] = NABLA_TRY(measure(product(p, ops), p, choice, ops, target, threads));
      used = real_threads;
      figures += fmt::format("  {} {:.1f}", choice, flops_of(p) / seconds / 1e9);
      if (seconds < best_seconds) best_seconds = seconds, best = choice;
    }
    lines += fmt::format("{} = {}  #{}\n", key, best, figures);
    progress(fmt::format("{}:{}", key, figures));
  }
  ir::CpuRates rates = NABLA_TRY(measure_rates(target));
  std::string about = problems.empty() ? "it has no matrix products in f32"
                                       : fmt::format("on {}; GFLOP/s of each path after the choice", counted(used, "thread"));
  return fmt::format("{}\ntarget {}\n# {}: {}\n{}# rates of this machine, by which times are predicted\n{}", kHeader, target.name,
                     target.name, about, lines, rates_text(rates));
}

}  // namespace nabla::driver
