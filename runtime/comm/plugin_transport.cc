#include "runtime/comm/plugin_transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "runtime/comm/plugin.h"

namespace nabla::comm {
namespace {

std::string folder_of_executable() {
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.substr(0, text.rfind('/') + 1);
}

class PluginTransport final : public Transport {
 public:
  explicit PluginTransport(const nabla_transport& table) : table_(table) {}

  std::string name() const override { return table_.name; }
  uint32_t rank() const override { return table_.rank(); }
  uint32_t ranks() const override { return table_.ranks(); }

  Result<Request> send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    Open open{0, bytes, false};
    if (const char* why = table_.send(to, tag, from, bytes, &open.request)) return failed(why);
    return keep(open);
  }
  Result<Request> recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override {
    Open open{0, bytes, true};
    if (const char* why = table_.recv(from, tag, to, bytes, &open.request)) return failed(why);
    return keep(open);
  }
  Result<bool> test(Request request) override {
    Open& open = open_[request];
    int32_t done = 0;
    uint64_t received = open.bytes;
    if (const char* why = table_.test(open.request, &done, &received)) return failed(why);
    if (done == 0) return false;
    free_.push_back(request);
    if (open.comes && received != open.bytes)
      return error(Code::kRanksDiverge, "a message of {} bytes came where one of {} was expected", received, open.bytes);
    return true;
  }
  Status close() override {
    if (const char* why = table_.close()) return failed(why);
    return Ok{};
  }

 private:
  struct Open {
    uint32_t request;  // the plug-in's
    uint64_t bytes;
    bool comes;
  };
  Request keep(Open open) {
    if (free_.empty()) free_.push_back(static_cast<Request>(open_.size())), open_.emplace_back();
    Request request = free_.back();
    free_.pop_back();
    open_[request] = open;
    return request;
  }
  Diagnostic failed(const char* why) const { return error(Code::kTransportFailed, "{}: {}", table_.name, why); }

  const nabla_transport& table_;
  std::vector<Open> open_;
  std::vector<Request> free_;
};

uint32_t number_in(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(text));
}

}  // namespace

Result<std::unique_ptr<Transport>> open_transport(const std::string& name, const std::string& folder) {
  std::string file = fmt::format("libnabla_{}.so", name), said;
  std::vector<std::string> places;
  if (const char* own = std::getenv("NABLA_PLUGINS"); own != nullptr && *own != 0) places.push_back(std::string(own) + "/");
  if (!folder.empty()) places.push_back(folder);
  places.push_back(folder_of_executable());
  places.emplace_back();
  void* library = nullptr;
  for (size_t i = 0; i < places.size() && library == nullptr; ++i) {
    library = dlopen((places[i] + file).c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) said += fmt::format("\n  {}", dlerror());
  }
  if (library == nullptr) {
    Diagnostic d = error(Code::kMissingLibrary, "the engine `{}` is the plug-in {}, which does not open:{}", name, file, said);
    d.help = "put it beside nabla-run or into the folder NABLA_PLUGINS; it needs its own library (mpi: Open MPI 4.1)";
    return d;
  }
  auto entry = reinterpret_cast<nabla_transport_entry>(dlsym(library, "nabla_transport_v1"));
  const nabla_transport* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->version != NABLA_TRANSPORT_VERSION)
    return error(Code::kForeignFile, "{} is no plug-in of version {}", file, NABLA_TRANSPORT_VERSION);
  if (const char* why = table->open()) return error(Code::kTransportFailed, "{}: {}", name, why);
  return std::unique_ptr<Transport>(std::make_unique<PluginTransport>(*table));
}

uint32_t rank_of_mpirun(uint32_t otherwise) { return number_in("OMPI_COMM_WORLD_LOCAL_RANK", otherwise); }
uint32_t ranks_of_mpirun(uint32_t otherwise) { return number_in("OMPI_COMM_WORLD_LOCAL_SIZE", otherwise); }

}  // namespace nabla::comm
