#include "tests/cuda/emulator/object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>

#include "codegen/cpu/toolchain.h"
#include "codegen/cuda/printer.h"
#include "codegen/workspace.h"
#include "tests/cuda/emulator/engine.h"

namespace nabla::emulator {
namespace {

constexpr const char* kAbi =
#include "tests/cuda/emulator/abi_text.inc"
    ;
constexpr const char* kWords =
#include "tests/cuda/emulator/words_text.inc"
    ;
constexpr const char* kMath =
#include "tests/cuda/emulator/words_math_text.inc"
    ;
constexpr const char* kGlue =
#include "tests/cuda/emulator/glue_text.inc"
    ;
constexpr const char* kSourceName = "kernels.cu";

// No jumps of one call into another: a call is a place. What NVRTC refuses and g++ takes for an extension, as an array of nothing, is
// an error here too.
constexpr const char* kFlags =
    "-std=c++20 -Werror=pedantic -O1 -g1 -fPIC -fwrapv -fno-strict-aliasing -fno-exceptions -fno-rtti"
    " -fno-optimize-sibling-calls -fno-threadsafe-statics -fno-stack-protector -march=x86-64-v3";
constexpr const char* kExact = " -ffp-contract=off";  // plain and checked code compute the same bits
constexpr const char* kAsGpus = " -ffp-contract=fast -DNB_EMU_GPU_ROUNDING";
constexpr const char* kChecked = " -fsanitize=thread -fsanitize=alignment,bounds";
constexpr const char* kLink = " -shared -nostartfiles -nodefaultlibs -Wl,--build-id=none";

bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

size_t skip_blanks(const std::string& text, size_t at) {
  while (at < text.size() && isspace(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

// Names of all `__global__ void [__launch_bounds__(...)] NAME(`.
std::vector<std::string> kernel_names(const std::string& text) {
  std::vector<std::string> out;
  const std::string kGlobal = "__global__", kVoid = "void", kBounds = "__launch_bounds__";
  for (size_t at = text.find(kGlobal); at != std::string::npos; at = text.find(kGlobal, at)) {
    at = skip_blanks(text, at + kGlobal.size());
    if (text.compare(at, kVoid.size(), kVoid) != 0) continue;
    at = skip_blanks(text, at + kVoid.size());
    if (text.compare(at, kBounds.size(), kBounds) == 0) at = skip_blanks(text, text.find(')', at) + 1);
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at && text[skip_blanks(text, end)] == '(') out.push_back(text.substr(at, end - at));
  }
  return out;
}

// Dynamic shared memory is where the emulator says: a declaration inside of a function becomes a pointer.
std::string with_shared_pointers(const std::string& text) {
  static const std::regex kDeclaration(
      R"(extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w:]+(?: [\w:]+)*)\s+(\w+)\s*\[\s*\]\s*;)");
  return text.find("__shared__") == std::string::npos ? text
                                                      : std::regex_replace(text, kDeclaration, "NB_SHARED($1, $2);");
}

constexpr const char* kTrampolines = R"(
template <int... I> struct NbEmuList {};
template <int n, int... I> struct NbEmuCount : NbEmuCount<n - 1, n - 1, I...> {};
template <int... I> struct NbEmuCount<0, I...> { typedef NbEmuList<I...> type; };
template <class... P, int... I>
__attribute__((no_sanitize("thread", "alignment"))) static void nb_emu_call(void (*f)(P...), void** args, NbEmuList<I...>) {
  f(*(P*)args[I]...);
}
template <class... P> static void nb_emu_run(void (*f)(P...), void** args) {
  nb_emu_call(f, args, typename NbEmuCount<sizeof...(P)>::type());
}
template <class... P> constexpr int nb_emu_arity(void (*)(P...)) { return sizeof...(P); }
template <class... P> struct __attribute__((visibility("hidden"))) NbEmuBytes {  // else one for all objects of this process
  static constexpr unsigned long of[] = {sizeof(P)..., 0};
};
template <class... P> constexpr const unsigned long* nb_emu_bytes(void (*)(P...)) { return NbEmuBytes<P...>::of; }
)";

std::string flags(bool checked, Rounding rounding) {
  return std::string(kFlags) + (rounding == Rounding::kGpu ? kAsGpus : kExact) + (checked ? kChecked : "");
}

Diagnostic refused(const std::string& log, const std::string& what) {
  Diagnostic d = error(Code::kCompilerFailed, "the host compiler failed on {}", what);
  std::istringstream in(log);
  for (std::string line; std::getline(in, line) && d.notes.size() < 20;) d.notes.push_back(line);
  return d;
}

// What the host compiler gets: `front`, which many sources have in common, then `text`.
struct Source {
  std::string front;  // the emulator's words and the generated code's prelude
  std::string text;   // the kernels, and a table of them
};

// How much of the text is the prelude with the procedures' templates, or without.
size_t length_of_prelude(const std::string& cuda_text) {
  static const std::string kPrelude = codegen::cuda_prelude(), kAll = kPrelude + codegen::cuda_procedures();
  for (const std::string* known : {&kAll, &kPrelude})
    if (cuda_text.starts_with(*known)) return known->size();
  return 0;
}

Source host_source(const std::string& cuda_text) {
  const size_t split = length_of_prelude(cuda_text);
  const std::string prelude = cuda_text.substr(0, split), kernels = cuda_text.substr(split);
  const auto line = 1 + std::count(prelude.begin(), prelude.end(), '\n');
  Source out{fmt::format("{}{}{}#define NB_EMULATOR 1\n#line 1 \"{}\"\n{}\n", kAbi, kWords, kMath, kSourceName,
                         with_shared_pointers(prelude)),
             fmt::format("#line {} \"{}\"\n{}\n#line 1 \"trampolines\"\n{}", line, kSourceName, with_shared_pointers(kernels),
                         kTrampolines)};
  std::string table;
  const std::vector<std::string> names = kernel_names(cuda_text);
  for (const std::string& n : names) {
    out.text += fmt::format("static void nb_emu_run_{0}(void** args) {{ nb_emu_run({0}, args); }}\n", n);
    table += fmt::format("  {{\"{0}\", nb_emu_run_{0}, nb_emu_arity({0}), nb_emu_bytes({0})}},\n", n);
  }
  const char* hidden = "__attribute__((visibility(\"hidden\")))";
  out.text += fmt::format(
      "extern \"C\" {{\n{0} extern const NbEmuKernel nb_emu_kernels[] = {{\n{1}  {{nullptr, nullptr, "
      "0, nullptr}}}};\n{0} extern const int nb_emu_kernel_count = {2};\n}}\n",
      hidden, table, names.size());
  return out;
}

// What this process compiles once for many sources. Texts are told apart by what compiles them.
class Parts {
 public:
  // The file to include before a source. It is compiled when it is asked for the third time: that takes as long as to read it
  // three times, and reading it is most of what a small kernel costs.
  Result<std::string> header(const std::string& compile, const std::string& text) {
    constexpr int kTimes = 3;
    std::lock_guard lock(mutex_);
    Part& part = NABLA_TRY(written(compile, text, "h"));
    // Without the compiled form the compiler reads the text.
    if (++part.asked == kTimes) run(fmt::format("{0} -x c++-header '{1}' -o '{1}.gch'", compile, part.path));
    return part.path;
  }
  // The object file of a source.
  Result<std::string> object(const std::string& compile, const std::string& text) {
    std::lock_guard lock(mutex_);
    Part& part = NABLA_TRY(written(compile, text, "cc"));
    if (++part.asked == 1 && !run(fmt::format("{0} -c '{1}' -o '{1}.o'", compile, part.path))) {
      parts_.erase(compile + text);
      return refused(codegen::slurp(work_.path() / "log"), "the emulator's own source");
    }
    return part.path + ".o";
  }

 private:
  struct Part {
    std::string path;
    int asked = 0;
  };
  Result<std::reference_wrapper<Part>> written(const std::string& compile, const std::string& text, const char* suffix) {
    if (work_.path().empty()) return error(Code::kWriteFailed, "cannot make a temporary folder `{}`", work_.pattern());
    auto [it, is_new] = parts_.try_emplace(compile + text);
    if (is_new) {
      it->second.path = work_.path() / fmt::format("part{}.{}", parts_.size(), suffix);
      NABLA_TRY(codegen::write_text(it->second.path, text));
    }
    return std::ref(it->second);
  }
  bool run(const std::string& command) const {
    return std::system(fmt::format("({}) > '{}' 2>&1", command, (work_.path() / "log").string()).c_str()) == 0;
  }

  std::mutex mutex_;
  codegen::Workspace work_;
  std::map<std::string, Part> parts_;
};

}  // namespace

Result<std::string> compile_object(const std::string& cuda_text, bool checked, Rounding rounding) {
  std::string command = codegen::compiler_command(NABLA_TRY(ir::find_target("cpu:x86-64-v3")));
  if (command.empty()) return error(Code::kCompilerMissing, "no C++ compiler for emulated kernels");
  const Source source = host_source(cuda_text);
  const std::string own = flags(checked, rounding), glue = std::string(kAbi) + kGlue, cache = codegen::cache_directory();
  std::string entry = codegen::digest(command + own + source.front + source.text + glue) + ".emulated";
  if (auto hit = cache.empty() ? std::nullopt : codegen::find_in_cache(cache, entry)) return std::move(*hit);
  codegen::Workspace work;
  if (work.path().empty()) return error(Code::kWriteFailed, "cannot make a temporary folder `{}`", work.pattern());
  static Parts parts;  // of this process
  const std::string compiler = command.substr(0, command.find(' '));
  const std::string front = NABLA_TRY(parts.header(compiler + " " + own, source.front));
  const std::string glued = NABLA_TRY(parts.object(compiler + " " + flags(false, rounding), glue));
  NABLA_TRY(codegen::write_text(work.path() / "source.cc", source.text));
  std::string run =
      fmt::format("cd '{}' && ({} {} -include '{}' -c source.cc -o source.o && {}{} source.o '{}' -o kernels.so -lm -lc) > log 2>&1",
                  work.path().string(), compiler, own, front, compiler, kLink, glued);
  if (std::system(run.c_str()) != 0) return refused(codegen::slurp(work.path() / "log"), "a CUDA source");
  std::string bytes = codegen::slurp(work.path() / "kernels.so");
  if (!cache.empty()) codegen::store_in_cache(cache, entry, bytes);
  return bytes;
}

Result<std::shared_ptr<Object>> Object::load(const std::string& bytes, const std::string& cuda_text) {
  std::shared_ptr<Object> out(new Object());
  out->fd_ = memfd_create("kernels", MFD_CLOEXEC);
  if (write(out->fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return error(Code::kWriteFailed, "cannot keep {} bytes of emulated kernels in memory", bytes.size());
  out->handle_ = dlopen(fmt::format("/proc/self/fd/{}", out->fd_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!out->handle_) return error(Code::kCompilerFailed, "emulated kernels cannot be loaded: {}", dlerror());
  auto table = reinterpret_cast<const NbEmuObject* (*)()>(dlsym(out->handle_, "nb_emu_object"));
  if (!table) return error(Code::kCompilerFailed, "the object has no nb_emu_object: it was not made for the emulator");
  out->table_ = table();
  out->table_->bind(Engine::get().host());
  std::istringstream in(cuda_text);
  for (std::string line; std::getline(in, line);) out->text_.push_back(line);
  return out;
}

Result<std::shared_ptr<Object>> Object::compile(const std::string& cuda_text, bool checked, Rounding rounding) {
  std::string bytes = NABLA_TRY(compile_object(cuda_text, checked, rounding));
  return load(bytes, cuda_text);
}

Object::~Object() {
  if (handle_) dlclose(handle_);
  if (fd_ >= 0) close(fd_);
}

const NbEmuKernel* Object::find(const std::string& symbol) const {
  for (int i = 0; i < table_->count; ++i)
    if (symbol == table_->kernels[i].symbol) return &table_->kernels[i];
  return nullptr;
}

const std::vector<int>& Object::frames(const void* pc) const {
  auto [it, is_new] = frames_.try_emplace(pc);
  const unsigned char* at = static_cast<const unsigned char*>(pc);
  if (!is_new || at < table_->image_begin || at >= table_->image_end) return it->second;
  // The call itself lies before the address that it returns to.
  std::string command = fmt::format("addr2line -i -e /proc/{}/fd/{} {:#x} 2>/dev/null", getpid(), fd_,
                                    static_cast<size_t>(at - table_->image_begin) - 1);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return it->second;
  char line[512];
  while (std::fgets(line, sizeof(line), pipe)) {
    const char* found = std::strstr(line, kSourceName);  // frames of the emulator's own words are left out
    if (found) it->second.push_back(std::atoi(found + std::strlen(kSourceName) + 1));
  }
  pclose(pipe);
  return it->second;
}

int Object::line(const void* pc) const { return frames(pc).empty() ? 0 : frames(pc).back(); }

std::string Object::lines(const void* pc) const {
  std::string out;
  for (int line : frames(pc)) out += fmt::format("{}line {}", out.empty() ? "" : " in ", line);
  return out.empty() ? fmt::format("{}", pc) : out;
}

std::string Object::source_line(int line) const {
  if (line < 1 || line > static_cast<int>(text_.size())) return "";
  const std::string& text = text_[line - 1];
  size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first);
}

}  // namespace nabla::emulator
