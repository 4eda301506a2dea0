// What selects an executable: a flat sequence of 64-bit words built from a call's arguments, without allocation for ordinary
// calls. Never values, never storage offsets.
//
// A tensor contributes dtype, rank, category, conj/neg bits, sizes, and strides unless it is contiguous.
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace neuron::pytorch {

// How a tensor argument takes part (part of its first word).
enum class Role : uint8_t {
  device,          // on the call's core
  host_number,     // 0-dim CPU tensor: becomes a runtime scalar
  wrapped_number,  // the same, made from a Python number
  foreign,         // elsewhere: an error
};

class Signature {
 public:
  Signature() = default;
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;

  void word(uint64_t value) {
    if (size_ == capacity_) [[unlikely]]
      grow(1);
    words_[size_++] = value;
  }
  void replace(size_t index, uint64_t value) { words_[index] = value; }

  void tensor(const c10::TensorImpl& t, Role role) {
    const auto sizes = t.sizes();
    const bool contiguous = t.is_contiguous();
    if (size_ + 1 + 2 * sizes.size() > capacity_) [[unlikely]]
      grow(1 + 2 * sizes.size());
    words_[size_++] = uint64_t{1} << 63 | static_cast<uint64_t>(c10::typeMetaToScalarType(t.dtype())) |
                      static_cast<uint64_t>(role) << 8 | uint64_t{contiguous} << 12 | uint64_t{t.is_conj()} << 13 |
                      uint64_t{t.is_neg()} << 14 | static_cast<uint64_t>(sizes.size()) << 16;
    for (const int64_t size : sizes) words_[size_++] = static_cast<uint64_t>(size);
    if (!contiguous) {
      for (const int64_t stride : t.strides()) words_[size_++] = static_cast<uint64_t>(stride);
    }
  }

  std::span<const uint64_t> words() const { return {words_, size_}; }

  uint64_t hash() const {
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < size_; ++i) {
      h = (h ^ words_[i]) * 0xff51afd7ed558ccdull;
      h ^= h >> 32;
    }
    return h;
  }

 private:
  void grow(size_t more) {
    size_t capacity = capacity_;
    while (capacity < size_ + more) capacity *= 2;
    auto bigger = std::make_unique<uint64_t[]>(capacity);
    std::memcpy(bigger.get(), words_, size_ * sizeof(uint64_t));
    heap_ = std::move(bigger);
    words_ = heap_.get();
    capacity_ = capacity;
  }

  static constexpr size_t kInline = 128;
  uint64_t inline_[kInline];
  uint64_t* words_ = inline_;
  size_t size_ = 0, capacity_ = kInline;
  std::unique_ptr<uint64_t[]> heap_;
};

}  // namespace neuron::pytorch
