// Draws the test pictures that a model read wrongly as one self-contained page:
//   misread digits.npz CLASS.npy PROBABILITY.npy PAGE.html
// The two .npy files are the outputs of the entry `predict`.
#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "runtime/format/file.h"
#include "runtime/format/npy.h"

namespace nabla::digits {
namespace {

struct Misread {
  int64_t index, truth, guess;
  double confidence;
};

Result<Literal> array_of(const format::NamedArrays& arrays, const std::string& name, const std::string& path) {
  for (const auto& [key, value] : arrays)
    if (key == name) return value;
  return error(Code::kUnknownInput, "{} has no array `{}`", path, name);
}

std::string picture_svg(const Literal& pictures, int64_t index) {
  std::string out = "<svg viewBox=\"0 0 8 8\" shape-rendering=\"crispEdges\">";
  for (int64_t i = 0; i < 64; ++i) {
    int64_t ink = pictures.get_i(index * 64 + i);
    if (ink > 0)
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" fill-opacity=\"{:.2f}\"/>", i % 8, i / 8,
                         static_cast<double>(ink) / 16);
  }
  return out + "</svg>";
}

std::string page(const Literal& pictures, const std::vector<Misread>& wrong, int64_t total) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Misread digits</title>\n<style>\n"
      "body{{font:15px/1.45 system-ui,sans-serif;margin:2.5rem auto;max-width:60rem;padding:0 1rem;color:#1f2430}}\n"
      ".grid{{display:grid;grid-template-columns:repeat(auto-fill,minmax(8.5rem,1fr));gap:1rem;margin-top:1.5rem}}\n"
      "figure{{margin:0;padding:.8rem;border:1px solid #d9dde6;border-radius:10px;text-align:center}}\n"
      "svg{{width:100%;fill:#1f2430}}figcaption{{margin-top:.5rem;font-size:.9rem;color:#5b6375}}\n"
      "b{{color:#c0362c;font-size:1.15em}}i{{font-style:normal;color:#1d7a4c;font-size:1.15em}}\n"
      "</style>\n<h1>Misread digits</h1>\n<p>{} of {} test pictures were read wrongly ({:.2f} % right). Red: what the "
      "model saw, with its probability. Green: the label.</p>\n<div class=\"grid\">\n",
      wrong.size(), total, 100.0 * (1 - static_cast<double>(wrong.size()) / static_cast<double>(total)));
  for (const Misread& m : wrong)
    out += fmt::format(
        "<figure>{}<figcaption><b>{}</b> {:.0f} % &nbsp; label <i>{}</i><br>picture {}</figcaption></figure>\n",
        picture_svg(pictures, m.index), m.guess, 100 * m.confidence, m.truth, m.index);
  return out + "</div></html>\n";
}

Status run(const std::string& data, const std::string& classes, const std::string& probabilities,
           const std::string& out) {
  format::NamedArrays arrays = NABLA_TRY(format::read_npz(data));
  Literal pictures = NABLA_TRY(array_of(arrays, "x_test", data));
  Literal labels = NABLA_TRY(array_of(arrays, "y_test", data));
  Literal guesses = NABLA_TRY(format::read_npy(classes));
  Literal chances = NABLA_TRY(format::read_npy(probabilities));
  int64_t n = labels.size();
  if (pictures.size() != n * 64 || guesses.size() != n || chances.size() != n * 10)
    return error(Code::kInputShape, "{} labels do not fit pictures {}, classes {} and probabilities {}", n,
                 shape_str(pictures.shape()), shape_str(guesses.shape()), shape_str(chances.shape()));
  std::vector<Misread> wrong;
  for (int64_t i = 0; i < n; ++i) {
    int64_t guess = guesses.get_i(i);
    if (guess < 0 || guess > 9)
      return error(Code::kInputShape, "{}: class {} of picture {} is not in 0..9", classes, guess, i);
    if (guess != labels.get_i(i)) wrong.push_back({i, labels.get_i(i), guess, chances.get(i * 10 + guess)});
  }
  (void)NABLA_TRY(format::write_file(out, page(pictures, wrong, n)));
  fmt::print("{} of {} misread: {}\n", wrong.size(), n, out);
  return Ok{};
}

}  // namespace
}  // namespace nabla::digits

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s digits.npz CLASS.npy PROBABILITY.npy PAGE.html\n", argv[0]);
    return 2;
  }
  nabla::Status status = nabla::digits::run(argv[1], argv[2], argv[3], argv[4]);
  if (status.ok()) return 0;
  std::fputs(nabla::to_string(status.errors()).c_str(), stderr);
  return 1;
}
