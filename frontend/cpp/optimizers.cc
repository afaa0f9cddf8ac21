#include "frontend/cpp/optimizers.h"

#include <algorithm>
#include <numbers>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla::nn {
namespace {

Tensor as_f32(const Arg& x) { return x.is_tensor() ? convert(x, f32) : full({}, x.number(), f32); }

/// How far the step has come between warm-up and end, in [0, 1].
Tensor progress(const Tensor& step, const CosineSchedule& o) {
  double span = static_cast<double>(std::max<int64_t>(1, o.total - o.warmup));
  return clip((step - static_cast<double>(o.warmup)) / span, 0.0, 1.0);
}

Tensor warmed_up(const Tensor& step, int64_t warmup, double peak, const Tensor& later) {
  if (warmup <= 0) return later;
  double count = static_cast<double>(warmup);
  return select(lt(step, count), step * (peak / count), later);
}

/// Numbers and scalars in the parameter's dtype.
Tensor like(const Arg& x, const Tensor& p) {
  if (!x.is_tensor()) return full({}, x.number(), p.dtype());
  return x.tensor().dtype() == p.dtype() ? x.tensor() : convert(x, p.dtype());
}

Tensor decayed(const Tensor& grad, const Tensor& param, double weight_decay) {
  return weight_decay == 0 ? grad : grad + weight_decay * param;
}

Tensor root_mean_square(const Tensor& x) { return sqrt(mean(x * x)); }

}  // namespace

// ---- Schedules

Tensor cosine_schedule(const Arg& step, const CosineSchedule& o) {
  AtSite at(step);
  Tensor t = as_f32(step);
  Tensor cosine = 0.5 + 0.5 * cos(progress(t, o) * std::numbers::pi);
  return warmed_up(t, o.warmup, o.peak, o.final + (o.peak - o.final) * cosine);
}

Tensor linear_schedule(const Arg& step, const CosineSchedule& o) {
  AtSite at(step);
  Tensor t = as_f32(step);
  return warmed_up(t, o.warmup, o.peak, o.peak + (o.final - o.peak) * progress(t, o));
}

Tensor inverse_sqrt_schedule(const Arg& step, double peak, int64_t warmup) {
  AtSite at(step);
  Tensor t = as_f32(step);
  double count = static_cast<double>(std::max<int64_t>(1, warmup));
  return peak * minimum(t / count, rsqrt(maximum(t, 1.0) / count));
}

Tensor step_decay_schedule(const Arg& step, double rate, double factor, int64_t every) {
  AtSite at(step);
  if (every < 1) throw error_at(step.site(), Code::kBadAttribute, "step_decay_schedule: a decay every {} steps", every);
  return rate * pow(full({}, factor, f32), floor((as_f32(step) - 1) / static_cast<double>(every)));
}

// ---- Gradients

Tensor global_norm(const std::vector<Tensor>& tensors, Site site) {
  AtSite at(site);
  bool any_f64 = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.dtype() == f64; });
  DType dtype = any_f64 ? f64 : f32;
  Tensor total = zeros({}, dtype);
  for (const Tensor& t : tensors) {
    Tensor wide = in_dtype(t, dtype);
    total = total + sum(wide * wide);
  }
  return sqrt(total);
}

Tensor clip_factor(const Arg& norm, double max_norm) {
  AtSite at(norm);
  return max_norm / maximum(norm, max_norm);
}

// ---- Rules

Tensor OptimizerRule::updated(const Tensor& param, const Tensor& grad, std::vector<Tensor>& slots, const Tensor& step,
                              const Arg& lr, const Site& site) const {
  AtSite at(site);
  Tensor wide = widened(param);
  if (wide.dtype() == param.dtype()) return update(param, grad, slots, step, lr);
  std::vector<DType> kept;
  for (Tensor& slot : slots) {
    kept.push_back(slot.dtype());
    slot = widened(slot);
  }
  Tensor next = update(wide, widened(grad), slots, step, lr);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = in_dtype(slots[i], kept[i]);
  return in_dtype(next, param.dtype());
}

OptimizerRule sgd(double momentum, bool nesterov, double weight_decay) {
  if (momentum == 0)
    return {"sgd", {}, [=](const Tensor& p, const Tensor& g, std::vector<Tensor>&, const Tensor&, const Arg& lr) {
              return sgd_update(p, g, lr, weight_decay);
            }};
  return {"sgd",
          {{"momentum"}},
          [=](const Tensor& p, const Tensor& g, std::vector<Tensor>& slots, const Tensor&, const Arg& lr) {
            Tensor b = momentum * slots[0] + decayed(g, p, weight_decay);
            slots[0] = b;
            return p - like(lr, p) * (nesterov ? decayed(g, p, weight_decay) + momentum * b : b);
          }};
}

OptimizerRule adamw(double beta1, double beta2, double eps, double weight_decay) {
  return {"adamw",
          {{"m"}, {"v"}},
          [=](const Tensor& p, const Tensor& g, std::vector<Tensor>& slots, const Tensor& step, const Arg& lr) {
            auto [next, m, v] = adamw_update(p, g, slots[0], slots[1], step, lr, weight_decay, beta1, beta2, eps);
            slots = {m, v};
            return next;
          }};
}

OptimizerRule adam(double beta1, double beta2, double eps, double weight_decay) {
  OptimizerRule rule = adamw(beta1, beta2, eps, 0);
  rule.name = "adam";
  rule.update = [inner = rule.update, weight_decay](const Tensor& p, const Tensor& g, std::vector<Tensor>& slots,
                                                    const Tensor& step, const Arg& lr) {
    return inner(p, decayed(g, p, weight_decay), slots, step, lr);
  };
  return rule;
}

OptimizerRule rmsprop(double decay, double eps, double momentum, double weight_decay) {
  std::vector<OptimizerRule::Slot> slots = {{"v"}};
  if (momentum != 0) slots.push_back({"momentum"});
  return {"rmsprop", slots,
          [=](const Tensor& p, const Tensor& grad, std::vector<Tensor>& s, const Tensor&, const Arg& lr) {
            Tensor g = decayed(grad, p, weight_decay);
            s[0] = decay * s[0] + (1 - decay) * g * g;
            Tensor direction = g / (sqrt(s[0]) + eps);
            if (momentum != 0) direction = s[1] = momentum * s[1] + direction;
            return p - like(lr, p) * direction;
          }};
}

OptimizerRule adagrad(double eps, double weight_decay) {
  return {"adagrad",
          {{"sum"}},
          [=](const Tensor& p, const Tensor& grad, std::vector<Tensor>& s, const Tensor&, const Arg& lr) {
            Tensor g = decayed(grad, p, weight_decay);
            s[0] = s[0] + g * g;
            return p - like(lr, p) * g / (sqrt(s[0]) + eps);
          }};
}

OptimizerRule lion(double beta1, double beta2, double weight_decay) {
  return {"lion", {{"m"}}, [=](const Tensor& p, const Tensor& g, std::vector<Tensor>& s, const Tensor&, const Arg& lr) {
            Tensor direction = sign(beta1 * s[0] + (1 - beta1) * g);
            s[0] = beta2 * s[0] + (1 - beta2) * g;
            return p - like(lr, p) * decayed(direction, p, weight_decay);
          }};
}

OptimizerRule adafactor(const AdafactorOptions& o) {
  // Vectors and scalars keep all of their second moments in `row`, and a number that is never used in `column`.
  auto without = [](int64_t from_end) {
    return [from_end](const Shape& s) {
      Shape out = s;
      if (s.size() >= 2) out.erase(out.end() - from_end);
      return s.size() < 2 && from_end == 2 ? Shape{} : out;
    };
  };
  return {"adafactor",
          {{"row", without(1)}, {"column", without(2)}},
          [o](const Tensor& p, const Tensor& g, std::vector<Tensor>& s, const Tensor& step, const Arg& lr) {
            Tensor fresh = like(pow(convert(step, f32), o.decay_exponent), p), kept = 1 - fresh;
            Tensor squares = g * g + o.eps, update;
            if (p.rank() >= 2) {
              s[0] = kept * s[0] + fresh * mean(squares, {-1});
              s[1] = kept * s[1] + fresh * mean(squares, {-2});
              Tensor rows = rsqrt(s[0] / mean(s[0], {-1}, true));
              update = g * unsqueeze(rows, -1) * unsqueeze(rsqrt(s[1]), -2);
            } else {
              s[0] = kept * s[0] + fresh * squares;
              update = g * rsqrt(s[0]);
            }
            update = update / maximum(root_mean_square(update) / o.clip, 1.0);
            Tensor rate = like(lr, p);
            if (o.scale_by_parameter) rate = rate * maximum(root_mean_square(p), 1e-3);
            Tensor next = p - rate * update;
            return o.weight_decay == 0 ? next : next - like(lr, p) * (o.weight_decay * p);
          }};
}

}  // namespace nabla::nn
