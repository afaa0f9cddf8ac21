#include "codegen/cuda/sort_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

std::vector<const Buffer*> with_role(const Kernel& k, BufferRole role) {
  std::vector<const Buffer*> out;
  for (const Buffer& b : k.buffers)
    if (b.role == role) out.push_back(&b);
  return out;
}

std::string by_a_block(const Kernel& kernel, int64_t elements) {
  const Procedure& p = *kernel.procedure;
  std::string args = size_text(p.rows());
  for (size_t i = 1; i < p.numbers.size(); ++i) args += ", " + size_text(p.numbers[i]);
  for (BufferRole role : {BufferRole::kOut, BufferRole::kIn})
    for (const Buffer* b : with_role(kernel, role)) args += ", " + cpp_name(b->name);
  return fmt::format("nb_block_{}((nb_sorted*)room_, {}, {});", p.def->name, elements, args);
}

/// Parts sorted by blocks, then merged: from one half of the scratch memory to the other, at last to the results.
class MergeSort {
 public:
  explicit MergeSort(const Kernel& k)
      : p_(*k.procedure), keys_(with_role(k, BufferRole::kIn)), results_(with_role(k, BufferRole::kOut)) {
    part_ = template_mapping(k, 0).tile_columns, tile_ = template_mapping(k, 1).tile_columns;  // sorted, then merged
    int key_bytes = 1;
    for (const Buffer* key : keys_) key_bytes = std::max(key_bytes, bytes_of(key->dtype));
    element_ = merged_bytes(p_, key_bytes) == 8 ? "nb_merged<unsigned, unsigned>" : "nb_merged<unsigned long, unsigned long>";
    halves_[0] = fmt::format("({}*){}", element_, cpp_name(with_role(k, BufferRole::kWorkspace).at(0)->name));
    halves_[1] = fmt::format("{} + {}", halves_[0], size_text(rows_ * p_.count()));
  }

  TemplateCalls run() {
    for (size_t key = keys_.size(); key-- > 0;) {
      sort_parts(key);
      int64_t width = part_, most = p_.count().bounds().max;
      for (; 2 * width < most; width *= 2) merge(key, width);
      key > 0 ? merge(key, width) : merge_last(width);
    }
    return std::move(out_);
  }

 private:
  void sort_parts(size_t key) {
    std::string from = key + 1 == keys_.size() ? fmt::format("(const {}*)nullptr", element_) : halves_[at_];
    if (key + 1 < keys_.size()) at_ = 1 - at_;
    std::string descending = size_text(p_.number(selects() ? "largest" : "descending"));
    std::string call =
        fmt::format("nb_sort_parts<{}>((nb_sorted*)room_, {}, {}, {}, {}, {}, {}, {});", part_, size_text(rows_),
                    count(), inner(), descending, halves_[at_], from, cpp_name(keys_[key]->name));
    out_.push_back({std::move(call), fmt::format("_parts{}", key)});
  }
  void merge(size_t key, int64_t width) {
    std::string call = fmt::format("nb_merge<{}>(({}*)room_, {}, {}, {}, {}, {});", tile_, element_, size_text(rows_),
                                   count(), width, halves_[1 - at_], halves_[at_]);
    at_ = 1 - at_;
    out_.push_back({std::move(call), fmt::format("_merge{}_{}", key, width)});
  }
  void merge_last(int64_t width) {
    std::string results, numbers = inner();
    for (const Buffer* b : results_) results += cpp_name(b->name) + ", ";
    if (selects()) numbers += ", " + size_text(p_.number("k"));
    std::string call = fmt::format("nb_merge_{}<{}>(({}*)room_, {}, {}, {}, {}, {}{}{});", p_.def->name, tile_,
                                   element_, size_text(rows_), count(), numbers, width, results, halves_[at_],
                                   selects() ? ", " + cpp_name(keys_[0]->name) : "");
    out_.push_back({std::move(call), ""});
  }
  bool selects() const { return p_.def->algorithm == Algorithm::kSelect; }
  std::string count() const { return size_text(p_.count()); }
  std::string inner() const { return size_text(p_.inner()); }

  const Procedure& p_;
  std::vector<const Buffer*> keys_, results_;
  int64_t part_, tile_;
  ir::Dim rows_ = p_.rows();
  int at_ = 0;  // the half that holds the elements
  std::string element_, halves_[2];
  TemplateCalls out_;
};

}  // namespace

TemplateCalls block_sort_calls(const Kernel& kernel) {
  return {{by_a_block(kernel, template_mapping(kernel, 0).tile_columns), ""}};
}

TemplateCalls merge_sort_calls(const Kernel& kernel) { return MergeSort(kernel).run(); }

}  // namespace nabla::codegen
