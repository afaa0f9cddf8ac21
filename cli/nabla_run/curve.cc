#include "cli/nabla_run/curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace nabla::cli {
namespace {

constexpr double kWidth = 860, kHeight = 460;
constexpr double kLeft = 78, kRight = 28, kTop = 62, kBottom = 62;
constexpr size_t kMaxPoints = 1500;
constexpr double kLogRatio = 20;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// The round number (1, 2 or 5 times a power of ten) that cuts `span` into about `count` parts.
double round_step(double span, int count) {
  double raw = span / count;
  double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

struct Axis {
  double low = 0, high = 1;
  bool log = false;
  std::vector<double> ticks;

  /// 0 at the low end, 1 at the high end.
  double place(double v) const {
    return log ? (std::log(v) - std::log(low)) / (std::log(high) - std::log(low)) : (v - low) / (high - low);
  }
};

Axis linear_axis(double low, double high, int count) {
  if (high <= low) {
    double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= pad, high += pad;
  }
  Axis axis;
  double step = round_step(high - low, count);
  axis.low = std::floor(low / step) * step;
  axis.high = std::ceil(high / step) * step;
  for (int i = 0; axis.low + i * step <= axis.high + step / 2; ++i) axis.ticks.push_back(axis.low + i * step);
  return axis;
}

Axis log_axis(double low, double high) {
  Axis axis{.log = true};
  int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
  bool dense = last - first <= 3;
  axis.low = low / 1.15;
  axis.high = high * 1.15;
  for (int e = first; e <= last; ++e)
    for (double factor : {1.0, 2.0, 5.0}) {
      double tick = factor * std::pow(10.0, e);
      if ((factor == 1.0 || dense) && tick >= axis.low && tick <= axis.high) axis.ticks.push_back(tick);
    }
  return axis;
}

/// Mean over a window around each value, run twice (so that far values count less); of logarithms on a logarithmic
/// axis. A centred window does not lag behind the values. Gaps are left out.
std::vector<double> smoothed(std::vector<double> values, bool log) {
  auto n = static_cast<int64_t>(values.size());
  int64_t radius = std::max<int64_t>(1, n / 60);
  for (double& v : values) v = !log ? v : v > 0 ? std::log(v) : std::nan("");
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<double> sums(n + 1, 0);
    std::vector<int64_t> counts(n + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      bool there = std::isfinite(values[i]);
      sums[i + 1] = sums[i] + (there ? values[i] : 0);
      counts[i + 1] = counts[i] + (there ? 1 : 0);
    }
    for (int64_t i = 0; i < n; ++i) {
      int64_t from = std::max<int64_t>(i - radius, 0), to = std::min(i + radius + 1, n);
      int64_t count = counts[to] - counts[from];
      values[i] = count > 0 ? (sums[to] - sums[from]) / static_cast<double>(count) : std::nan("");
    }
  }
  if (log)
    for (double& v : values) v = std::exp(v);
  return values;
}

/// Mean of the last twentieth of the values.
double tail_mean(const std::vector<double>& values) {
  double sum = 0;
  int count = 0;
  for (size_t i = values.size() - (values.size() + 19) / 20; i < values.size(); ++i)
    if (std::isfinite(values[i])) sum += values[i], ++count;
  return count > 0 ? sum / count : std::nan("");
}

std::string subtitle_of(const Curve& curve) {
  if (curve.values.empty()) return "no training steps";
  double mean = tail_mean(curve.values);
  if (!std::isfinite(mean))
    return fmt::format("{} steps, {} is not finite at the end", curve.values.size(), curve.metric);
  return fmt::format("{} steps, {} {:.4g} at the end (mean of the last 5 %)", curve.values.size(), curve.metric, mean);
}

class Picture {
 public:
  Picture(const Axis& x, const Axis& y) : x_(x), y_(y) {}
  double px(double v) const { return kLeft + x_.place(v) * (kWidth - kLeft - kRight); }
  double py(double v) const { return kHeight - kBottom - y_.place(v) * (kHeight - kTop - kBottom); }

  /// A path through the points; each drawn point stands for a run of values, whose mean it shows.
  std::string path(const std::vector<double>& values) const {
    size_t stride = std::max<size_t>(1, (values.size() + kMaxPoints - 1) / kMaxPoints);
    std::string d;
    bool pen = false;
    for (size_t i = 0; i < values.size(); i += stride) {
      double sum = 0;
      int count = 0;
      for (size_t j = i; j < std::min(i + stride, values.size()); ++j)
        if (std::isfinite(values[j]) && (!y_.log || values[j] > 0)) sum += values[j], ++count;
      if (count == 0) {
        pen = false;
        continue;
      }
      double at = static_cast<double>(std::min(i + stride, values.size()));
      d += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", px(at), py(std::clamp(sum / count, y_.low, y_.high)));
      pen = true;
    }
    return d;
  }

 private:
  const Axis& x_;
  const Axis& y_;
};

std::string number(double v) {
  if (std::abs(v) < 1e-12) return "0";
  return std::abs(v) >= 1e6 || std::abs(v) < 1e-3 ? fmt::format("{:.0e}", v) : fmt::format("{:.6g}", v);
}

Axis choose_y(const std::vector<double>& values) {
  std::vector<double> finite;
  for (double v : values)
    if (std::isfinite(v)) finite.push_back(v);
  if (finite.empty()) return linear_axis(0, 1, 5);
  auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  if (*low > 0 && *high / *low > kLogRatio) return log_axis(*low, *high);
  return linear_axis(*low > 0 && *low < *high * 0.4 ? 0 : *low, *high, 5);
}

constexpr const char* kStyle =
    "<style>text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#3b4252}"
    ".t{font-size:17px;font-weight:600;fill:#1f2430}.s{font-size:12.5px;fill:#6b7385}.k{font-size:12.5px}"
    ".a{font-size:13.5px}</style>\n";

}  // namespace

std::string curve_svg(const Curve& curve, const std::string& title) {
  const std::vector<double>& values = curve.values;
  Axis y = choose_y(values);
  auto steps = static_cast<double>(std::max<size_t>(values.size(), 2));
  Axis x{.low = 0, .high = steps};
  double step = std::max(1.0, round_step(steps, 8));
  for (double tick = 0; tick <= steps; tick += step) x.ticks.push_back(tick);
  Picture p(x, y);
  double right = kWidth - kRight, bottom = kHeight - kBottom;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n",
      kWidth, kHeight, escaped(title));
  out += kStyle;
  out += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", kWidth, kHeight);
  out += fmt::format("<text class=\"t\" x=\"{}\" y=\"28\">{}</text>\n", kLeft, escaped(title));
  out += fmt::format("<text class=\"s\" x=\"{}\" y=\"47\">{}</text>\n", kLeft, escaped(subtitle_of(curve)));
  for (double tick : y.ticks)
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#e6e9ef\"/>"
        "<text class=\"k\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, p.py(tick), right, p.py(tick), kLeft - 10, p.py(tick) + 4.5, number(tick));
  for (double tick : x.ticks)
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#8891a3\"/>"
        "<text class=\"k\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
        p.px(tick), bottom, p.px(tick), bottom + 5, p.px(tick), bottom + 21, number(tick));
  out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#5b8def\" stroke-opacity=\"0.28\" stroke-width=\"1.1\"/>\n",
                     p.path(values));
  out +=
      fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#2257c9\" stroke-width=\"2.4\" stroke-linejoin=\"round\"/>\n",
                  p.path(smoothed(values, y.log)));
  out += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"#8891a3\"/>\n", kLeft, kTop,
                     bottom, right);
  std::string x_label = curve.per_epoch > 0 ? fmt::format("step ({} per epoch)", curve.per_epoch) : "step";
  out += fmt::format("<text class=\"a\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + right) / 2, kHeight - 16, x_label);
  out += fmt::format(
      "<text class=\"a\" transform=\"translate(20 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>\n",
      (kTop + bottom) / 2, escaped(curve.metric), y.log ? " (log scale)" : "");
  return out + "</svg>\n";
}

}  // namespace nabla::cli
