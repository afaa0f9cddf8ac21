// Trees: a leaf, or a vector, array, pair, tuple or struct of trees. A struct shows its members with
//   template <class V> void visit(V&& v) { v("w", w); v("b", b); }
// so that parameters travel through grad and optimizers as one argument.
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace nabla {

template <class Leaf>
using NamedLeaves = std::vector<std::pair<std::string, Leaf*>>;

struct TreeProbe {
  template <class T>
  void operator()(const char*, T&) const {}
};

template <class T>
concept VisitableTree = requires(T& t) {
  t.visit(TreeProbe{});
};
template <class T>
concept TupleTree = !VisitableTree<T> && requires {
  std::tuple_size<T>::value;
};
template <class T>
concept RangeTree = !VisitableTree<T> && !TupleTree<T> && requires(T & t) {
  t.begin();
  t.end();
};

/// Appends the leaves of a tree with their paths: "fc1.w", "0.b".
template <class Leaf, class T>
void collect(T& tree, const std::string& path, NamedLeaves<Leaf>& out) {
  auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if constexpr (std::is_same_v<T, Leaf>) {
    out.emplace_back(path, &tree);
  } else if constexpr (VisitableTree<T>) {
    tree.visit([&](const char* name, auto& member) { collect<Leaf>(member, below(name), out); });
  } else if constexpr (TupleTree<T>) {
    size_t i = 0;
    std::apply([&](auto&... member) { (collect<Leaf>(member, below(std::to_string(i++)), out), ...); }, tree);
  } else {
    static_assert(RangeTree<T>, "a tree is a leaf, a vector, array, pair or tuple of trees, or has visit()");
    size_t i = 0;
    for (auto& member : tree) collect<Leaf>(member, below(std::to_string(i++)), out);
  }
}

template <class Leaf, class T>
NamedLeaves<Leaf> leaves_of(T& tree) {
  NamedLeaves<Leaf> out;
  collect<Leaf>(tree, "", out);
  return out;
}

}  // namespace nabla
