// Strip-mining over a Space: each strip of at most kStrip elements is gathered into contiguous compute-type values (or read
// in place), handed to a function, and stored.
#pragma once

#include "emulator/plan/space.h"

namespace neuron::emulator::plan {

// Contiguous elements of some dtype to and from compute-type values.
using Load = void (*)(void* out, const void* in, size_t n);
using Store = void (*)(void* out, const void* in, size_t n);

// f32 from the kernel table, others from generic loops; null when there is no conversion.
template <class T>
Load loader(DType from);
template <class T>
Store storer(DType to);

// How an operand lies within a strip.
enum class Lie : uint8_t { uniform, dense, nested };

struct StripOperand {
  DType dtype = DType::f32;
  uint8_t size = 4;
  Lie lie = Lie::nested;
  bool direct = false;  // dense and of the compute type: no copy
  bool same = false;    // of the compute type
  Load load = nullptr;
  Store store = nullptr;
};

struct Strips {
  Space space;
  int split = 0;  // dims below `split` are walked one by one, dim `split` in pieces of `piece`, dims above whole
  uint32_t piece = 1;
  uint32_t inner = 1;  // elements of the dims above `split`
  StripOperand operands[kMaxOperands];

  // Fills split, piece, inner and each operand's lie. Operands need dtype, and load or store. `by_rows` allows strips of one
  // row although more would fit; the lies then hold for one row.
  void prepare(DType compute, bool by_rows = false);

 private:
  Lie lie_of(int operand, int from) const;
};

// Row-major block of dims [dim, rank) with `count` for the first: into or out of contiguous storage.
void gather(const Strips& s, int operand, int dim, uint32_t count, const uint8_t* at, uint8_t* out, size_t out_size);
void scatter(const Strips& s, int operand, int dim, uint32_t count, uint8_t* at, const uint8_t* in, size_t in_size);

// body(pointers, count along dim `split`, index along the dims in front of it, position along `split`) for each strip of
// partitions [first, last). `at` are the operands' addresses for partition 0.
template <class Body>
void for_each_strip(const Strips& s, uint8_t* const* at, uint32_t first, uint32_t last, Body&& body) {
  const Space& space = s.space;
  uint32_t counts[kMaxRank];
  for (int d = 0; d < space.rank; ++d) counts[d] = space.counts[d];
  counts[0] = (last - first) * space.per_partition;
  uint8_t* base[kMaxOperands];
  for (int o = 0; o < space.operands; ++o) base[o] = at[o] + static_cast<int64_t>(first) * space.partition_strides[o];
  uint32_t index[kMaxRank] = {};
  for (;;) {
    for (uint32_t i = 0; i < counts[s.split]; i += s.piece) {
      const uint32_t count = counts[s.split] - i < s.piece ? counts[s.split] - i : s.piece;
      uint8_t* now[kMaxOperands];
      for (int o = 0; o < space.operands; ++o) now[o] = base[o] + static_cast<int64_t>(i) * space.strides[o][s.split];
      body(now, count, index, i);
    }
    int d = s.split - 1;
    for (; d >= 0; --d) {
      for (int o = 0; o < space.operands; ++o) base[o] += space.strides[o][d];
      if (++index[d] < counts[d]) break;
      for (int o = 0; o < space.operands; ++o) base[o] -= space.strides[o][d] * static_cast<int64_t>(counts[d]);
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace neuron::emulator::plan
