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

/// The lengths of a tree's vectors, outermost first.
template <class Leaf, class T>
void collect_lengths(T& tree, std::vector<size_t>& out) {
  auto below = [&](auto& member) { collect_lengths<Leaf>(member, out); };
  if constexpr (VisitableTree<T>) {
    tree.visit([&](const char*, auto& member) { below(member); });
  } else if constexpr (!std::is_same_v<T, Leaf> && TupleTree<T>) {
    std::apply([&](auto&... member) { (below(member), ...); }, tree);
  } else if constexpr (!std::is_same_v<T, Leaf>) {
    out.push_back(static_cast<size_t>(tree.end() - tree.begin()));
    for (auto& member : tree) below(member);
  }
}
/// Gives a tree's vectors these lengths, from the `next`th on.
template <class Leaf, class T>
void set_lengths(T& tree, const std::vector<size_t>& lengths, size_t& next) {
  auto below = [&](auto& member) { set_lengths<Leaf>(member, lengths, next); };
  if constexpr (VisitableTree<T>) {
    tree.visit([&](const char*, auto& member) { below(member); });
  } else if constexpr (!std::is_same_v<T, Leaf> && TupleTree<T>) {
    std::apply([&](auto&... member) { (below(member), ...); }, tree);
  } else if constexpr (!std::is_same_v<T, Leaf>) {
    tree.resize(lengths[next++]);
    for (auto& member : tree) below(member);
  }
}
/// An empty tree of the form of another: the same members, vectors of the same lengths.
template <class From, class To, template <class> class P>
P<To> same_form(P<From>& tree) {
  std::vector<size_t> lengths;
  collect_lengths<From>(tree, lengths);
  P<To> out;
  size_t next = 0;
  set_lengths<To>(out, lengths, next);
  return out;
}

}  // namespace nabla
