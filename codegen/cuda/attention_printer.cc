#include "codegen/cuda/attention_printer.h"

#include <algorithm>
#include <bit>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int64_t kMostBlocks = 1 << 20;  // blocks walk the work in strides of the grid

int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

class AttentionPrinter {
 public:
  AttentionPrinter(const Kernel& k, const ir::Target& target) : k_(k), target_(target), p_(*k.procedure) {
    narrow_ = bytes_of(k.buffers[0].dtype) == 2;
    own_ = narrow_ ? 64 : 32;
    d_ = n("features").value(), w_ = n("out").value();
  }

  TemplateGrid forward() {
    auto bytes = [&](int64_t c) {
      return element() * ((own_ + c) * pitch(d_) + up(w_, 8) * (c + 8) + own_ * (c + 8)) + kept(own_, c);
    };
    return grid("", "nb_attention", query_tiles(), bytes, {"out", "logsumexp"}, 3);
  }
  TemplateGrid queries() {
    auto bytes = [&](int64_t c) {
      return element() * ((own_ + c) * (pitch(d_) + pitch(w_)) + (up(d_, 8) + own_) * (c + 8)) + kept(own_, c);
    };
    return grid("_queries", "nb_attention_grad_queries", query_tiles(), bytes, {"dq"}, 6);
  }
  TemplateGrid keys() {
    auto bytes = [&](int64_t c) {
      return element() * ((own_ + c) * (pitch(d_) + pitch(w_)) + (up(d_, 8) + up(w_, 8) + own_) * (c + 8)) + 8 * c +
             kept(c, own_);
    };
    ir::Dim heads = ir::Dim::floordiv(p_.outer(), n("heads")) * n("kv_heads");
    return grid("_keys", "nb_attention_grad_keys", heads * ir::Dim::ceildiv(n("keys"), own_), bytes, {"dk", "dv"}, 6);
  }

 private:
  const ir::Dim& n(const char* name) const { return p_.number(name); }
  int64_t element() const { return bytes_of(k_.buffers[0].dtype); }
  static int64_t pitch(int64_t width) { return up(width, 16) + 8; }
  /// Of a byte per weight of a tile: is it kept?
  int64_t kept(int64_t rows, int64_t columns) const { return drops() ? rows * (columns + 4) : 0; }
  bool drops() const { return !n("streams").is(0); }
  ir::Dim query_tiles() const { return p_.outer() * ir::Dim::ceildiv(p_.count(), own_); }

  /// `bytes` of shared memory for tiles of c rows; the largest c that leaves room for a second block is taken, else the
  /// largest that fits.
  template <class Bytes>
  TemplateGrid grid(std::string suffix, const std::string& function, const ir::Dim& blocks, Bytes bytes,
                    const std::vector<std::string>& results, size_t operands) {
    int64_t c = narrow_ ? 64 : 32;
    while (c > 16 && bytes(c) > target_.cuda.block_shared_bytes / 2) c /= 2;
    TemplateGrid out{{}, std::move(suffix), {}};
    out.launch.blocks = ir::Dim::max(ir::Dim::min(blocks, kMostBlocks), 1);
    out.launch.threads = static_cast<int>(own_ * 2);
    out.launch.shared_bytes = static_cast<int>(up(bytes(c), 16));
    std::string sizes;
    // In the order of nb_heads in attention.cuh.
    for (const char* name : {"outer", "count", "heads", "kv_heads", "keys", "mask_batch", "mask_heads", "streams"})
      sizes += size_text(n(name)) + ", ";
    sizes += fmt::format("{}, {}, {}u", float_text("scale"), float_text("kept"), n("least").value());
    for (const char* name : {"diagonal", "word", "word_batch", "word_head", "word_query"})
      sizes += ", " + size_text(n(name));
    std::string args;
    size_t inputs = 0, extra = operands;
    for (const Buffer& b : k_.buffers) inputs += b.role == BufferRole::kIn;
    for (size_t r = 0; r < k_.buffers.size() - inputs; ++r)
      if (std::find(results.begin(), results.end(), result_name(r)) != results.end())
        args += ", " + cpp_name(k_.buffers[inputs + r].name);
    for (size_t i = 0; i < operands; ++i) args += ", " + cpp_name(k_.buffers[i].name);
    args += !n("mask_batch").is(0) ? ", " + cpp_name(k_.buffers[extra++].name) : ", (const bool*)0";
    args += drops() ? ", " + cpp_name(k_.buffers[extra++].name) : ", 0";
    NABLA_CHECK(extra == inputs, "attention takes {} operands, not {}", extra, inputs);
    out.call = fmt::format("{}<{}, {}, {}, {}, {}, {}>(room_, nb_heads{{{}}}{});", function, own_, c, d_, w_,
                           n("causal").is(1), drops(), sizes, args);
    return out;
  }
  std::string float_text(const char* name) const {
    return number_text(DType::kF32, std::bit_cast<float>(static_cast<uint32_t>(n(name).value())), 0);
  }
  std::string result_name(size_t r) const {
    static const std::vector<std::string> kForward = {"out", "logsumexp"}, kBackward = {"dq", "dk", "dv"};
    return (k_.procedure->def->algorithm == Algorithm::kAttention ? kForward : kBackward)[r];
  }

  const Kernel& k_;
  const ir::Target& target_;
  const Procedure& p_;
  bool narrow_;
  int64_t own_, d_, w_;
};

}  // namespace

TemplateGrids attention_grids(const Kernel& kernel, const ir::Target& target) {
  AttentionPrinter printer(kernel, target);
  if (kernel.procedure->def->algorithm == Algorithm::kAttention) return {printer.forward()};
  return {printer.queries(), printer.keys()};
}

}  // namespace nabla::codegen
