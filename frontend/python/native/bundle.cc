#include "frontend/python/native/bundle.h"

#include "runtime/format/bundle_reader.h"

namespace nabla::python {

std::shared_ptr<Bundle> Bundle::of_bytes(std::string bytes, const std::string& what,
                                         const exec::SessionOptions& options) {
  format::Bundle bundle = value_or_throw(format::Bundle::from_bytes(
      format::FileBytes::copy_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}), what));
  auto out = std::make_shared<Bundle>(value_or_throw(exec::Session::create(std::move(bundle), options)));
  out->bytes_ = std::move(bytes);
  return out;
}

std::shared_ptr<Bundle> Bundle::open(const std::string& path, int threads, const std::string& target, bool check_nan) {
  exec::SessionOptions options{.threads = threads, .check_nan = check_nan, .target = target};
  return std::make_shared<Bundle>(value_or_throw(exec::Session::open(path, options)));
}

bool fits(const exec::TensorInfo& info, const Literal& array) {
  return info.dtype == array.dtype() && info.is_static() && info.shape == array.shape();
}

std::vector<Literal> Bundle::run(int entry, const std::vector<Literal>& inputs) {
  const exec::EntryInfo& e = session_->entries()[entry];
  bool plain = e.symbols.empty() && inputs.size() == e.inputs.size();
  for (size_t i = 0; plain && i < inputs.size(); ++i) plain = fits(e.inputs[i], inputs[i]);
  std::lock_guard lock(mutex_);
  if (!plain) return value_or_throw(session_->call(entry, inputs));
  std::vector<Literal> out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Literal& a : inputs) from.push_back(a.data());
  for (const exec::TensorInfo& o : e.outputs) out.push_back(Literal::uninitialized(o.dtype, o.shape));
  for (Literal& o : out) to.push_back(o.mutable_data());
  check(session_->run(entry, from, to));
  return out;
}

}  // namespace nabla::python
