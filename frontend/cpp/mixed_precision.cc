#include "frontend/cpp/mixed_precision.h"

#include "frontend/cpp/array.h"

namespace nabla::nn {

Tensor all_finite(const std::vector<Tensor>& tensors, Site site) {
  Tensor out = full({}, 1, boolean, site);
  for (const Tensor& t : tensors)
    out = and_(Arg(out, site), Arg(all(Arg(is_finite(Arg(t, site), site), site)), site), site);
  return out;
}

LossScale::LossScale(Program& program, LossScaleOptions options, const std::string& prefix, Site site)
    : options_(options),
      scale_(program.state(prefix + ".scale", f32, {}, site)),
      good_(program.state(prefix + ".good", i32, {}, site)) {}

void LossScale::init(Site site) {
  scale_.set(Arg(full({}, options_.initial, f32, site), site));
  good_.set(Arg(zeros({}, i32, site), site));
}

Tensor LossScale::scaled(const Tensor& loss, Site site) const { return Arg(loss, site) * Arg(scale_.get(site), site); }

Tensor LossScale::divided(const Tensor& gradient, const Site& site) const {
  return Arg(gradient, site) / Arg(convert(Arg(scale_.get(site), site), gradient.dtype(), site), site);
}

void LossScale::move(const Tensor& finite, const Site& site) {
  Tensor scale = scale_.get(site), good = Arg(good_.get(site), site) + Arg(1, site);
  Tensor grow = ge(Arg(good, site), Arg(static_cast<double>(options_.interval), site), site);
  Tensor larger = minimum(scale * options_.growth, options_.most),
         smaller = maximum(scale * options_.backoff, options_.least);
  scale_.set(Arg(select(finite, select(grow, larger, scale), smaller), site));
  Tensor none = zeros({}, i32, site);
  good_.set(Arg(select(finite, select(grow, none, good), none), site));
}

}  // namespace nabla::nn
