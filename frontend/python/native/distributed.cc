// Collectives between processes for nabla.distributed: bytes in, bytes out. The module in Python knows of arrays.
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/unlocked.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plain_table.h"
#include "runtime/comm/plugin_transport.h"

namespace nabla::python {
namespace {

template <class T>
T given(Result<T> result) {
  if (!result.ok()) throw Error(result.errors());
  return std::move(*result);
}

// They lie near the extension module, which is not beside the executable: that is Python's.
std::string folder_of_plugins() {
  Dl_info info{};
  std::string path = dladdr(reinterpret_cast<void*>(&folder_of_plugins), &info) != 0 ? info.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "plugins/";
}

/// All processes that a launcher started.
class Processes {
 public:
  Processes(const std::string& engine, double timeout_s) {
    transport_ = given(comm::open_transport(engine, folder_of_plugins()));
    table_ = comm::plain_table({transport_->ranks()});
    world_ = given(comm::Peers::create(*flatbuffers::GetRoot<format::Ranks>(table_.data()), transport_, {.deadline_s = timeout_s}));
  }
  uint32_t rank() const { return transport_->rank(); }
  uint32_t ranks() const { return transport_->ranks(); }

  py::bytearray collective(int kind, int reduction, int dtype, const py::buffer& from, size_t out_bytes, uint32_t root) {
    py::buffer_info in = from.request();
    py::bytearray out(std::string(out_bytes, '\0'));
    comm::CollectiveCall call{.kind = static_cast<format::CollectiveKind>(kind),
                              .reduction = static_cast<format::Reduction>(reduction),
                              .dtype = static_cast<format::DType>(dtype),
                              .from = in.ptr,
                              .to = PyByteArray_AS_STRING(out.ptr()),
                              .bytes = static_cast<uint64_t>(in.size * in.itemsize),
                              .root = root};
    without_lock([&] {
      comm::Communicator& peers = world_->rank(rank());
      Status done = peers.start(0, call);
      if (done.ok()) done = peers.wait(0);
      if (!done.ok()) throw Error(done.errors());
    });
    return out;
  }

  /// Whether an exchange has failed: then the others are not waited for.
  bool failed() const { return world_->failure().has_value(); }
  void close() {
    Status done = without_lock([&] { return transport_->close(); });
    if (!done.ok()) throw Error(done.errors());
  }

 private:
  std::shared_ptr<comm::Transport> transport_;
  std::vector<uint8_t> table_;
  std::unique_ptr<comm::World> world_;
};

}  // namespace

void bind_distributed(py::module_& m) {
  py::class_<Processes>(m, "Processes", "The processes that a launcher started, of which this is one.")
      .def(py::init<const std::string&, double>(), py::arg("engine"), py::arg("timeout"))
      .def_property_readonly("rank", &Processes::rank)
      .def_property_readonly("ranks", &Processes::ranks)
      .def_property_readonly("failed", &Processes::failed)
      .def("collective", &Processes::collective, py::arg("kind"), py::arg("reduction"), py::arg("dtype"), py::arg("source"),
           py::arg("out_bytes"), py::arg("root"))
      .def("close", &Processes::close);
}

}  // namespace nabla::python
