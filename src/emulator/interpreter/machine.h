// What one instruction sees while the interpreter executes it: the on-chip memories of its physical core, the HBM tensors of
// the launch, the loop counters, and its operands resolved to host addresses.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "emulator/executor.h"
#include "emulator/interpreter/elements.h"
#include "isa/program.h"

namespace neuron::emulator {

using Counters = std::array<int64_t, isa::kMaxLoops>;

// SBUF or PSUM of one physical core, laid out literally: partition p at bytes [p*pitch, (p+1)*pitch).
struct OnChipMemory {
  uint64_t pitch = 0;
  std::vector<uint8_t> bytes;
};

struct PhysicalCore {
  OnChipMemory sbuf, psum;
};

// An access pattern at one iteration: element (p, e) is at base + p*partition_pitch + offset(e). 0 partitions = absent.
struct Operand {
  DType dtype = DType::f32;
  size_t partitions = 0;
  size_t count = 0;  // elements per partition
  uint8_t* base = nullptr;
  int64_t partition_pitch = 0;
  const isa::Access* access = nullptr;
  std::vector<int64_t> offsets;  // of the elements of one row; empty for the long rows that only DMA has

  bool present() const { return partitions != 0; }
  int64_t offset(size_t e) const {
    if (!offsets.empty()) return offsets[e];
    int64_t sum = 0;
    for (int d = access->rank - 1; d >= 0; --d) {
      sum += static_cast<int64_t>(e % access->dims[d].count) * access->dims[d].stride;
      e /= access->dims[d].count;
    }
    return sum;
  }
  uint8_t* at(size_t p, size_t e) const { return base + static_cast<int64_t>(p) * partition_pitch + offset(e); }
  template <class T>
  T load(size_t p, size_t e) const {
    return load_element<T>(dtype, at(p, e));
  }
  template <class T>
  void store(size_t p, size_t e, T value) const {
    store_element<T>(dtype, at(p, e), value);
  }
  template <class T>
  void load_row(size_t p, std::vector<T>& row) const {
    row.resize(count);
    for (size_t e = 0; e < count; ++e) row[e] = load<T>(p, e);
  }
  template <class T>
  void store_row(size_t p, const std::vector<T>& row) const {
    for (size_t e = 0; e < count; ++e) store<T>(p, e, row[e]);
  }
};

// A scalar operand: the immediate in the compute type, or one value per partition.
struct Scalar {
  const isa::ScalarOperand* operand = nullptr;
  Operand access;

  bool present() const { return operand->kind != isa::ScalarOperand::Kind::none; }
  template <class T>
  T value(size_t p) const {
    if (operand->kind == isa::ScalarOperand::Kind::access) return access.load<T>(access.partitions == 1 ? 0 : p, 0);
    return immediate<T>();
  }
  template <class T>
  T immediate() const {
    if constexpr (kIsComplex<T>)
      return T(static_cast<typename T::value_type>(operand->re), static_cast<typename T::value_type>(operand->im));
    else if constexpr (kIsFloating<T>)
      return static_cast<T>(operand->re);
    else
      return static_cast<T>(operand->i);
  }
};

// One instruction at one iteration, operands resolved.
struct Execution {
  const isa::Program& program;
  const isa::Instruction& instruction;
  const Counters& counters;
  Launch& launch;
  Operand dst, dst2, src0, src1, src2, index;
  Scalar scalar0, scalar1;

  // Fails when an operand would leave its tensor or tile: the validator should have refused the program.
  Status resolve(PhysicalCore& core);
  // "vector.tensor_tensor (aten::add)", for errors.
  std::string where() const;
  const std::string& label() const;
  int64_t pattern_base(size_t p) const;
  // pattern's value for every element of a row of `like`'s shape, without base and partition part.
  std::vector<int64_t> pattern_offsets(const isa::Access& like) const;
  bool accumulates() const;

 private:
  Status resolve_access(const isa::Access& access, PhysicalCore& core, bool indirect, Operand* out);
};

// Dispatch by opcode: what the instruction does to memory.
Status execute(Execution& e);

// By subject: instructions.cpp, matmul.cpp, routines.cpp.
Status execute_dma_copy(Execution& e);
Status execute_transpose(Execution& e);
Status execute_elementwise(Execution& e);
Status execute_reduction(Execution& e);
Status execute_matmul(Execution& e);
Status execute_routine(Execution& e);

// Reads index[p, j], checks it, and gives the byte offset it adds to the HBM operand (or says that the row is skipped).
Status indirect_row(Execution& e, size_t p, size_t j, bool* skip, int64_t* offset);
// Element (p, i) of the HBM operand moved by that offset; fails when it leaves the tensor.
Status indirect_address(const Execution& e, const Operand& hbm, const isa::Access& access, size_t p, size_t i,
                        int64_t offset, uint8_t** out);

// Calls body.template operator()<T>() with the C++ type of a compute dtype.
template <class Body>
Status with_compute_type(DType compute, Body&& body) {
  switch (compute) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    case DType::i64:
      return body.template operator()<int64_t>();
    case DType::u64:
      return body.template operator()<uint64_t>();
    case DType::c64:
      return body.template operator()<c64>();
    case DType::c128:
      return body.template operator()<c128>();
    default:
      return unsupported("compute type " + std::string(name_of(compute)));
  }
}

}  // namespace neuron::emulator
