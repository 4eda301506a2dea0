#include "emulator/program_generator.h"

#include <algorithm>

#include "emulator/program_frame.h"
#include "isa/instruction_table.h"

namespace neuron::emulator::testing {
namespace {

using isa::Access;
using isa::ActFn;
using isa::AluOp;
using isa::Engine;
using isa::Instruction;
using isa::Opcode;
using isa::Space;

const std::vector<DType> kComputeTypes = {DType::f32, DType::f64, DType::i64, DType::u64, DType::c64, DType::c128};

std::vector<DType> every_dtype() {
  std::vector<DType> all;
  for (int t = 0; t < kDTypeCount; ++t) all.push_back(static_cast<DType>(t));
  return all;
}

std::vector<DType> types_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::dma_copy:
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
    case Opcode::tensor_copy:
    case Opcode::iota:
      return every_dtype();
    case Opcode::random_bits:
      return {DType::u32, DType::u64};
    case Opcode::nc_matmul: {
      std::vector<DType> t = kComputeTypes;
      t.insert(t.end(), {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e5m2});
      return t;
    }
    case Opcode::bn_stats:
    case Opcode::bn_aggr:
      return {DType::f32};
    case Opcode::max8:
    case Opcode::find_index8:
    case Opcode::top_k:
      return {DType::f32, DType::f64, DType::i64, DType::u64};
    case Opcode::reciprocal:
      return {DType::f32, DType::f64, DType::c64, DType::c128};
    default:
      return kComputeTypes;
  }
}

bool divides(AluOp op) {
  return op == AluOp::divide || op == AluOp::remainder || op == AluOp::fmod || op == AluOp::floor_divide ||
         op == AluOp::trunc_divide;
}
bool shifts(AluOp op) {
  return op == AluOp::shift_left || op == AluOp::shift_right_arithmetic || op == AluOp::shift_right_logical ||
         op == AluOp::power;
}
Fill divisor_fill(AluOp op) { return divides(op) ? Fill::nonzero : shifts(op) ? Fill::shift : Fill::any; }

class CellGenerator {
 public:
  CellGenerator(const Cell& cell, Generated& out, Random& random, uint64_t shrink)
      : f_(out, random, cell.depth, shrink), r_(random), opcode_(cell.opcode), type_(cell.type), body_{cell.depth, false} {}

  // False when the tiles do not fit on chip.
  bool run() {
    switch (opcode_) {
      case Opcode::dma_copy:
        dma_copy();
        break;
      case Opcode::dma_transpose:
        dma_transpose();
        break;
      case Opcode::nc_matmul:
        matmul();
        break;
      case Opcode::nc_transpose:
        transpose();
        break;
      case Opcode::tensor_copy:
        tensor_copy();
        break;
      case Opcode::memset:
        memset();
        break;
      case Opcode::iota:
        iota();
        break;
      case Opcode::activation:
        activation();
        break;
      case Opcode::select:
        select();
        break;
      case Opcode::tensor_reduce:
        tensor_reduce();
        break;
      case Opcode::tensor_partition_reduce:
        partition_reduce();
        break;
      case Opcode::tensor_tensor_scan:
        scan();
        break;
      case Opcode::bn_stats:
      case Opcode::bn_aggr:
        batch_statistics();
        break;
      case Opcode::max8:
      case Opcode::find_index8:
        largest_eight();
        break;
      case Opcode::random_bits:
        random_bits();
        break;
      case Opcode::scatter_reduce:
        scatter_reduce();
        break;
      case Opcode::top_k:
        top_k();
        break;
      default:
        arithmetic();
        break;
    }
    f_.finish();
    return f_.fits();
  }

 private:
  // Of an instruction's operands.
  struct Shape {
    uint32_t partitions;
    Counts counts;
  };
  Shape shape() {
    const uint32_t p = f_.partitions();
    return {p, f_.counts(f_.element_budget(p))};
  }
  Shape shape_with_free_dimension() {
    Shape s = shape();
    if (s.counts.empty()) s.counts.push_back(1 + static_cast<uint32_t>(r_.below(40)));
    return s;
  }
  static Counts with_outer(uint32_t outer, Counts counts) {
    counts.insert(counts.begin(), outer);
    return counts;
  }

  Fill any_or_moderate(uint64_t any_one_in = 3) { return r_.chance(any_one_in) ? Fill::any : Fill::moderate; }
  // The cell's element type, or one that it is converted to.
  DType kept_or_any_type(uint64_t kept_one_in = 2) { return r_.chance(kept_one_in) ? type_ : r_.pick(every_dtype()); }

  Instruction& emit(Opcode opcode, Engine e, DType compute, const Access& dst, const Access& src0, const Access& src1 = {}) {
    Instruction& i = f_.add(opcode, e, compute, body_);
    i.dst = dst;
    i.src0 = src0;
    i.src1 = src1;
    return i;
  }
  // dst = an immediate value; 0 unless the caller sets another.
  Instruction& emit_memset(Engine e, DType compute, const Access& dst, Place place) {
    Instruction& i = f_.add(Opcode::memset, e, compute, place);
    i.dst = dst;
    i.scalar0.kind = isa::ScalarOperand::Kind::immediate;
    return i;
  }

  // An operand type that converts to the compute type (sources) or from it (destinations).
  DType operand_type(Engine engine) {
    static const std::vector<DType> kReal = {DType::f32, DType::f32,      DType::f32,    DType::f32,     DType::bf16,
                                             DType::f16, DType::f8e4m3fn, DType::f8e5m2, DType::boolean, DType::u8,
                                             DType::i8,  DType::i16,      DType::u16,    DType::i32,     DType::u32};
    switch (type_) {
      case DType::f64:
        return r_.pick<DType>(
            {DType::f64, DType::f64, DType::f64, DType::f32, DType::i64, DType::i32, DType::bf16, DType::f16});
      case DType::i64:
        return r_.pick<DType>({DType::i64, DType::i64, DType::i32, DType::i32, DType::u8, DType::i8, DType::i16, DType::u16,
                               DType::u32, DType::boolean});
      case DType::u64:
        return r_.pick<DType>({DType::u64, DType::u64, DType::u64, DType::u32, DType::u8, DType::i64});
      case DType::c64:
        return r_.pick<DType>({DType::c64, DType::c64, DType::c64, DType::f32, DType::c128});
      case DType::c128:
        return r_.pick<DType>({DType::c128, DType::c128, DType::c128, DType::c64, DType::f64});
      default:
        break;
    }
    if (engine == Engine::gpsimd && r_.chance(6)) return r_.pick<DType>({DType::f64, DType::i64, DType::u64, DType::c64});
    return r_.pick(kReal);
  }

  Engine engine(AluOp op0 = AluOp::bypass, AluOp op1 = AluOp::bypass, ActFn func = ActFn::copy) {
    std::vector<Engine> able;
    for (Engine e : {Engine::vector, Engine::scalar, Engine::gpsimd}) {
      if (isa::runs_on(e, opcode_, type_, op0, op1, func)) able.push_back(e);
    }
    return able.empty() ? Engine::unknown : r_.pick(able);
  }

  // A random operation that some engine offers in the compute type, and that engine.
  template <class Condition>
  AluOp operation(Condition condition) {
    for (;;) {
      const AluOp op = static_cast<AluOp>(r_.below(static_cast<uint64_t>(AluOp::count_)));
      if (isa::alu_defined_for(op, type_) && condition(op)) return op;
    }
  }
  bool integers() const { return type_ == DType::i64 || type_ == DType::u64; }

  Access destination(uint32_t partitions, const Counts& counts, Engine e, DType dtype) {
    uint64_t n = 1;
    for (uint32_t c : counts) n *= c;
    const bool psum = e != Engine::gpsimd && isa::narrow(dtype) && f_.psum_fits(8 * n) && r_.chance(5);
    return f_.tile(dtype, partitions, counts, f_.depth, psum ? Space::psum : Space::sbuf);
  }

  // What happens to a result: stored as it is, changed in place first, or summed over the inner loops.
  void use(const Access& result, const Counts& counts, Engine e) {
    if (opcode_ != Opcode::nc_matmul && f_.depth > 0 && r_.chance(5) && !integers() && e != Engine::tensor)
      return accumulate(result, counts);
    if (r_.chance(3)) {
      const Engine other = type_ == DType::f32 && isa::narrow(result.dtype) ? Engine::vector : Engine::gpsimd;
      const Access source = other == Engine::gpsimd ? f_.in_sbuf(result, body_) : result;
      const isa::ScalarOperand s = f_.scalar(compute(), result.partitions, Fill::any, other);
      const bool in_place = r_.chance(2);
      const Access to = in_place ? source : f_.tile(result.dtype, result.partitions, counts, f_.depth);
      Instruction& i = emit(Opcode::tensor_scalar, other, compute(), to, source);
      i.op0 = r_.pick<AluOp>({AluOp::add, AluOp::multiply, AluOp::subtract});
      i.scalar0 = s;
      return f_.store(to, body_);
    }
    f_.store(result, body_);
  }

  DType compute() const {
    for (DType t : kComputeTypes) {
      if (t == type_) return t;
    }
    return DType::f32;
  }

  void accumulate(const Access& result, const Counts& counts) {
    const int at = static_cast<int>(r_.below(static_cast<uint64_t>(f_.depth)));
    const Engine e = type_ == DType::f32 && isa::narrow(result.dtype) ? Engine::vector : Engine::gpsimd;
    const DType dtype = compute();
    const Access source = e == Engine::gpsimd ? f_.in_sbuf(result, body_) : result;
    const Access sum = f_.tile(dtype, result.partitions, counts, at);
    emit_memset(e, dtype, sum, {at, false});
    Instruction& i = emit(Opcode::tensor_tensor, e, dtype, sum, sum, source);
    i.op0 = AluOp::add;
    f_.carries_from(at);
    f_.store(sum, {at, true});
  }

  // tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal
  void arithmetic() {
    AluOp op0 = AluOp::bypass, op1 = AluOp::bypass;
    Engine e = Engine::unknown;
    bool reverse0 = false, reverse1 = false;
    while (e == Engine::unknown) {
      if (opcode_ != Opcode::reciprocal) op0 = operation([](AluOp op) { return op != AluOp::bypass; });
      if (opcode_ == Opcode::tensor_scalar && r_.chance(2))
        op1 = AluOp::bypass;
      else if (opcode_ == Opcode::tensor_scalar || opcode_ == Opcode::scalar_tensor_tensor)
        op1 = operation([](AluOp op) { return op != AluOp::bypass; });
      if (r_.chance(4) &&
          (opcode_ == Opcode::tensor_scalar || opcode_ == Opcode::scalar_tensor_tensor)) {  // the fused forms
        op0 = AluOp::multiply;
        op1 = r_.chance(3) && opcode_ == Opcode::tensor_scalar ? AluOp::subtract : AluOp::add;
      }
      e = engine(op0, op1);
    }
    const bool scalar_engine_rule = e == Engine::scalar && opcode_ == Opcode::tensor_scalar;
    if (scalar_engine_rule) {
      op0 = r_.pick<AluOp>({AluOp::multiply, AluOp::add});
      op1 = op0 == AluOp::multiply && r_.chance(2) ? AluOp::add : AluOp::bypass;
    } else if (opcode_ == Opcode::tensor_scalar || opcode_ == Opcode::scalar_tensor_tensor) {
      reverse0 = r_.chance(4);
      reverse1 = op1 != AluOp::bypass && r_.chance(4) && !(integers() && divides(op1));
    }
    const auto [p, counts] = shape();
    const bool has_scalar = opcode_ == Opcode::tensor_scalar || opcode_ == Opcode::scalar_tensor_tensor;
    const bool has_src1 = opcode_ == Opcode::tensor_tensor || opcode_ == Opcode::scalar_tensor_tensor;
    const Fill fill0 = opcode_ == Opcode::reciprocal ? Fill::any : reverse0 ? divisor_fill(op0) : Fill::any;
    const Access src0 = f_.source(operand_type(e), p, counts, fill0, e);
    Access src1;
    if (has_src1) {
      const AluOp last = opcode_ == Opcode::tensor_tensor ? op0 : op1;
      src1 = f_.source(operand_type(e), p, counts, divisor_fill(last), e, src0.space == Space::sbuf);
    }
    isa::ScalarOperand s0, s1;
    if (has_scalar) s0 = f_.scalar(type_, p, reverse0 ? Fill::any : divisor_fill(op0), e);
    if (opcode_ == Opcode::tensor_scalar && op1 != AluOp::bypass) s1 = f_.scalar(type_, p, divisor_fill(op1), e);
    const bool in_place = r_.chance(6) && src0.space == Space::sbuf && is_own_layout(src0);
    const Access dst = in_place ? src0 : destination(p, counts, e, operand_type(e));
    Instruction& i = emit(opcode_, e, type_, dst, src0, src1);
    i.op0 = op0;
    i.op1 = op1;
    i.reverse0 = reverse0;
    i.reverse1 = reverse1;
    i.scalar0 = s0;
    i.scalar1 = s1;
    if (in_place) {
      f_.carries_from(0);  // the source may have been loaded outside the loops
      f_.store(dst, body_);
    } else {
      use(dst, counts, e);
    }
  }

  static bool is_own_layout(const Access& a) {
    for (int d = 0; d < a.rank; ++d) {
      if (a.dims[static_cast<size_t>(d)].stride == 0) return false;
    }
    return true;
  }

  void activation() {
    ActFn func = ActFn::copy;
    Engine e = Engine::unknown;
    while (e == Engine::unknown || !isa::act_defined_for(func, type_)) {
      func = static_cast<ActFn>(r_.below(static_cast<uint64_t>(ActFn::count_)));
      e = isa::act_defined_for(func, type_) ? engine(AluOp::bypass, AluOp::bypass, func) : Engine::unknown;
    }
    const auto [p, counts] = shape();
    const Access src0 = f_.source(operand_type(e), p, counts, any_or_moderate(2), e);
    isa::ScalarOperand s0, s1;
    if (r_.chance(2)) s0 = f_.scalar(type_, p, Fill::moderate, e);
    if (r_.chance(2)) s1 = f_.scalar(type_, p, Fill::moderate, e);
    const Access dst = destination(p, counts, e, operand_type(e));
    Access dst2;
    if (r_.chance(3)) dst2 = f_.tile(r_.chance(4) ? operand_type(e) : type_, p, {}, f_.depth);
    Instruction& i = emit(opcode_, e, type_, dst, src0);
    i.func = func;
    i.dst2 = dst2;
    i.scalar0 = s0;
    i.scalar1 = s1;
    if (dst2.present()) f_.store(dst2, body_);
    use(dst, counts, e);
  }

  void select() {
    const Engine e = engine();
    const auto [p, counts] = shape();
    const DType predicate = e == Engine::gpsimd && r_.chance(4)
                                ? r_.pick<DType>({DType::f64, DType::i64, DType::c64})
                                : r_.pick<DType>({DType::boolean, DType::u8, DType::f32, DType::i32, DType::bf16});
    const Access src2 = f_.load(predicate, p, counts, Fill::any, f_.depth);
    Access src0, src1;
    isa::ScalarOperand s0, s1;
    if (r_.chance(4))
      s0 = f_.scalar(type_, p, Fill::any, e);
    else
      src0 = f_.source(operand_type(e), p, counts, Fill::any, e);
    if (r_.chance(4))
      s1 = f_.scalar(type_, p, Fill::any, e);
    else
      src1 = f_.source(operand_type(e), p, counts, Fill::any, e, false);
    const Access dst = destination(p, counts, e, operand_type(e));
    Instruction& i = emit(opcode_, e, type_, dst, src0, src1);
    i.src2 = src2;
    i.scalar0 = s0;
    i.scalar1 = s1;
    use(dst, counts, e);
  }

  void tensor_copy() {
    const Engine e = isa::narrow(type_) ? r_.pick<Engine>({Engine::vector, Engine::scalar, Engine::gpsimd}) : Engine::gpsimd;
    const auto [p, counts] = shape();
    const Access src0 = f_.source(type_, p, counts, Fill::any, e);
    DType to = kept_or_any_type(3);
    if (e != Engine::gpsimd && !isa::narrow(to)) to = type_;
    const Access dst = destination(p, counts, e, to);
    emit(opcode_, e, DType::f32, dst, src0);
    f_.store(dst, body_);
  }

  void memset() {
    const Engine e = type_ == DType::f32 && r_.chance(2) ? Engine::vector : Engine::gpsimd;
    const auto [p, counts] = shape();
    const Access dst = destination(p, counts, e, operand_type(e));
    Instruction& i = emit_memset(e, type_, dst, body_);
    i.scalar0.i = static_cast<int64_t>(r_.next());
    i.scalar0.re = static_cast<double>(static_cast<int64_t>(r_.below(2000)) - 1000) / 7;
    i.scalar0.im = 0.5;
    f_.store(dst, body_);
  }

  void random_pattern(Instruction& i, int rank) {
    i.pattern.base = static_cast<int64_t>(r_.below(200)) - 100;
    i.pattern.partition_step = static_cast<int64_t>(r_.below(2000)) - 1000;
    for (int d = 0; d < rank; ++d) i.pattern.step[static_cast<size_t>(d)] = static_cast<int64_t>(r_.below(9)) - 3;
    if (r_.chance(2) && rank) i.pattern.step[static_cast<size_t>(rank - 1)] = 1;
    for (int l = 0; l < f_.depth; ++l) i.pattern.loop_step[static_cast<size_t>(l)] = static_cast<int64_t>(r_.below(100000));
  }

  void iota() {
    const auto [p, counts] = shape();
    const Access dst = destination(p, counts, Engine::gpsimd, type_);
    Instruction& i = f_.add(opcode_, Engine::gpsimd, DType::f32, body_);
    i.dst = dst;
    random_pattern(i, dst.rank);
    f_.store(dst, body_);
  }

  void random_bits() {
    const auto [p, counts] = shape();
    isa::ScalarOperand s[2];
    for (isa::ScalarOperand& scalar : s) {
      scalar.kind = isa::ScalarOperand::Kind::immediate;
      scalar.i = static_cast<int64_t>(r_.next());
      if (!r_.chance(2)) continue;
      scalar.kind = isa::ScalarOperand::Kind::access;
      scalar.access = f_.load(DType::u64, p, {}, Fill::any, f_.depth);
    }
    const Access dst = destination(p, counts, Engine::gpsimd, type_);
    Instruction& i = f_.add(opcode_, Engine::gpsimd, DType::u64, body_);
    i.dst = dst;
    i.scalar0 = s[0];
    i.scalar1 = s[1];
    random_pattern(i, dst.rank);
    f_.store(dst, body_, false);
  }

  void tensor_reduce() {
    AluOp op = AluOp::add;
    Engine e = Engine::unknown;
    while (e == Engine::unknown) {
      op = operation([](AluOp o) { return isa::info(o).reduces; });
      e = engine(op);
    }
    const auto [p, counts] = shape_with_free_dimension();
    const uint8_t reduce_dims = static_cast<uint8_t>(1 + r_.below(counts.size()));
    const Access src0 = f_.source(operand_type(e), p, counts, Fill::any, e);
    const Counts outer(counts.begin(), counts.end() - reduce_dims);
    const Access dst = destination(p, outer, e, operand_type(e));
    Instruction& i = emit(opcode_, e, type_, dst, src0);
    i.op0 = op;
    i.reduce_dims = reduce_dims;
    use(dst, outer, e);
  }

  void partition_reduce() {
    const AluOp op = operation([](AluOp o) { return isa::info(o).reduces; });
    const auto [p, counts] = shape();
    const Access src0 = f_.load(operand_type(Engine::gpsimd), p, counts, Fill::any, f_.depth);
    const Access dst = f_.tile(operand_type(Engine::gpsimd), 1, counts, f_.depth);
    Instruction& i = emit(opcode_, Engine::gpsimd, type_, dst, src0);
    i.op0 = op;
    use(dst, counts, Engine::gpsimd);
  }

  void scan() {
    AluOp op0 = AluOp::add, op1 = AluOp::bypass;
    Engine e = Engine::unknown;
    while (e == Engine::unknown) {
      op0 = operation([&](AluOp o) { return !(integers() && divides(o)) && o != AluOp::bypass; });
      op1 = r_.chance(3) ? AluOp::bypass
                         : operation([&](AluOp o) { return !(integers() && divides(o)) && o != AluOp::bypass; });
      e = engine(op0, op1);
    }
    const auto [p, counts] = shape_with_free_dimension();
    const Access src0 = f_.source(operand_type(e), p, counts, Fill::any, e);
    Access src1;
    if (op1 != AluOp::bypass) src1 = f_.source(operand_type(e), p, counts, divisor_fill(op1), e, false);
    const isa::ScalarOperand s0 = f_.scalar(type_, p, Fill::any, e);
    const Access dst = destination(p, counts, e, operand_type(e));
    Instruction& i = emit(opcode_, e, type_, dst, src0, src1);
    i.op0 = op0;
    i.op1 = op1;
    i.scalar0 = s0;
    use(dst, counts, e);
  }

  void batch_statistics() {
    const uint32_t p = f_.partitions();
    if (opcode_ == Opcode::bn_aggr && r_.chance(2)) {
      const uint32_t triples = 1 + static_cast<uint32_t>(r_.below(12));
      const Access src0 = f_.load(DType::f32, p, {3 * triples}, Fill::moderate, f_.depth);
      return aggregate(src0);
    }
    const Counts counts = f_.counts(std::min<uint64_t>(512, f_.element_budget(p)));
    const Access src0 = f_.source(operand_type(Engine::vector), p, counts, any_or_moderate(), Engine::vector);
    const Access dst = f_.tile(DType::f32, p, {6}, f_.depth);
    emit(Opcode::bn_stats, Engine::vector, DType::f32, dst, src0);
    f_.store(dst, body_);
    if (opcode_ == Opcode::bn_aggr) aggregate(dst);
  }

  void aggregate(const Access& triples) {
    const Access dst = f_.tile(DType::f32, triples.partitions, {2}, f_.depth);
    emit(Opcode::bn_aggr, Engine::vector, DType::f32, dst, triples);
    f_.store(dst, body_);
  }

  void largest_eight() {
    const Engine e = engine();
    const uint32_t p = f_.partitions();
    const uint32_t n = 8 + static_cast<uint32_t>(r_.below(std::max<uint64_t>(1, f_.element_budget(p))));
    const Access src0 = f_.load(operand_type(e), p, {n}, Fill::any, f_.depth);
    const Access eight = f_.tile(src0.dtype, p, {8}, f_.depth);
    emit(Opcode::max8, e, type_, eight, src0);
    f_.store(eight, body_);
    if (opcode_ == Opcode::max8) return;
    const Access wanted = r_.chance(3) ? f_.load(operand_type(e), p, {8}, Fill::any, f_.depth) : eight;
    const Access found = f_.tile(DType::u32, p, {8}, f_.depth);
    emit(opcode_, e, type_, found, src0, wanted);
    f_.store(found, body_);
  }

  void top_k() {
    const uint32_t p = f_.partitions();
    const uint32_t n = 1 + static_cast<uint32_t>(r_.below(f_.element_budget(p)));
    const uint32_t k = 1 + static_cast<uint32_t>(r_.below(n));
    const Access src0 = f_.load(operand_type(Engine::gpsimd), p, {n}, Fill::any, f_.depth);
    const Access values = f_.tile(src0.dtype, p, {k}, f_.depth), indices = f_.tile(DType::i64, p, {k}, f_.depth);
    Instruction& i = emit(opcode_, Engine::gpsimd, type_, values, src0);
    i.largest = r_.chance(2);
    i.dst2 = indices;
    f_.store(values, body_, false);
    f_.store(indices, body_, false);
  }

  void matmul() {
    const bool wide = type_ != DType::f32 && compute() == type_;
    const Engine e = wide ? Engine::gpsimd : Engine::tensor;
    const uint32_t k = f_.partitions(), m = f_.partitions(wide ? 33 : 128);
    const uint32_t n = 1 + static_cast<uint32_t>(r_.below(r_.chance(20) && !wide ? 512 : 70));
    const int at = f_.level();  // accumulates over the loops inside this level
    DType other = type_;
    if (!wide && type_ != DType::f32) other = r_.pick<DType>({type_, type_, DType::bf16, DType::f16});
    const DType narrow_source = integers() && r_.chance(3) ? DType::i32 : other;
    const Access a = f_.load(narrow_source, k, {m}, any_or_moderate(), f_.depth);
    const Access b = f_.load(type_, k, {n}, any_or_moderate(), f_.depth);
    const DType result = integers() && r_.chance(3) ? DType::i32 : wide ? type_ : DType::f32;
    Access dst = f_.tile(result, m, {}, at, wide ? Space::sbuf : Space::psum);
    widen(dst, n);
    const int twice = r_.chance(3) ? 2 : 1;
    for (int part = 0; part < twice; ++part) {
      Instruction& i = emit(opcode_, e, wide ? type_ : DType::f32, dst, a, b);
      i.accumulate = part > 0;
      for (int l = at; l < f_.depth && part == 0; ++l) i.accumulate_levels |= static_cast<uint8_t>(1 << l);
    }
    if (at < f_.depth) f_.carries_from(at);
    f_.store(dst, {at, at < f_.depth});
  }

  // A dense row of n elements in a tile made for one: matmul results stay inside one bank.
  void widen(Access& dst, uint32_t n) { f_.grow_last_tile(dst, n); }

  void transpose() {
    const bool wide = !isa::narrow(type_);
    const Engine e = wide ? Engine::gpsimd : r_.pick<Engine>({Engine::tensor, Engine::vector, Engine::gpsimd});
    const uint32_t limit = e == Engine::tensor ? 128 : 32;
    const uint32_t p = f_.partitions(limit), n = f_.partitions(limit);
    const Access src0 =
        e == Engine::tensor ? f_.load(type_, p, {n}, Fill::any, f_.depth) : f_.source(type_, p, {n}, Fill::any, e);
    Access dst = f_.tile(type_, n, {}, f_.depth, e == Engine::tensor ? Space::psum : Space::sbuf);
    widen(dst, p);
    emit(opcode_, e, DType::f32, dst, src0);
    f_.store(dst, body_);
  }

  void dma_transpose() {
    const bool from_tile = r_.chance(3);
    const uint32_t columns = f_.partitions();
    const uint32_t rows = from_tile      ? f_.partitions()
                          : r_.chance(4) ? 129 + static_cast<uint32_t>(r_.below(384))
                                         : f_.partitions();
    const Access source = from_tile ? f_.load(type_, rows, {columns}, Fill::any, f_.depth)
                                    : f_.hbm(isa::TensorRole::input, type_, rows, {columns}, f_.depth, false);
    Access dst = f_.tile(type_, columns, {rows}, f_.depth);
    emit(opcode_, Engine::dma, DType::f32, dst, source);
    f_.store(dst, body_);
  }

  void dma_copy() {
    switch (r_.below(4)) {
      case 0: {  // HBM to HBM, other shape
        const uint32_t p = f_.partitions(), q = f_.partitions(), n = 1 + static_cast<uint32_t>(r_.below(20));
        const Access from = f_.hbm(isa::TensorRole::input, type_, p, {q, n}, f_.depth, false);
        const Access to = f_.hbm(isa::TensorRole::output, kept_or_any_type(), q, {p, n}, f_.depth, true);
        f_.dma(to, from, body_);
        return;
      }
      case 1:
        return gather();
      case 2:
        return scatter();
      default: {
        const auto [p, counts] = shape();
        Access from = f_.load(type_, p, counts, Fill::any, f_.depth);
        if (r_.chance(2)) {  // tile to tile
          const Access to = f_.tile(kept_or_any_type(), p, counts, f_.depth);
          f_.dma(to, from, body_);
          from = to;
        }
        f_.store(from, body_);
        return;
      }
    }
  }

  // An HBM table of rows, addressed by row number only.
  Access table(isa::TensorRole role, uint32_t partitions, uint32_t rows_per_partition, const Counts& row, int64_t rows,
               int64_t* row_bytes) {
    Access a = f_.hbm(role, type_, 1, row, 0, false);
    *row_bytes = f_.make_table(a, rows);
    a.partitions = partitions;
    a.partition_stride = 0;
    for (int d = a.rank; d > 0; --d) a.dims[static_cast<size_t>(d)] = a.dims[static_cast<size_t>(d) - 1];
    a.dims[0] = {rows_per_partition, 0};
    ++a.rank;
    return a;
  }

  DType index_type() { return r_.pick<DType>({DType::i32, DType::u32, DType::i64}); }

  void gather() {
    const uint32_t p = f_.partitions(), j = 1 + static_cast<uint32_t>(r_.below(4));
    const Counts row = f_.counts(std::max<uint64_t>(1, f_.element_budget(p) / j), isa::kMaxFreeDims - 1);
    const int64_t rows = 1 + static_cast<int64_t>(r_.below(50));
    int64_t row_bytes = 0;
    const Access from = table(isa::TensorRole::input, p, j, row, rows, &row_bytes);
    const bool skips = r_.chance(3);
    const Access index = f_.load(index_type(), p, {j}, Fill::index, f_.depth, false, skips ? 2 * rows : rows);
    const Counts counts = with_outer(j, row);
    const Access dst = f_.tile(kept_or_any_type(), p, counts, f_.depth);
    if (skips) emit_memset(Engine::gpsimd, DType::i64, dst, body_).scalar0.i = 3;  // rows left alone keep this
    Instruction& i = f_.dma(dst, from, body_);
    indirect(i, index, row_bytes, rows, skips);
    f_.store(dst, body_);
  }

  static void indirect(Instruction& i, const Access& index, int64_t row_bytes, int64_t rows, bool skips) {
    i.index = index;
    i.index_stride = row_bytes;
    i.index_bound = rows;
    i.oob = skips ? isa::OobMode::skip : isa::OobMode::error;
  }

  // Rows that no index names keep the output's initial contents.
  void scatter() {
    f_.carries_from(0);
    f_.forbid_repeated_rows();
    const uint32_t p = f_.partitions(), j = 1 + static_cast<uint32_t>(r_.below(3));
    const Counts row =
        f_.counts(std::max<uint64_t>(1, std::min<uint64_t>(60, f_.element_budget(p) / j)), isa::kMaxFreeDims - 1);
    const Access index = f_.load(index_type(), p, {j}, Fill::unique, f_.depth, false);
    const int64_t rows = f_.bound_of_last_load();
    const Counts counts = with_outer(j, row);
    const Access source = f_.load(kept_or_any_type(), p, counts, Fill::any, f_.depth);
    int64_t row_bytes = 0;
    const Access to = table(isa::TensorRole::output, p, j, row, rows, &row_bytes);
    Instruction& i = f_.dma(to, source, body_);
    indirect(i, index, row_bytes, rows, false);
  }

  void scatter_reduce() {
    f_.carries_from(0);
    const AluOp op = operation([](AluOp o) { return isa::info(o).reduces; });
    const uint32_t p = f_.partitions(), j = 1 + static_cast<uint32_t>(r_.below(3));
    const Counts row = f_.counts(std::max<uint64_t>(1, f_.element_budget(p) / j / 4), isa::kMaxFreeDims - 1);
    const int64_t rows = 1 + static_cast<int64_t>(r_.below(20));
    const bool skips = r_.chance(3);
    const Access index = f_.load(index_type(), p, {j}, Fill::index, f_.depth, false, skips ? 2 * rows : rows);
    const Counts counts = with_outer(j, row);
    const Access source = f_.load(operand_type(Engine::gpsimd), p, counts, Fill::any, f_.depth);
    int64_t row_bytes = 0;
    const Access to = table(isa::TensorRole::output, p, j, row, rows, &row_bytes);
    Instruction& i = emit(opcode_, Engine::gpsimd, type_, to, source);
    i.op0 = op;
    indirect(i, index, row_bytes, rows, skips);
  }

  Frame f_;
  Random& r_;
  const Opcode opcode_;
  const DType type_;
  const Place body_;
};

}  // namespace

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (int op = 0; op < static_cast<int>(Opcode::count_); ++op) {
    for (DType t : types_of(static_cast<Opcode>(op))) {
      for (int depth = 0; depth <= 3; ++depth) cells.push_back({static_cast<Opcode>(op), t, depth});
    }
  }
  return cells;
}

std::string name_of(const Cell& cell) {
  return std::string(isa::name_of(cell.opcode)) + "/" + std::string(neuron::name_of(cell.type)) + "/" +
         std::to_string(cell.depth);
}

Generated generate(const Cell& cell, uint64_t seed) {
  Generated out;
  bool fits = false;
  for (uint64_t shrink = 1; !fits; shrink *= 2) {
    out = {};
    Random random(seed * 1000003 + static_cast<uint64_t>(cell.opcode) * 9973 + static_cast<uint64_t>(cell.type) * 101 +
                  static_cast<uint64_t>(cell.depth));
    out.program.name = name_of(cell);
    out.program.labels = {"", "generated"};
    fits = CellGenerator(cell, out, random, shrink).run();
    if (fits && random.chance(10)) fits = CellGenerator(cell, out, random, shrink).run();  // the second physical core
  }
  for (size_t t = 0; t < out.program.tensors.size(); ++t) {
    isa::Tensor& tensor = out.program.tensors[t];
    if (tensor.role != isa::TensorRole::constant) continue;
    out.program.constants.resize((out.program.constants.size() + 63) / 64 * 64);
    tensor.constant_offset = out.program.constants.size();
    const std::vector<uint8_t> bytes = fill_tensor(out, t, seed);
    out.program.constants.insert(out.program.constants.end(), bytes.begin(), bytes.end());
  }
  return out;
}

}  // namespace neuron::emulator::testing
