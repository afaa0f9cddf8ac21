#include "runtime/device/onednn.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/device/onednn_internal.h"

namespace nabla::device {

OneDnn::Library::~Library() {
  convolutions.clear();
  gemms.clear();
  for (dnnl_stream_t stream : streams) dnnl_stream_destroy(stream);
  if (attr != nullptr) dnnl_primitive_attr_destroy(attr);
  if (engine != nullptr) dnnl_engine_destroy(engine);
  // The library stays loaded: OpenMP's threads and thread-local data do not survive a dlclose.
}

void OneDnn::Library::be_single_threaded() const {
  thread_local bool done = false;
  if (done) return;
  done = true;
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
}

bool OneDnn::Library::reserve_scratch(size_t bytes) {
  if (bytes <= scratch_bytes) return true;
  scratch_bytes = (bytes + 4095) / 4096 * 4096;
  scratch.clear();
  for (int i = 0; i < pool.size(); ++i) {
    auto* p = static_cast<char*>(std::aligned_alloc(4096, scratch_bytes));
    if (p == nullptr) return false;
    scratch.emplace_back(p, std::free);
  }
  return true;
}

Result<std::unique_ptr<OneDnn>> OneDnn::open(const std::string& soname, const std::string& min_version,
                                             ThreadPool& pool) {
  auto missing = [&](const std::string& why) {
    return error(Code::kMissingLibrary, "the bundle needs oneDNN ({}), which cannot be used: {}", soname, why);
  };
  auto lib = std::make_unique<Library>(pool);
  lib->handle = ::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (lib->handle == nullptr) {
    const char* reason = ::dlerror();
    return missing(reason != nullptr ? reason : "dlopen failed");
  }
#define NABLA_DNNL_FIND(name)                                                     \
  lib->name = reinterpret_cast<decltype(lib->name)>(::dlsym(lib->handle, #name)); \
  if (lib->name == nullptr) return missing("it has no function " #name);
  NABLA_DNNL_FUNCTIONS(NABLA_DNNL_FIND)
#undef NABLA_DNNL_FIND
  lib->omp_set_num_threads = reinterpret_cast<void (*)(int)>(::dlsym(lib->handle, "omp_set_num_threads"));
  std::unique_ptr<OneDnn> out(new OneDnn());
  out->library_ = std::move(lib);
  Library& l = *out->library_;
  const dnnl_version_t* v = l.dnnl_version();
  int major = 0, minor = 0, patch = 0;
  std::sscanf(min_version.c_str(), "%d.%d.%d", &major, &minor, &patch);
  // The descriptor functions used here left the API in version 3.
  if (v->major != 2 || std::tuple(v->major, v->minor, v->patch) < std::tuple(major, minor, patch))
    return missing(fmt::format("it is version {}; needed is {} or a later 2.x", out->version(), min_version));
  l.be_single_threaded();
  if (l.dnnl_engine_create(&l.engine, dnnl_cpu, 0) != dnnl_success ||
      l.dnnl_primitive_attr_create(&l.attr) != dnnl_success ||
      l.dnnl_primitive_attr_set_scratchpad_mode(l.attr, dnnl_scratchpad_mode_user) != dnnl_success)
    return missing("it cannot make an engine");
  for (int i = 0; i < pool.size(); ++i) {
    dnnl_stream_t stream = nullptr;
    if (l.dnnl_stream_create(&stream, l.engine, dnnl_stream_in_order) != dnnl_success)
      return missing("it cannot make a stream");
    l.streams.push_back(stream);
  }
  if (!l.reserve_scratch(4096)) return error(Code::kOutOfMemory, "cannot allocate scratch memory for oneDNN");
  return out;
}

OneDnn::~OneDnn() = default;

std::string OneDnn::version() const {
  const dnnl_version_t* v = library_->dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

Result<LibraryCall*> OneDnn::gemm(const GemmSpec& spec) {
  auto found = library_->gemms.find(spec);
  if (found != library_->gemms.end()) return found->second.get();
  library_->be_single_threaded();
  return (library_->gemms[spec] = NABLA_TRY(make_gemm(*library_, spec))).get();
}

Result<LibraryCall*> OneDnn::convolution(const ConvolutionSpec& spec) {
  auto found = library_->convolutions.find(spec);
  if (found != library_->convolutions.end()) return found->second.get();
  library_->be_single_threaded();
  return (library_->convolutions[spec] = NABLA_TRY(make_convolution(*library_, spec))).get();
}

dnnl_data_type_t dnnl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl_f32;
    case DType::kBF16:
      return dnnl_bf16;
    case DType::kF16:
      return dnnl_f16;
    default:
      return dnnl_data_type_undef;
  }
}

Result<std::unique_ptr<Primitive>> Primitive::make(OneDnn::Library& lib, const PrimitiveDesc& desc,
                                                   std::vector<int> arguments, std::vector<dnnl_memory_desc_t> descs) {
  auto failed = [] { return error(Code::kMissingLibrary, "oneDNN cannot make a primitive that it described"); };
  std::unique_ptr<Primitive> out(new Primitive(lib));
  if (lib.dnnl_primitive_create(&out->handle_, desc.handle) != dnnl_success) return failed();
  out->arguments_ = arguments.size();
  arguments.push_back(DNNL_ARG_SCRATCHPAD);
  descs.push_back(*desc.md(dnnl_query_scratchpad_md));
  size_t scratch = lib.dnnl_memory_desc_get_size(&descs.back());
  if (!lib.reserve_scratch(scratch))
    return error(Code::kOutOfMemory, "cannot allocate {} bytes of scratch memory per thread for oneDNN", scratch);
  for (int thread = 0; thread < lib.pool.size(); ++thread) {
    out->args_.emplace_back();
    for (size_t i = 0; i < arguments.size(); ++i) {
      dnnl_memory_t memory = nullptr;
      if (lib.dnnl_memory_create(&memory, &descs[i], lib.engine, DNNL_MEMORY_NONE) != dnnl_success) return failed();
      out->args_.back().push_back({arguments[i], memory});
    }
  }
  return out;
}

Primitive::~Primitive() {
  for (auto& args : args_)
    for (dnnl_exec_arg_t& arg : args) lib_.dnnl_memory_destroy(arg.memory);
  if (handle_ != nullptr) lib_.dnnl_primitive_destroy(handle_);
}

bool Primitive::run(int thread, void* const* pointers) {
  lib_.be_single_threaded();
  std::vector<dnnl_exec_arg_t>& args = args_[thread];
  bool ok = true;
  for (size_t i = 0; i < arguments_; ++i)
    ok = lib_.dnnl_memory_set_data_handle(args[i].memory, pointers[i]) == dnnl_success && ok;
  ok = lib_.dnnl_memory_set_data_handle(args[arguments_].memory, lib_.scratch[thread].get()) == dnnl_success && ok;
  return ok && lib_.dnnl_primitive_execute(handle_, lib_.streams[thread], static_cast<int>(args.size()), args.data()) ==
                   dnnl_success;
}

}  // namespace nabla::device
