// Convolution by oneDNN. Activations stay N,spatial,C; the filter is brought to the primitive's preferred layout in
// the workspace. Forward and input gradient are cut along the batch; the filter gradient sums over it in one call.
#include <algorithm>
#include <atomic>

#include "runtime/device/onednn_internal.h"

namespace nabla::device {
namespace {

struct Descs {
  dnnl_memory_desc_t input, filter, output;
};

struct Windows {
  dnnl_dims_t strides, dilations, low, high;
};

/// Axes N,C,spatial in oneDNN's order over memory that is N,spatial,C.
dnnl_memory_desc_t activation_desc(OneDnn::Library& lib, const std::vector<int64_t>& shape, int64_t batch,
                                   dnnl_data_type_t type) {
  int rank = static_cast<int>(shape.size());
  dnnl_dims_t dims = {}, strides = {};
  dims[0] = batch;
  dims[1] = shape[rank - 1];
  strides[1] = 1;
  int64_t stride = shape[rank - 1];
  for (int d = rank - 2; d >= 1; --d) {
    dims[d + 1] = shape[d];
    strides[d + 1] = stride;
    stride *= shape[d];
  }
  strides[0] = stride;
  dnnl_memory_desc_t md;
  dnnl_status_t status = lib.dnnl_memory_desc_init_by_strides(&md, rank, dims, type, strides);
  NABLA_CHECK(status == dnnl_success, "oneDNN refused an activation of rank {}", rank);
  return md;
}

/// Axes (groups,)O,I,spatial over memory that is spatial,I,O. `any`: the layout is left to the primitive.
dnnl_memory_desc_t filter_desc(OneDnn::Library& lib, const ConvolutionSpec& s, dnnl_data_type_t type, bool any) {
  const std::vector<int64_t>& shape = s.filter_shape;
  int rank = static_cast<int>(shape.size());
  int64_t in = shape[rank - 2], out = shape[rank - 1];
  dnnl_dims_t dims = {}, strides = {};
  int at = 0;
  if (s.groups > 1) {
    dims[at] = s.groups;
    strides[at++] = out / s.groups;
  }
  dims[at] = out / s.groups;
  strides[at++] = 1;
  dims[at] = in;
  strides[at++] = out;
  int64_t stride = in * out;
  for (int d = rank - 3; d >= 0; --d) {
    dims[at + d] = shape[d];
    strides[at + d] = stride;
    stride *= shape[d];
  }
  at += rank - 2;
  dnnl_memory_desc_t md;
  dnnl_status_t status = any ? lib.dnnl_memory_desc_init_by_tag(&md, at, dims, type, dnnl_format_tag_any)
                             : lib.dnnl_memory_desc_init_by_strides(&md, at, dims, type, strides);
  NABLA_CHECK(status == dnnl_success, "oneDNN refused a filter of rank {}", at);
  return md;
}

Windows windows_of(const ConvolutionSpec& s) {
  Windows w = {};
  for (size_t d = 0; d < s.strides.size(); ++d) {
    w.strides[d] = s.strides[d];
    w.dilations[d] = s.dilations[d] - 1;
    w.low[d] = s.padding_low[d];
    // oneDNN wants exactly the padding that the output needs; what the stride skips at the end is left out.
    int64_t window = (s.filter_shape[d] - 1) * s.dilations[d] + 1;
    w.high[d] = (s.output_shape[d + 1] - 1) * s.strides[d] + window - s.input_shape[d + 1] - s.padding_low[d];
  }
  return w;
}

bool describe(OneDnn::Library& lib, ConvolutionKind kind, const Descs& d, const Windows& w, PrimitiveDesc& out,
              dnnl_primitive_desc_t hint) {
  dnnl_convolution_desc_t op;
  dnnl_status_t status = dnnl_success;
  switch (kind) {
    case ConvolutionKind::kForward:
      status = lib.dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct,
                                                              &d.input, &d.filter, nullptr, &d.output, w.strides,
                                                              w.dilations, w.low, w.high);
      break;
    case ConvolutionKind::kInputGrad:
      status = lib.dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &d.input, &d.filter,
                                                                    &d.output, w.strides, w.dilations, w.low, w.high);
      break;
    case ConvolutionKind::kFilterGrad:
      status = lib.dnnl_dilated_convolution_backward_weights_desc_init(
          &op, dnnl_convolution_direct, &d.input, &d.filter, nullptr, &d.output, w.strides, w.dilations, w.low, w.high);
      break;
  }
  return status == dnnl_success &&
         lib.dnnl_primitive_desc_create(&out.handle, &op, lib.attr, lib.engine, hint) == dnnl_success;
}

/// One block of the batch.
struct Block {
  std::unique_ptr<Primitive> primitive;
  dnnl_memory_desc_t filter;  ///< the layout that the primitive works on
};

Result<Block> make_convolution_block(OneDnn::Library& lib, const ConvolutionSpec& s, int64_t batch,
                         const dnnl_memory_desc_t& filter) {
  dnnl_data_type_t type = dnnl_type(s.dtype);
  Descs descs{activation_desc(lib, s.input_shape, batch, type), filter,
              activation_desc(lib, s.output_shape, batch, type)};
  Windows windows = windows_of(s);
  PrimitiveDesc hint(lib), desc(lib);
  // The gradients' descriptions need a forward one; its own choice of a filter layout does not matter.
  Descs forward = descs;
  forward.filter = filter_desc(lib, s, type, true);
  bool described =
      s.kind == ConvolutionKind::kForward || describe(lib, ConvolutionKind::kForward, forward, windows, hint, nullptr);
  if (!described || !describe(lib, s.kind, descs, windows, desc, hint.handle))
    return error(Code::kMissingLibrary, "the installed oneDNN has no {} convolution of this shape for this CPU",
                 name_of(s.dtype));
  bool grad = s.kind == ConvolutionKind::kFilterGrad;
  Block block{nullptr, *desc.md(grad ? dnnl_query_diff_weights_md : dnnl_query_weights_md)};
  descs.filter = block.filter;
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  if (s.kind == ConvolutionKind::kInputGrad) arguments = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
  if (grad) arguments = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
  block.primitive = NABLA_TRY(Primitive::make(lib, desc, arguments, {descs.input, descs.filter, descs.output}));
  return block;
}

Result<std::unique_ptr<Primitive>> make_reorder(OneDnn::Library& lib, const dnnl_memory_desc_t& from,
                                                const dnnl_memory_desc_t& to) {
  PrimitiveDesc desc(lib);
  if (lib.dnnl_reorder_primitive_desc_create(&desc.handle, &from, lib.engine, &to, lib.engine, lib.attr) !=
      dnnl_success)
    return error(Code::kMissingLibrary, "the installed oneDNN cannot reorder a filter");
  return Primitive::make(lib, desc, {DNNL_ARG_FROM, DNNL_ARG_TO}, {from, to});
}

class ConvolutionCall : public LibraryCall {
 public:
  ConvolutionCall(OneDnn::Library& lib, const ConvolutionSpec& spec) : lib_(lib), s_(spec) {
    double flops = 2.0;
    for (int64_t extent : s_.output_shape) flops *= static_cast<double>(extent);
    for (size_t d = 0; d + 1 < s_.filter_shape.size(); ++d) flops *= static_cast<double>(s_.filter_shape[d]);
    int64_t batch = s_.input_shape[0];
    bool one = flops < kMinFlopsPerLaunch || s_.kind == ConvolutionKind::kFilterGrad;
    int64_t wanted = one ? 1 : std::min<int64_t>(lib.pool.size(), batch);
    step_ = (batch + wanted - 1) / wanted;
    blocks_ = (batch + step_ - 1) / step_;
    auto image = [&](const std::vector<int64_t>& shape) {
      int64_t n = bytes_of(s_.dtype);
      for (size_t d = 1; d < shape.size(); ++d) n *= shape[d];
      return n;
    };
    input_image_ = image(s_.input_shape);
    output_image_ = image(s_.output_shape);
  }

  Status prepare() {
    dnnl_memory_desc_t plain = filter_desc(lib_, s_, dnnl_type(s_.dtype), false);
    dnnl_memory_desc_t chosen = filter_desc(lib_, s_, dnnl_type(s_.dtype), true);
    Block block = NABLA_TRY(make_convolution_block(lib_, s_, step_, chosen));
    if (lib_.dnnl_memory_desc_equal(&block.filter, &plain) == 0) {
      if (lib_.dnnl_memory_desc_get_size(&block.filter) > s_.workspace_bytes) {
        block = NABLA_TRY(make_convolution_block(lib_, s_, step_, plain));
      } else if (s_.kind == ConvolutionKind::kFilterGrad) {
        reorder_ = NABLA_TRY(make_reorder(lib_, block.filter, plain));
      } else {
        reorder_ = NABLA_TRY(make_reorder(lib_, plain, block.filter));
      }
    }
    whole_ = std::move(block.primitive);
    if (int64_t rest = s_.input_shape[0] % step_; rest != 0)
      last_ = NABLA_TRY(make_convolution_block(lib_, s_, rest, block.filter)).primitive;
    return Ok{};
  }

  bool run(void* const* operands) override {
    operands_ = operands;
    filter_ = reorder_ != nullptr ? operands[3] : operands[1];
    failed_.store(false, std::memory_order_relaxed);
    bool grad = s_.kind == ConvolutionKind::kFilterGrad;
    void* there[] = {operands[1], operands[3]};
    void* back[] = {operands[3], operands[1]};
    if (reorder_ != nullptr && !grad && !reorder_->run(0, there)) return false;
    lib_.pool.run(
        [](void* self, int64_t begin, int64_t end, int thread) {
          for (int64_t block = begin; block < end; ++block)
            static_cast<ConvolutionCall*>(self)->run_block(block, thread);
        },
        this, blocks_, 0);
    if (reorder_ != nullptr && grad && !reorder_->run(0, back)) return false;
    return !failed_.load(std::memory_order_relaxed);
  }

 private:
  void run_block(int64_t block, int thread) {
    int64_t begin = block * step_;
    void* pointers[] = {static_cast<char*>(operands_[0]) + begin * input_image_, filter_,
                        static_cast<char*>(operands_[2]) + begin * output_image_};
    Primitive* primitive = begin + step_ <= s_.input_shape[0] ? whole_.get() : last_.get();
    if (!primitive->run(thread, pointers)) failed_.store(true, std::memory_order_relaxed);
  }

  OneDnn::Library& lib_;
  ConvolutionSpec s_;
  int64_t step_ = 0, blocks_ = 0;               ///< the batch is cut into blocks of `step_` images
  int64_t input_image_ = 0, output_image_ = 0;  ///< bytes
  std::unique_ptr<Primitive> whole_, last_, reorder_;
  void* const* operands_ = nullptr;
  void* filter_ = nullptr;
  std::atomic<bool> failed_{false};
};

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_convolution(OneDnn::Library& lib, const ConvolutionSpec& s) {
  auto call = std::make_unique<ConvolutionCall>(lib, s);
  (void)NABLA_TRY(call->prepare());
  return std::unique_ptr<LibraryCall>(std::move(call));
}

}  // namespace nabla::device
