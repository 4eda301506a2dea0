#include "compiler/program_builder.h"

#include <algorithm>
#include <utility>

namespace neuron::compiler {

using isa::Access;
using isa::AluOp;
using isa::Dim;
using isa::Engine;
using isa::Instruction;
using isa::Opcode;
using isa::ScalarOperand;
using isa::Space;

Index Index::operator+(const Index& o) const {
  Index r = *this;
  r.base += o.base;
  for (size_t l = 0; l < coefficient.size(); ++l) r.coefficient[l] += o.coefficient[l];
  return r;
}

Index Index::operator*(int64_t factor) const {
  Index r = *this;
  r.base *= factor;
  for (int64_t& c : r.coefficient) c *= factor;
  return r;
}

ProgramBuilder::ProgramBuilder(const isa::Target& target) : target_(&target) {
  program_.target = std::string(target.name);
  program_.labels.assign(1, "");
  program_.streams.resize(1);
}

uint32_t ProgramBuilder::tensor(isa::Tensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(program_.tensors.size() - 1);
}

namespace {

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

uint64_t byte_size(DType dtype, const std::vector<int64_t>& shape) {
  uint64_t n = size_of(dtype);
  for (int64_t e : shape) n *= static_cast<uint64_t>(e);
  return n;
}

}  // namespace

uint32_t ProgramBuilder::scratch(std::string name, DType dtype, std::vector<int64_t> shape) {
  isa::Tensor t;
  t.name = std::move(name);
  t.role = isa::TensorRole::scratch;
  t.dtype = dtype;
  t.bytes = byte_size(dtype, shape);
  t.strides = row_major_strides(shape);
  t.shape = std::move(shape);
  return tensor(std::move(t));
}

uint32_t ProgramBuilder::constant(DType dtype, std::vector<int64_t> shape, std::span<const uint8_t> bytes) {
  isa::Tensor t;
  t.name = "constant" + std::to_string(program_.tensors.size());
  t.role = isa::TensorRole::constant;
  t.dtype = dtype;
  t.bytes = bytes.size();
  t.strides = row_major_strides(shape);
  t.shape = std::move(shape);
  while (program_.constants.size() % 64 != 0) program_.constants.push_back(0);
  t.constant_offset = program_.constants.size();
  program_.constants.insert(program_.constants.end(), bytes.begin(), bytes.end());
  return tensor(std::move(t));
}

uint32_t ProgramBuilder::tile(std::string_view name, Space space, int64_t partitions, int64_t bytes_per_partition,
                              uint32_t buffers) {
  isa::Tile t;
  t.name = std::string(name);
  t.space = space;
  t.partitions = static_cast<uint32_t>(partitions);
  t.bytes_per_partition = static_cast<uint32_t>((bytes_per_partition + 7) / 8 * 8);
  if (!open_loops_.empty() && buffers > 1) {
    t.buffers = buffers;
    t.rotate_level = static_cast<uint32_t>(open_loops_.size() - 1);
  }
  program_.tiles.push_back(std::move(t));
  return static_cast<uint32_t>(program_.tiles.size() - 1);
}

void ProgramBuilder::set_label(const std::string& label) {
  if (program_.labels[label_] == label) return;
  auto [it, fresh] = label_index_.try_emplace(label, static_cast<uint32_t>(program_.labels.size()));
  if (fresh) program_.labels.push_back(label);
  label_ = it->second;
}

void ProgramBuilder::loop(int64_t trips, isa::LoopKind kind, const std::function<void(int level)>& body, LoopFacts facts) {
  if (trips <= 0) return;
  if (trips == 1) {
    body(-1);
    return;
  }
  std::vector<isa::Step>& steps = program_.streams[0].steps;
  const auto begin = static_cast<uint32_t>(steps.size());
  isa::Step open;
  open.kind = isa::Step::Kind::loop;
  open.loop_kind = kind;
  open.value = static_cast<uint32_t>(trips);
  steps.push_back(open);
  facts_.resize(steps.size());
  facts_[begin] = facts;
  open_loops_.push_back(begin);
  body(static_cast<int>(open_loops_.size()) - 1);
  open_loops_.pop_back();
  if (steps.size() == begin + 1) {  // nothing inside
    steps.pop_back();
    facts_.resize(steps.size());
    return;
  }
  isa::Step close;
  close.kind = isa::Step::Kind::end;
  close.match = begin;
  steps[begin].match = static_cast<uint32_t>(steps.size());
  steps.push_back(close);
  facts_.resize(steps.size());
}

void ProgramBuilder::for_tiles(int64_t extent, int64_t tile, isa::LoopKind kind,
                               const std::function<void(const TileIndex&)>& body, LoopFacts facts) {
  const int64_t full = extent / tile, tail = extent % tile;
  loop(full, kind, [&](int level) { body({Index::of_loop(level, tile), tile}); }, facts);
  if (tail > 0) body({Index(full * tile), tail});
}

namespace {

void set_dims(Access& a, std::span<const Dim> dims) {
  a.rank = 0;
  for (const Dim& d : dims) {
    if (d.count == 1) continue;
    if (a.rank > 0) {
      Dim& last = a.dims[a.rank - 1];
      if (last.stride == d.stride * static_cast<int64_t>(d.count)) {
        last.count *= d.count;
        last.stride = d.stride;
        continue;
      }
    }
    if (a.rank == isa::kMaxFreeDims) {
      a.rank = isa::kMaxFreeDims + 1;  // the validator refuses it; emitters keep within four free dims
      return;
    }
    a.dims[a.rank++] = d;
  }
}

}  // namespace

Access ProgramBuilder::hbm(uint32_t tensor, DType dtype, const Index& offset, int64_t partitions, int64_t partition_stride,
                           std::span<const Dim> dims) const {
  Access a;
  a.space = Space::hbm;
  a.object = tensor;
  a.dtype = dtype;
  a.partitions = static_cast<uint32_t>(partitions);
  a.partition_stride = partition_stride;
  a.offset = offset.base;
  a.loop_step = offset.coefficient;
  set_dims(a, dims);
  return a;
}

Access ProgramBuilder::on_chip(uint32_t tile, DType dtype, int64_t partitions, std::span<const Dim> dims,
                               const Index& offset, int64_t partition_start) const {
  Access a;
  a.space = program_.tiles[tile].space;
  a.object = tile;
  a.dtype = dtype;
  a.partition_start = static_cast<uint32_t>(partition_start);
  a.partitions = static_cast<uint32_t>(partitions);
  a.offset = offset.base;
  a.loop_step = offset.coefficient;
  set_dims(a, dims);
  return a;
}

Access ProgramBuilder::dense(uint32_t tile, DType dtype, int64_t partitions, int64_t count, const Index& offset,
                             int64_t partition_start) const {
  const Dim d{static_cast<uint32_t>(count), static_cast<int64_t>(size_of(dtype))};
  return on_chip(tile, dtype, partitions, {&d, 1}, offset, partition_start);
}

ScalarOperand ProgramBuilder::immediate(double value) {
  ScalarOperand s;
  s.kind = ScalarOperand::Kind::immediate;
  s.re = value;
  if (value >= -9.2e18 && value <= 9.2e18) s.i = static_cast<int64_t>(value);
  return s;
}

ScalarOperand ProgramBuilder::immediate_int(int64_t value) {
  ScalarOperand s;
  s.kind = ScalarOperand::Kind::immediate;
  s.re = static_cast<double>(value);
  s.i = value;
  return s;
}

ScalarOperand ProgramBuilder::immediate_complex(std::complex<double> value) {
  ScalarOperand s = immediate(value.real());
  s.im = value.imag();
  return s;
}

ScalarOperand ProgramBuilder::scalar(const Access& access) {
  ScalarOperand s;
  s.kind = ScalarOperand::Kind::access;
  s.access = access;
  return s;
}

Instruction& ProgramBuilder::add(Instruction instruction) {
  instruction.label = label_;
  note_work(instruction);
  program_.instructions.push_back(std::move(instruction));
  isa::Step step;
  step.value = static_cast<uint32_t>(program_.instructions.size() - 1);
  program_.streams[0].steps.push_back(step);
  facts_.resize(program_.streams[0].steps.size());
  return program_.instructions.back();
}

Instruction& ProgramBuilder::dma(const Access& dst, const Access& src, bool load) {
  const uint32_t queues = std::max(2u, target_->dma.queues), half = queues / 2;
  Instruction in;
  in.opcode = Opcode::dma_copy;
  in.engine = Engine::dma;
  in.queue = static_cast<uint8_t>(load ? next_load_queue_++ % half : half + next_store_queue_++ % (queues - half));
  in.compute = src.dtype;
  in.dst = dst;
  in.src0 = src;
  return add(std::move(in));
}

Instruction& ProgramBuilder::dma_transpose(const Access& dst, const Access& src) {
  Instruction& in = dma(dst, src, true);
  in.opcode = Opcode::dma_transpose;
  return in;
}

Instruction& ProgramBuilder::nc_matmul(const Access& dst, const Access& stationary, const Access& moving, DType compute,
                                       bool accumulate, uint8_t accumulate_levels) {
  Instruction in;
  in.opcode = Opcode::nc_matmul;
  in.engine = compute == DType::f32 ? Engine::tensor : Engine::gpsimd;
  in.compute = compute;
  in.dst = dst;
  in.src0 = stationary;
  in.src1 = moving;
  in.accumulate = accumulate;
  in.accumulate_levels = accumulate_levels;
  return add(std::move(in));
}

Instruction& ProgramBuilder::nc_transpose(Engine engine, const Access& dst, const Access& src) {
  Instruction in;
  in.opcode = Opcode::nc_transpose;
  in.engine = engine;
  in.dst = dst;
  in.src0 = src;
  return add(std::move(in));
}

namespace {

Instruction elementwise(Opcode opcode, Engine engine, DType compute, const Access& dst) {
  Instruction in;
  in.opcode = opcode;
  in.engine = engine;
  in.compute = compute;
  in.dst = dst;
  return in;
}

}  // namespace

Instruction& ProgramBuilder::tensor_copy(Engine engine, DType compute, const Access& dst, const Access& src) {
  Instruction in = elementwise(Opcode::tensor_copy, engine, compute, dst);
  in.src0 = src;
  return add(std::move(in));
}

Instruction& ProgramBuilder::memset(Engine engine, DType compute, const Access& dst, const ScalarOperand& value) {
  Instruction in = elementwise(Opcode::memset, engine, compute, dst);
  in.scalar0 = value;
  return add(std::move(in));
}

Instruction& ProgramBuilder::iota(const Access& dst, const isa::IndexPattern& pattern) {
  Instruction in = elementwise(Opcode::iota, Engine::gpsimd, DType::i64, dst);
  in.pattern = pattern;
  return add(std::move(in));
}

Instruction& ProgramBuilder::tensor_tensor(Engine engine, DType compute, AluOp op, const Access& dst, const Access& a,
                                           const Access& b) {
  Instruction in = elementwise(Opcode::tensor_tensor, engine, compute, dst);
  in.op0 = op;
  in.src0 = a;
  in.src1 = b;
  return add(std::move(in));
}

Instruction& ProgramBuilder::tensor_scalar(Engine engine, DType compute, const Access& dst, const Access& src, AluOp op0,
                                           const ScalarOperand& scalar0, bool reverse0, AluOp op1,
                                           const ScalarOperand& scalar1, bool reverse1) {
  Instruction in = elementwise(Opcode::tensor_scalar, engine, compute, dst);
  in.src0 = src;
  in.op0 = op0;
  in.scalar0 = scalar0;
  in.reverse0 = reverse0;
  in.op1 = op1;
  in.scalar1 = scalar1;
  in.reverse1 = reverse1;
  return add(std::move(in));
}

Instruction& ProgramBuilder::scalar_tensor_tensor(Engine engine, DType compute, const Access& dst, const Access& src,
                                                  AluOp op0, const ScalarOperand& scalar0, bool reverse0, AluOp op1,
                                                  const Access& other, bool reverse1) {
  Instruction in = elementwise(Opcode::scalar_tensor_tensor, engine, compute, dst);
  in.src0 = src;
  in.op0 = op0;
  in.scalar0 = scalar0;
  in.reverse0 = reverse0;
  in.op1 = op1;
  in.src1 = other;
  in.reverse1 = reverse1;
  return add(std::move(in));
}

Instruction& ProgramBuilder::activation(Engine engine, DType compute, isa::ActFn func, const Access& dst, const Access& src,
                                        const ScalarOperand& scale, const ScalarOperand& bias) {
  Instruction in = elementwise(Opcode::activation, engine, compute, dst);
  in.func = func;
  in.src0 = src;
  in.scalar0 = scale;
  in.scalar1 = bias;
  return add(std::move(in));
}

Instruction& ProgramBuilder::select(Engine engine, DType compute, const Access& dst, const Access& predicate,
                                    const Access& on_true, const Access& on_false) {
  Instruction in = elementwise(Opcode::select, engine, compute, dst);
  in.src0 = on_true;
  in.src1 = on_false;
  in.src2 = predicate;
  return add(std::move(in));
}

Instruction& ProgramBuilder::tensor_reduce(Engine engine, DType compute, AluOp op, const Access& dst, const Access& src,
                                           int reduce_dims) {
  Instruction in = elementwise(Opcode::tensor_reduce, engine, compute, dst);
  in.op0 = op;
  in.src0 = src;
  in.reduce_dims = static_cast<uint8_t>(reduce_dims);
  return add(std::move(in));
}

Instruction& ProgramBuilder::tensor_partition_reduce(DType compute, AluOp op, const Access& dst, const Access& src) {
  Instruction in = elementwise(Opcode::tensor_partition_reduce, Engine::gpsimd, compute, dst);
  in.op0 = op;
  in.src0 = src;
  return add(std::move(in));
}

Instruction& ProgramBuilder::tensor_tensor_scan(Engine engine, DType compute, const Access& dst, const Access& src,
                                                AluOp op0, const ScalarOperand& initial, AluOp op1, const Access& other) {
  Instruction in = elementwise(Opcode::tensor_tensor_scan, engine, compute, dst);
  in.op0 = op0;
  in.op1 = op1;
  in.src0 = src;
  in.src1 = other;
  in.scalar0 = initial;
  return add(std::move(in));
}

Instruction& ProgramBuilder::random_bits(const Access& dst, const ScalarOperand& seed, const ScalarOperand& offset,
                                         const isa::IndexPattern& pattern) {
  Instruction in = elementwise(Opcode::random_bits, Engine::gpsimd, DType::u64, dst);
  in.scalar0 = seed;
  in.scalar1 = offset;
  in.pattern = pattern;
  return add(std::move(in));
}

Instruction& ProgramBuilder::dma_indirect(const Access& dst, const Access& src, const Access& index, int64_t index_stride,
                                          int64_t index_bound, isa::OobMode oob) {
  Instruction& in = dma(dst, src, src.space == Space::hbm);
  in.index = index;
  in.index_stride = index_stride;
  in.index_bound = index_bound;
  in.oob = oob;
  return in;
}

Instruction& ProgramBuilder::scatter_reduce(DType compute, AluOp op, const Access& dst, const Access& src,
                                            const Access& index, int64_t index_stride, int64_t index_bound,
                                            isa::OobMode oob) {
  Instruction in = elementwise(Opcode::scatter_reduce, Engine::gpsimd, compute, dst);
  in.op0 = op;
  in.src0 = src;
  in.index = index;
  in.index_stride = index_stride;
  in.index_bound = index_bound;
  in.oob = oob;
  return add(std::move(in));
}

Instruction& ProgramBuilder::top_k(DType compute, const Access& values, const Access& indices, const Access& src,
                                   bool largest) {
  Instruction in = elementwise(Opcode::top_k, Engine::gpsimd, compute, values);
  in.dst2 = indices;
  in.src0 = src;
  in.largest = largest;
  return add(std::move(in));
}

ProgramBuilder::Mark ProgramBuilder::mark() const {
  return {program_.tensors.size(), program_.tiles.size(), program_.instructions.size(), program_.streams[0].steps.size(),
          program_.constants.size()};
}

void ProgramBuilder::rollback(const Mark& m) {
  program_.tensors.resize(m.tensors);
  program_.tiles.resize(m.tiles);
  program_.instructions.resize(m.instructions);
  program_.streams[0].steps.resize(m.steps);
  facts_.resize(m.steps);
  program_.constants.resize(m.constants);
}

void ProgramBuilder::note_work(const Instruction& in) {
  if (in.engine == Engine::dma) return;
  uint64_t n = std::max(in.dst.elements_per_partition(), in.src0.elements_per_partition());
  for (uint32_t s : open_loops_) n *= program_.streams[0].steps[s].value;
  work_[static_cast<size_t>(in.engine)] += static_cast<double>(n);
}

Engine ProgramBuilder::choose_engine(Opcode opcode, DType compute, std::span<const Access* const> operands, AluOp op0,
                                     AluOp op1, isa::ActFn func) {
  bool wide = compute != DType::f32, psum = false;
  int psum_sources = 0;
  for (const Access* a : operands) {
    if (!a->present()) continue;
    wide = wide || !isa::narrow(a->dtype);
    psum = psum || a->space == Space::psum;
    psum_sources += a->space == Space::psum;
  }
  Engine best = Engine::unknown;
  double best_work = 0;
  if (!wide) {
    for (Engine e : {Engine::vector, Engine::scalar}) {
      if (!isa::runs_on(e, opcode, compute, op0, op1, func)) continue;
      const double w = work_[static_cast<size_t>(e)];
      if (best == Engine::unknown || w < best_work) best = e, best_work = w;
    }
    if (best != Engine::unknown) return best;
  }
  (void)psum;  // GpSimd never reads PSUM: callers copy PSUM results to SBUF first
  (void)psum_sources;
  return Engine::gpsimd;
}

}  // namespace neuron::compiler
