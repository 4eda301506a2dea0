// im2col and col2im: nn.functional.unfold and fold, each the other's gradient.
//
// Not supported: integers (CPU refuses them). Half types are added up in f32 and rounded once.
#include "ops/registry.h"
#include "ops/sliding_windows.h"

namespace neuron::ops {
namespace {

// The argument's two numbers, none below `least`.
std::optional<Shape> pair(const Lowering& l, const char* name, int64_t least) {
  const Shape values = l.ints(name);
  if (values.size() != 2 || values[0] < least || values[1] < least) return std::nullopt;
  return values;
}

// The windows over an image of that size; nothing for arguments that PyTorch refuses.
std::optional<SlidingDims> sliding(const Lowering& l, const Shape& size) {
  const auto kernel = pair(l, "kernel_size", 1), dilation = pair(l, "dilation", 1), padding = pair(l, "padding", 0),
             stride = pair(l, "stride", 1);
  if (!kernel || !dilation || !padding || !stride) return std::nullopt;
  SlidingDims dims;
  for (size_t i = 0; i < 2; ++i) {
    Sliding s{(*kernel)[i], (*stride)[i], (*padding)[i], (*dilation)[i]};
    s.positions = positions_in(size[i], s);
    if (size[i] < 1 || s.positions < 1) return std::nullopt;
    dims.push_back(s);
  }
  return dims;
}

bool has_kernel(DType dtype) { return is_floating(dtype) || is_complex(dtype) || dtype == DType::boolean; }

int64_t taps(const SlidingDims& d) { return d[0].taps * d[1].taps; }
int64_t positions(const SlidingDims& d) { return d[0].positions * d[1].positions; }

// self [N, C, H, W] or [C, H, W] -> [N, C * taps, positions]
struct Unfold {
  SlidingDims dims;
  Shape shape;
};
std::optional<Unfold> unfold_of(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const size_t rank = x.shape.size();
  if ((rank != 3 && rank != 4) || !has_kernel(x.dtype) || x.shape[rank - 3] < 1) return std::nullopt;
  const auto dims = sliding(l, {x.shape[rank - 2], x.shape[rank - 1]});
  if (!dims) return std::nullopt;
  Shape shape{x.shape[rank - 3] * taps(*dims), positions(*dims)};
  if (rank == 4) shape.insert(shape.begin(), x.shape[0]);
  return Unfold{*dims, shape};
}

Val im2col(Lowering& l) {
  const auto u = unfold_of(l);
  return u ? reshape(windows(l.raw("self"), u->dims), u->shape) : l.unsupported("this form");
}

// self [N, C * taps, positions] or without N -> [N, C, H, W]
struct Fold {
  SlidingDims dims;
  Shape pieces, size, shape;  // [N, C, taps.., positions..], [H, W], the result
};
std::optional<Fold> fold_of(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const size_t rank = x.shape.size();
  const auto size = pair(l, "output_size", 1);
  if ((rank != 2 && rank != 3) || !has_kernel(x.dtype) || !size) return std::nullopt;
  const auto dims = sliding(l, *size);
  if (!dims || x.shape[rank - 1] != positions(*dims)) return std::nullopt;
  const int64_t rows = x.shape[rank - 2], channels = rows / taps(*dims);
  if (rows == 0 || rows % taps(*dims) != 0) return std::nullopt;
  const SlidingDims& d = *dims;
  Fold f{d, {channels, d[0].taps, d[1].taps, d[0].positions, d[1].positions}, *size, {channels, (*size)[0], (*size)[1]}};
  if (rank == 3) {
    f.pieces.insert(f.pieces.begin(), x.shape[0]);
    f.shape.insert(f.shape.begin(), x.shape[0]);
  }
  return f;
}

Val col2im(Lowering& l) {
  const auto f = fold_of(l);
  if (!f) return l.unsupported("this form");
  const Val x = l.raw("self");
  const bool boolean = x.dtype() == DType::boolean;  // a sum is true if any piece is
  const Val pieces = reshape(convert(x, boolean ? DType::i32 : opmath(x.dtype())), f->pieces);
  const Val added = overlap_add(pieces, f->dims, f->size);
  return boolean ? to_bool(added) : convert(added, x.dtype());
}

}  // namespace

void register_unfold(Registry& registry) {
  NEURON_OP("aten::im2col", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto u = unfold_of(l);
              return u ? std::optional<Metas>(one(contiguous_meta(l.meta("self").dtype, u->shape))) : std::nullopt;
            })),
            im2col);
  NEURON_OP("aten::col2im", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto f = fold_of(l);
              return f ? std::optional<Metas>(one(contiguous_meta(l.meta("self").dtype, f->shape))) : std::nullopt;
            })),
            col2im);
}

}  // namespace neuron::ops
