#include "ir/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "runtime/base/text.h"

namespace nabla::ir {
namespace {

// The digits of an axis's coordinate that a reference takes: `size` values, each `after` apart.
struct Digits {
  int64_t before, size, after;
};

Digits digits(const Mesh& mesh, const AxisRef& a) {
  int64_t whole = mesh.size_of(a.name), size = a.size == 0 ? whole : a.size;
  return {a.before, size, whole / (a.before * size)};
}

// How far apart ranks are that differ by one along the axis.
int64_t stride_of(const Mesh& mesh, std::string_view axis) {
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i-- > 0 && mesh.axes[i].name != axis;) stride *= mesh.axes[i].size;
  return stride;
}

int64_t part(const Mesh& mesh, const AxisRef& a, int64_t rank) {
  Digits d = digits(mesh, a);
  return rank / (stride_of(mesh, a.name) * d.after) % d.size;
}

}  // namespace

int64_t Mesh::ranks() const {
  int64_t out = 1;
  for (const MeshAxis& a : axes) out *= a.temporal ? 1 : a.size;
  return out;
}

const MeshAxis* Mesh::temporal() const {
  for (const MeshAxis& a : axes)
    if (a.temporal) return &a;
  return nullptr;
}

int64_t Mesh::size_of(std::string_view axis) const {
  for (const MeshAxis& a : axes)
    if (a.name == axis) return a.size;
  return 0;
}

std::vector<std::string> Mesh::axis_names() const {
  std::vector<std::string> out;
  for (const MeshAxis& a : axes) out.push_back(a.name);
  return out;
}

std::string Mesh::sizes() const {
  std::string out;
  for (const MeshAxis& a : axes) out += fmt::format("{}{}={}", out.empty() ? "" : ", ", a.name, a.size);
  return out;
}

std::string Mesh::str() const { return fmt::format("{} ({})", name, sizes()); }

std::string Mesh::lacks(std::string_view axis) const {
  return fmt::format("mesh {} has no axis `{}`{}", str(), axis, did_you_mean(axis, axis_names()));
}

Result<std::vector<std::string>> axis_list(const std::string& option, std::string list) {
  std::vector<std::string> out;
  std::replace(list.begin(), list.end(), ';', ',');
  std::istringstream names(list + ",");
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) return error(Code::kBadOption, "{}: names of axes stand between commas; `{}` has an empty one", option, list);
    if (std::find(out.begin(), out.end(), name) != out.end()) return error(Code::kBadOption, "{} names {} twice", option, name);
    out.push_back(std::move(name));
  }
  return out;
}

std::string AxisRef::str() const { return size == 0 ? name : fmt::format("{}:({}){}", name, before, size); }

std::string str(const Axes& axes) {
  std::string out;
  for (const AxisRef& a : axes) out += (out.empty() ? "" : ", ") + a.str();
  return "{" + out + "}";
}

std::string DimSharding::str() const {
  if (!open && axes.size() == 1 && priority == 0) return axes[0].str();
  std::string out = ir::str(axes);
  if (open) out.insert(out.size() - 1, axes.empty() ? "?" : ", ?");
  return priority == 0 ? out : fmt::format("{}p{}", out, priority);
}

std::string Sharding::str() const {
  std::string out;
  for (const DimSharding& d : dims) out += (out.empty() ? "" : ", ") + d.str();
  return "<" + out + ">" + (replicated.empty() ? "" : " replicated " + ir::str(replicated)) +
         (allow_padding ? " allow_padding" : "");
}

Axes axes_of(const Sharding& s) {
  Axes out;
  for (const DimSharding& d : s.dims) out.insert(out.end(), d.axes.begin(), d.axes.end());
  out.insert(out.end(), s.replicated.begin(), s.replicated.end());
  return out;
}

int64_t shards(const Mesh& mesh, const Axes& axes) {
  int64_t out = 1;
  for (const AxisRef& a : axes) out *= digits(mesh, a).size;
  return out;
}

int64_t coordinate(const Mesh& mesh, const Axes& axes, int64_t rank) {
  int64_t out = 0;
  for (const AxisRef& a : axes) out = out * digits(mesh, a).size + part(mesh, a, rank);
  return out;
}

PartOfDim part_of_dim(int64_t extent, int64_t parts, int64_t coordinate) {
  int64_t size = extent / parts + (extent % parts != 0 ? 1 : 0), begin = coordinate * size;
  return {begin, size, std::clamp<int64_t>(extent - begin, 0, size)};
}

std::vector<int64_t> group_of(const Mesh& mesh, const Axes& axes, int64_t rank) {
  std::vector<int64_t> out = {rank};
  for (const AxisRef& a : axes) out[0] -= part(mesh, a, rank) * stride_of(mesh, a.name) * digits(mesh, a).after;
  for (const AxisRef& a : axes) {
    Digits d = digits(mesh, a);
    std::vector<int64_t> next;
    for (int64_t first : out)
      for (int64_t i = 0; i < d.size; ++i) next.push_back(first + i * stride_of(mesh, a.name) * d.after);
    out = std::move(next);
  }
  return out;
}

Status check_axes(const Mesh& mesh, const Axes& axes, const std::string& what) {
  auto refuse = [&](const std::string& why) { return error(Code::kBadSharding, "{}: {}", what, why); };
  for (size_t i = 0; i < axes.size(); ++i) {
    const AxisRef& a = axes[i];
    int64_t whole = mesh.size_of(a.name);
    if (whole == 0)
      return refuse(fmt::format("mesh {} has no axis `{}`{}", mesh.name, a.name, did_you_mean(a.name, mesh.axis_names())));
    bool divides = a.before >= 1 && a.size >= 0 && a.before <= whole && a.size <= whole &&
                   whole % (a.before * std::max<int64_t>(a.size, 1)) == 0 && (a.size > 0 || a.before == 1);
    if (!divides) return refuse(fmt::format("{} is no part of axis {} of {} ranks", a.str(), a.name, whole));
    Digits mine = digits(mesh, a);
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name != a.name) continue;
      Digits other = digits(mesh, axes[j]);
      // Of an axis of size 1 no digits overlap, and any number of times it would divide an extent.
      bool shared = mine.before * mine.size > other.before && other.before * other.size > mine.before;
      if (shared || a == axes[j])
        return refuse(fmt::format("axis {} stands twice{}", a.name,
                                  a == axes[j] ? "" : fmt::format(": {} and {} overlap", axes[j].str(), a.str())));
    }
  }
  return Ok{};
}

}  // namespace nabla::ir
