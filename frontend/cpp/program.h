// A program: named state that lives as long as a session, and the entry points that read and write it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontend/cpp/trace.h"

namespace nabla {

class Program;

/// A leaf of a program's state. Cheap to copy.
class State {
 public:
  State() = default;
  /// The leaf's value in the entry being traced: what `set` gave it there, or what it had when the entry began. Throws
  /// E0209 outside of an entry of its program.
  Tensor get(Site site = Site::here()) const;
  /// What the leaf holds after the entry. Throws E0209 when the type is not the leaf's or outside of the entry's own
  /// function (inside one that is differentiated, for example).
  void set(const Arg& value) const;
  const std::string& name() const;
  const ir::Type& type() const;

 private:
  friend class Program;
  State(std::shared_ptr<Context> context, int index) : context_(std::move(context)), index_(index) {}
  std::shared_ptr<Frame> entry_frame(const Site& site, const char* verb) const;
  std::shared_ptr<Context> context_;
  int index_ = -1;
};

/// A result of an entry with its name.
struct Output {
  std::string name;
  Tensor value;
};
using Outputs = std::vector<Output>;

class Program {
 public:
  Program();

  /// Declares a size that is known only at run time: an integer in [min, max], a multiple of `multiple`. Inputs get it
  /// by standing in their shapes, alone or in sums and products. Throws E0108 when the name is taken, E0208 when no
  /// size is in the range.
  ir::Dim symbol(const std::string& name, int64_t min, int64_t max, int64_t multiple = 1, Site site = Site::here());
  /// Declares that two sizes are equal, in every run; before the first entry. Throws E0208 with the places of all
  /// declarations that nothing satisfies together, E0207 where neither size follows from the other.
  void require_equal(const ir::Dim& a, const ir::Dim& b, Site site = Site::here());
  /// Declares an inequality, `require(past + count <= capacity)` or with <, >, >=, of every run; before the first
  /// entry. Comparisons of sizes know it, and a run whose arrays break it is E0703. Throws E0208 with the places of the
  /// declarations that nothing satisfies together.
  void require(const ir::SizeRelation& relation, Site site = Site::here());

  /// Declares the ranks that the program is for: their number is the product of the axes' sizes, the last axis is the
  /// fastest. Before what is laid out over it; once. Throws E0210 for a second mesh and for one that is none.
  Mesh mesh(const std::string& name, std::vector<MeshAxis> axes, Site site = Site::here());

  /// Declares a leaf; its size never changes, so it is static. E0108 when the name is taken. A layout is that of all
  /// entries: E0210 where it does not fit the mesh.
  State state(const std::string& name, DType dtype, Shape shape, Site site = Site::here()) {
    return state(Spec(name, dtype, std::move(shape)), site);
  }
  State state(const std::string& name, DType dtype, Shape shape, const P& layout, Site site = Site::here()) {
    return state(Spec(name, dtype, std::move(shape), layout), site);
  }
  State state(const Spec& spec, Site site = Site::here());
  /// Declares a leaf per member of a struct, named "PREFIX.MEMBER" (without a prefix: "MEMBER").
  template <template <class> class P>
  P<State> states(const std::string& prefix, P<Spec> specs, Site site = Site::here()) {
    P<State> out = same_form<Spec, State>(specs);
    NamedLeaves<Spec> from;
    NamedLeaves<State> to;
    collect<Spec>(specs, prefix, from);
    collect<State>(out, prefix, to);
    for (size_t i = 0; i < from.size(); ++i) {
      Spec named = *from[i].second;
      named.name = from[i].first;
      *to[i].second = state(named, site);
    }
    return out;
  }

  /// Declares an entry point. `f` takes one Tensor per input, or a vector of them, and returns Outputs or nothing;
  /// which leaves the entry reads and writes follows from what `f` does.
  template <class F>
  void entry(const std::string& name, const std::vector<Spec>& inputs, F f, Site site = Site::here()) {
    if constexpr (std::is_invocable_v<F, const std::vector<Tensor>&>)
      add_entry(
          name, inputs, inputs.size(), [&](const std::vector<Tensor>& x) { return outputs(f, x); }, site);
    else
      add_with_arity(name, inputs, f, &F::operator(), site);
  }

  /// The module at stage `traced`. Valid until the program is changed.
  const ir::Module& module() const;
  /// Writes the module; the ending of `path` says which form: .nir, .nir.json or .nbl. Throws E0803.
  void save(const std::string& path) const;

 private:
  using Body = std::function<Outputs(const std::vector<Tensor>&)>;
  template <class F, class... X>
  static Outputs outputs(F& f, const X&... args) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const X&...>>) {
      f(args...);
      return {};
    } else {
      return f(args...);
    }
  }
  template <class F, class C, class R, class... A>
  void add_with_arity(const std::string& name, const std::vector<Spec>& inputs, F& f, R (C::*)(A...) const, Site site) {
    auto body = [&]<size_t... I>(const std::vector<Tensor>& x, std::index_sequence<I...>) {
      return outputs(f, x[I]...);
    };
    add_entry(
        name, inputs, sizeof...(A),
        [&](const std::vector<Tensor>& x) { return body(x, std::index_sequence_for<A...>{}); }, site);
  }
  void add_entry(const std::string& name, const std::vector<Spec>& inputs, size_t arity, const Body& body, Site site);

  std::shared_ptr<Context> context_;
};

/// The values of a struct of leaves.
template <template <class> class P>
P<Tensor> get(P<State> leaves, Site site = Site::here()) {
  P<Tensor> out = same_form<State, Tensor>(leaves);
  auto from = leaves_of<State>(leaves);
  auto to = leaves_of<Tensor>(out);
  for (size_t i = 0; i < from.size(); ++i) *to[i].second = from[i].second->get(site);
  return out;
}

/// Sets every leaf of a struct.
template <template <class> class P>
void set(P<State> leaves, P<Tensor> values, Site site = Site::here()) {
  auto to = leaves_of<State>(leaves);
  auto from = leaves_of<Tensor>(values);
  for (size_t i = 0; i < from.size(); ++i) to[i].second->set(Arg(*from[i].second, site));
}

}  // namespace nabla
