#include "emulator/plan_programs.h"

#include <algorithm>

namespace neuron::emulator::testing {

using isa::ActFn;
using isa::AluOp;
using isa::Dim;
using isa::Engine;
using isa::LoopKind;
using isa::Opcode;
using isa::Space;
using isa::TensorRole;

Assembler::Assembler() {
  program.name = "hand written";
  program.labels = {""};
  program.streams.resize(1);
}

uint32_t Assembler::tensor(TensorRole role, DType type, uint64_t elements, int32_t alias_of) {
  isa::Tensor t;
  t.name = (role == TensorRole::input ? "input" : "output") + std::to_string(program.tensors.size());
  t.role = role;
  t.dtype = type;
  t.bytes = elements * size_of(type);
  t.shape = {static_cast<int64_t>(elements)};
  t.strides = {1};
  t.alias_of = alias_of;
  program.tensors.push_back(t);
  return static_cast<uint32_t>(program.tensors.size() - 1);
}

uint32_t Assembler::tile(uint32_t partitions, uint32_t bytes_per_partition, Space space, uint32_t buffers,
                         uint32_t rotate_level) {
  isa::Tile t;
  t.name = "tile" + std::to_string(program.tiles.size());
  t.space = space;
  t.partitions = partitions;
  t.bytes_per_partition = bytes_per_partition;
  t.buffers = buffers;
  t.rotate_level = rotate_level;
  uint64_t& used = space == Space::psum ? psum_ : sbuf_;
  const uint64_t alignment = space == Space::psum ? 2048 : 64;
  t.byte_offset = (used + alignment - 1) / alignment * alignment;
  used = t.byte_offset + uint64_t{buffers} * bytes_per_partition;
  program.tiles.push_back(t);
  return static_cast<uint32_t>(program.tiles.size() - 1);
}

namespace {
isa::Access access(Space space, uint32_t object, DType type, uint32_t partitions, const std::vector<Dim>& dims,
                   int64_t offset, const std::vector<int64_t>& loop_steps) {
  isa::Access a;
  a.space = space;
  a.object = object;
  a.dtype = type;
  a.partitions = partitions;
  a.offset = offset;
  a.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), a.dims.begin());
  std::copy(loop_steps.begin(), loop_steps.end(), a.loop_step.begin());
  return a;
}
}  // namespace

isa::Access Assembler::hbm(uint32_t tensor, DType type, int64_t offset, uint32_t partitions, int64_t partition_stride,
                           std::vector<Dim> dims, std::vector<int64_t> loop_steps) const {
  isa::Access a = access(Space::hbm, tensor, type, partitions, dims, offset, loop_steps);
  a.partition_stride = partition_stride;
  return a;
}
isa::Access Assembler::on(uint32_t tile, DType type, uint32_t partitions, std::vector<Dim> dims, int64_t offset,
                          std::vector<int64_t> loop_steps) const {
  return access(program.tiles[tile].space, tile, type, partitions, dims, offset, loop_steps);
}

isa::Instruction& Assembler::add(Opcode opcode, Engine engine, isa::Access dst, isa::Access src0, isa::Access src1) {
  isa::Instruction i;
  i.opcode = opcode;
  i.engine = engine;
  i.dst = dst;
  i.src0 = src0;
  i.src1 = src1;
  program.streams[0].steps.push_back(
      {isa::Step::Kind::instruction, LoopKind::sequential, static_cast<uint32_t>(program.instructions.size()), 0});
  program.instructions.push_back(i);
  return program.instructions.back();
}
void Assembler::loop(uint32_t trip, LoopKind kind) {
  open_.push_back(static_cast<uint32_t>(program.streams[0].steps.size()));
  program.streams[0].steps.push_back({isa::Step::Kind::loop, kind, trip, 0});
}
void Assembler::end() {
  const uint32_t at = static_cast<uint32_t>(program.streams[0].steps.size());
  program.streams[0].steps[open_.back()].match = at;
  program.streams[0].steps.push_back({isa::Step::Kind::end, LoopKind::sequential, 0, open_.back()});
  open_.pop_back();
}

isa::ScalarOperand immediate(double value) {
  isa::ScalarOperand s;
  s.kind = isa::ScalarOperand::Kind::immediate;
  s.re = value;
  s.i = static_cast<int64_t>(value);
  return s;
}
isa::ScalarOperand per_partition(isa::Access a) {
  isa::ScalarOperand s;
  s.kind = isa::ScalarOperand::Kind::access;
  s.access = a;
  return s;
}

namespace {

struct Cut {
  uint32_t start, size, trip;
};
std::vector<Cut> cuts(uint32_t extent, uint32_t block) {
  std::vector<Cut> out;
  if (extent >= block) out.push_back({0, block, extent / block});
  if (extent % block) out.push_back({extent / block * block, extent % block, 1});
  return out;
}

struct MatmulShape {
  DType type;
  uint32_t m, k, n;
  bool transposed;
};

void matmul_blocks(Assembler& a, const MatmulShape& s, uint32_t ta, uint32_t tb, uint32_t tc, const Cut& nc) {
  const int64_t size = static_cast<int64_t>(size_of(s.type)), K = s.k, N = s.n, M = s.m;
  const uint32_t whole = s.k / 128, rest = s.k % 128;
  const uint32_t width = nc.size;
  a.loop(nc.trip, LoopKind::affine);  // level 1
  const int64_t n_step = s.transposed ? width * K * size : width * size;
  const int64_t n_start = s.transposed ? nc.start * K * size : nc.start * size;
  const uint32_t kt = whole + (rest ? 1 : 0);
  const uint32_t moving = a.tile(128, static_cast<uint32_t>(kt * width * size));
  const std::vector<int64_t> b_steps = {K * N * size, n_step};
  if (!s.transposed) {
    if (whole) {
      a.add(Opcode::dma_copy, Engine::dma, a.on(moving, s.type, 128, {{whole, width * size}, {width, size}}),
            a.hbm(tb, s.type, n_start, 128, N * size, {{whole, 128 * N * size}, {width, size}}, b_steps));
    }
    if (rest) {
      a.add(Opcode::dma_copy, Engine::dma, a.on(moving, s.type, rest, {{width, size}}, whole * width * size),
            a.hbm(tb, s.type, n_start + whole * 128 * N * size, rest, N * size, {{width, size}}, b_steps));
    }
  } else {
    if (whole) {
      a.loop(whole, LoopKind::sequential);
      a.add(Opcode::dma_transpose, Engine::dma, a.on(moving, s.type, 128, {{width, size}}, 0, {0, 0, width * size}),
            a.hbm(tb, s.type, n_start, width, K * size, {{128, size}}, {K * N * size, n_step, 128 * size}));
      a.end();
    }
    if (rest) {
      a.add(Opcode::dma_transpose, Engine::dma, a.on(moving, s.type, rest, {{width, size}}, whole * width * size),
            a.hbm(tb, s.type, n_start + whole * 128 * size, width, K * size, {{rest, size}}, b_steps));
    }
  }
  for (const Cut& mc : cuts(s.m, 128)) {
    a.loop(mc.trip, LoopKind::affine);  // level 2
    const uint32_t psum = a.tile(mc.size, width * 4, Space::psum);
    const uint32_t stationary = a.tile(128, static_cast<uint32_t>(mc.size * size), Space::sbuf, 2, 3);
    const uint32_t stationary_rest = a.tile(128, static_cast<uint32_t>(mc.size * size));
    const uint32_t out = a.tile(mc.size, static_cast<uint32_t>(width * size));
    const int64_t a_start = mc.start * K * size, a_step = mc.size * K * size;
    if (whole) {
      a.loop(whole, LoopKind::sequential);  // level 3
      a.add(Opcode::dma_transpose, Engine::dma, a.on(stationary, s.type, 128, {{mc.size, size}}),
            a.hbm(ta, s.type, a_start, mc.size, K * size, {{128, size}}, {M * K * size, 0, a_step, 128 * size}));
      isa::Instruction& mm = a.add(Opcode::nc_matmul, Engine::tensor, a.on(psum, DType::f32, mc.size, {{width, 4}}),
                                   a.on(stationary, s.type, 128, {{mc.size, size}}),
                                   a.on(moving, s.type, 128, {{width, size}}, 0, {0, 0, 0, width * size}));
      mm.accumulate_levels = 1 << 3;
      a.end();
    }
    if (rest) {
      a.add(Opcode::dma_transpose, Engine::dma, a.on(stationary_rest, s.type, rest, {{mc.size, size}}),
            a.hbm(ta, s.type, a_start + whole * 128 * size, mc.size, K * size, {{rest, size}}, {M * K * size, 0, a_step}));
      isa::Instruction& mm = a.add(Opcode::nc_matmul, Engine::tensor, a.on(psum, DType::f32, mc.size, {{width, 4}}),
                                   a.on(stationary_rest, s.type, rest, {{mc.size, size}}),
                                   a.on(moving, s.type, rest, {{width, size}}, whole * width * size));
      mm.accumulate = whole > 0;
    }
    a.add(Opcode::tensor_copy, Engine::vector, a.on(out, s.type, mc.size, {{width, size}}),
          a.on(psum, DType::f32, mc.size, {{width, 4}}));
    a.add(Opcode::dma_copy, Engine::dma,
          a.hbm(tc, s.type, (mc.start * N + nc.start) * size, mc.size, N * size, {{width, size}},
                {M * N * size, width * size, mc.size * N * size}),
          a.on(out, s.type, mc.size, {{width, size}}));
    a.end();
  }
  a.end();
}

}  // namespace

std::shared_ptr<const isa::Program> matmul_program(DType type, uint32_t batch, uint32_t m, uint32_t k, uint32_t n,
                                                   bool transposed) {
  Assembler a;
  const uint32_t ta = a.tensor(TensorRole::input, type, uint64_t{batch} * m * k),
                 tb = a.tensor(TensorRole::input, type, uint64_t{batch} * k * n);
  const uint32_t tc = a.tensor(TensorRole::output, type, uint64_t{batch} * m * n);
  a.loop(batch, LoopKind::affine);
  for (const Cut& c : cuts(n, 512)) matmul_blocks(a, {type, m, k, n, transposed}, ta, tb, tc, c);
  a.end();
  return a.done();
}

std::shared_ptr<const isa::Program> pointwise_program(DType type, Pointwise kind, uint64_t elements) {
  Assembler a;
  const int64_t size = static_cast<int64_t>(size_of(type));
  const uint32_t columns = static_cast<uint32_t>(std::min<uint64_t>(512, elements / 128));
  const uint32_t tiles = static_cast<uint32_t>(elements / 128 / columns);
  const uint32_t x = a.tensor(TensorRole::input, type, elements), y = a.tensor(TensorRole::input, type, elements);
  const uint32_t out = a.tensor(TensorRole::output, type, elements, kind == Pointwise::add_in_place ? 0 : -1);
  a.loop(tiles, LoopKind::affine);
  const int64_t row = columns * size;
  const std::vector<Dim> dims = {{columns, size}};
  const std::vector<int64_t> steps = {128 * row};
  const uint32_t sx = a.tile(128, static_cast<uint32_t>(row)), sy = a.tile(128, static_cast<uint32_t>(row));
  const uint32_t so = a.tile(128, static_cast<uint32_t>(row)), st = a.tile(128, columns * 4);
  const auto load = [&](uint32_t tile, uint32_t tensor) {
    a.add(Opcode::dma_copy, Engine::dma, a.on(tile, type, 128, dims), a.hbm(tensor, type, 0, 128, row, dims, steps));
  };
  load(sx, x);
  switch (kind) {
    case Pointwise::add:
    case Pointwise::add_in_place:
      load(sy, y);
      a.add(Opcode::tensor_tensor, Engine::vector, a.on(so, type, 128, dims), a.on(sx, type, 128, dims),
            a.on(sy, type, 128, dims))
          .op0 = AluOp::add;
      break;
    case Pointwise::gelu:
      a.add(Opcode::activation, Engine::scalar, a.on(so, type, 128, dims), a.on(sx, type, 128, dims)).func = ActFn::gelu;
      break;
    case Pointwise::scale_bias_max_add: {
      load(sy, y);
      const isa::Access t = a.on(st, DType::f32, 128, {{columns, 4}});
      isa::Instruction& scale = a.add(Opcode::tensor_scalar, Engine::vector, t, a.on(sx, type, 128, dims));
      scale.op0 = AluOp::multiply;
      scale.op1 = AluOp::add;
      scale.scalar0 = immediate(1.5);
      scale.scalar1 = immediate(0.25);
      isa::Instruction& relu =
          a.add(Opcode::scalar_tensor_tensor, Engine::vector, a.on(so, type, 128, dims), t, a.on(sy, type, 128, dims));
      relu.op0 = AluOp::maximum;
      relu.op1 = AluOp::add;
      relu.scalar0 = immediate(0.0);
      break;
    }
  }
  a.add(Opcode::dma_copy, Engine::dma, a.hbm(out, type, 0, 128, row, dims, steps), a.on(so, type, 128, dims));
  a.end();
  return a.done();
}

std::shared_ptr<const isa::Program> softmax_program(uint32_t rows, uint32_t columns) {
  Assembler a;
  const DType f = DType::f32;
  const uint32_t x = a.tensor(TensorRole::input, f, uint64_t{rows} * columns),
                 out = a.tensor(TensorRole::output, f, uint64_t{rows} * columns);
  a.loop(rows / 128, LoopKind::affine);
  const std::vector<Dim> dims = {{columns, 4}}, one = {{1, 4}};
  const int64_t row = columns * 4;
  const uint32_t sx = a.tile(128, columns * 4), se = a.tile(128, columns * 4), so = a.tile(128, columns * 4);
  const uint32_t sm = a.tile(128, 4), sn = a.tile(128, 4), ss = a.tile(128, 4), sr = a.tile(128, 4);
  a.add(Opcode::dma_copy, Engine::dma, a.on(sx, f, 128, dims), a.hbm(x, f, 0, 128, row, dims, {128 * row}));
  a.add(Opcode::tensor_reduce, Engine::vector, a.on(sm, f, 128, one), a.on(sx, f, 128, dims)).op0 = AluOp::maximum;
  isa::Instruction& negate = a.add(Opcode::tensor_scalar, Engine::vector, a.on(sn, f, 128, one), a.on(sm, f, 128, one));
  negate.op0 = AluOp::multiply;
  negate.scalar0 = immediate(-1.0);
  isa::Instruction& e = a.add(Opcode::activation, Engine::scalar, a.on(se, f, 128, dims), a.on(sx, f, 128, dims));
  e.func = ActFn::exp;
  e.scalar1 = per_partition(a.on(sn, f, 128, one));
  e.dst2 = a.on(ss, f, 128, one);
  a.add(Opcode::reciprocal, Engine::vector, a.on(sr, f, 128, one), a.on(ss, f, 128, one));
  isa::Instruction& scale = a.add(Opcode::tensor_scalar, Engine::vector, a.on(so, f, 128, dims), a.on(se, f, 128, dims));
  scale.op0 = AluOp::multiply;
  scale.scalar0 = per_partition(a.on(sr, f, 128, one));
  a.add(Opcode::dma_copy, Engine::dma, a.hbm(out, f, 0, 128, row, dims, {128 * row}), a.on(so, f, 128, dims));
  a.end();
  return a.done();
}

std::shared_ptr<const isa::Program> layernorm_program(uint32_t rows, uint32_t columns) {
  Assembler a;
  const DType f = DType::f32;
  const uint32_t x = a.tensor(TensorRole::input, f, uint64_t{rows} * columns),
                 gamma = a.tensor(TensorRole::input, f, columns);
  const uint32_t beta = a.tensor(TensorRole::input, f, columns),
                 out = a.tensor(TensorRole::output, f, uint64_t{rows} * columns);
  const std::vector<Dim> dims = {{columns, 4}}, one = {{1, 4}};
  const int64_t row = columns * 4;
  const uint32_t sg = a.tile(128, columns * 4), sb = a.tile(128, columns * 4);
  a.add(Opcode::dma_copy, Engine::dma, a.on(sg, f, 128, dims), a.hbm(gamma, f, 0, 128, 0, dims));
  a.add(Opcode::dma_copy, Engine::dma, a.on(sb, f, 128, dims), a.hbm(beta, f, 0, 128, 0, dims));
  a.loop(rows / 128, LoopKind::affine);
  const uint32_t sx = a.tile(128, columns * 4), sc = a.tile(128, columns * 4), so = a.tile(128, columns * 4);
  const uint32_t ss = a.tile(128, 4), sm = a.tile(128, 4), sq = a.tile(128, 4), sr = a.tile(128, 4),
                 junk = a.tile(128, columns * 4);
  a.add(Opcode::dma_copy, Engine::dma, a.on(sx, f, 128, dims), a.hbm(x, f, 0, 128, row, dims, {128 * row}));
  a.add(Opcode::tensor_reduce, Engine::vector, a.on(ss, f, 128, one), a.on(sx, f, 128, dims)).op0 = AluOp::add;
  isa::Instruction& mean = a.add(Opcode::tensor_scalar, Engine::vector, a.on(sm, f, 128, one), a.on(ss, f, 128, one));
  mean.op0 = AluOp::divide;
  mean.scalar0 = immediate(columns);
  isa::Instruction& center = a.add(Opcode::tensor_scalar, Engine::vector, a.on(sc, f, 128, dims), a.on(sx, f, 128, dims));
  center.op0 = AluOp::subtract;
  center.scalar0 = per_partition(a.on(sm, f, 128, one));
  isa::Instruction& square = a.add(Opcode::activation, Engine::scalar, a.on(junk, f, 128, dims), a.on(sc, f, 128, dims));
  square.func = ActFn::square;
  square.dst2 = a.on(sq, f, 128, one);
  isa::Instruction& variance = a.add(Opcode::tensor_scalar, Engine::vector, a.on(sr, f, 128, one), a.on(sq, f, 128, one));
  variance.op0 = AluOp::divide;
  variance.op1 = AluOp::add;
  variance.scalar0 = immediate(columns);
  variance.scalar1 = immediate(1e-5);
  a.add(Opcode::activation, Engine::scalar, a.on(sm, f, 128, one), a.on(sr, f, 128, one)).func = ActFn::rsqrt;
  isa::Instruction& scale = a.add(Opcode::scalar_tensor_tensor, Engine::vector, a.on(sc, f, 128, dims),
                                  a.on(sc, f, 128, dims), a.on(sg, f, 128, dims));
  scale.op0 = AluOp::multiply;
  scale.op1 = AluOp::multiply;
  scale.scalar0 = per_partition(a.on(sm, f, 128, one));
  a.add(Opcode::tensor_tensor, Engine::vector, a.on(so, f, 128, dims), a.on(sc, f, 128, dims), a.on(sb, f, 128, dims)).op0 =
      AluOp::add;
  a.add(Opcode::dma_copy, Engine::dma, a.hbm(out, f, 0, 128, row, dims, {128 * row}), a.on(so, f, 128, dims));
  a.end();
  return a.done();
}

std::shared_ptr<const isa::Program> attention_program(DType type, uint32_t heads, uint32_t tokens, uint32_t width) {
  Assembler a;
  const int64_t size = static_cast<int64_t>(size_of(type)), S = tokens, D = width;
  const uint64_t elements = uint64_t{heads} * tokens * width;
  const uint32_t q = a.tensor(TensorRole::input, type, elements), k = a.tensor(TensorRole::input, type, elements);
  const uint32_t v = a.tensor(TensorRole::input, type, elements), out = a.tensor(TensorRole::output, type, elements);
  const uint32_t blocks = tokens / 128, wide = std::min<uint32_t>(512, tokens), score_blocks = tokens / wide;
  const DType f = DType::f32;
  const std::vector<Dim> one = {{1, 4}};
  a.loop(heads, LoopKind::affine);  // level 0
  const uint32_t kt = a.tile(width, static_cast<uint32_t>(tokens * size)),
                 vt = a.tile(128, static_cast<uint32_t>(blocks * width * size));
  a.loop(score_blocks, LoopKind::sequential);
  a.add(Opcode::dma_transpose, Engine::dma, a.on(kt, type, width, {{wide, size}}, 0, {0, wide * size}),
        a.hbm(k, type, 0, wide, D * size, {{width, size}}, {S * D * size, wide * D * size}));
  a.end();
  a.add(Opcode::dma_copy, Engine::dma, a.on(vt, type, 128, {{blocks, D * size}, {width, size}}),
        a.hbm(v, type, 0, 128, D * size, {{blocks, 128 * D * size}, {width, size}}, {S * D * size}));
  a.loop(blocks, LoopKind::affine);  // level 1: query tiles
  const uint32_t qt = a.tile(width, static_cast<uint32_t>(128 * size)), scores = a.tile(128, tokens * 4, Space::psum);
  const uint32_t p = a.tile(128, static_cast<uint32_t>(tokens * size)), sm = a.tile(128, 4), sn = a.tile(128, 4),
                 ss = a.tile(128, 4), sr = a.tile(128, 4);
  const uint32_t turned = a.tile(128, static_cast<uint32_t>(128 * size), Space::psum),
                 pt = a.tile(128, static_cast<uint32_t>(128 * size));
  const uint32_t acc = a.tile(128, width * 4, Space::psum), so = a.tile(128, static_cast<uint32_t>(width * size));
  a.add(Opcode::dma_transpose, Engine::dma, a.on(qt, type, width, {{128, size}}),
        a.hbm(q, type, 0, 128, D * size, {{width, size}}, {S * D * size, 128 * D * size}));
  a.loop(score_blocks, LoopKind::sequential);
  a.add(Opcode::nc_matmul, Engine::tensor, a.on(scores, f, 128, {{wide, 4}}, 0, {0, 0, wide * 4}),
        a.on(qt, type, width, {{128, size}}), a.on(kt, type, width, {{wide, size}}, 0, {0, 0, wide * size}));
  a.end();
  const std::vector<Dim> row = {{tokens, 4}};
  a.add(Opcode::tensor_reduce, Engine::vector, a.on(sm, f, 128, one), a.on(scores, f, 128, row)).op0 = AluOp::maximum;
  isa::Instruction& negate = a.add(Opcode::tensor_scalar, Engine::vector, a.on(sn, f, 128, one), a.on(sm, f, 128, one));
  negate.op0 = AluOp::multiply;
  negate.scalar0 = immediate(-0.125);
  isa::Instruction& e =
      a.add(Opcode::activation, Engine::scalar, a.on(p, type, 128, {{tokens, size}}), a.on(scores, f, 128, row));
  e.func = ActFn::exp;
  e.scalar0 = immediate(0.125);
  e.scalar1 = per_partition(a.on(sn, f, 128, one));
  e.dst2 = a.on(ss, f, 128, one);
  a.add(Opcode::reciprocal, Engine::vector, a.on(sr, f, 128, one), a.on(ss, f, 128, one));
  a.loop(blocks, LoopKind::sequential);  // level 2: key blocks
  a.add(Opcode::nc_transpose, Engine::tensor, a.on(turned, type, 128, {{128, size}}),
        a.on(p, type, 128, {{128, size}}, 0, {0, 0, 128 * size}));
  a.add(Opcode::tensor_copy, Engine::vector, a.on(pt, type, 128, {{128, size}}), a.on(turned, type, 128, {{128, size}}));
  isa::Instruction& pv =
      a.add(Opcode::nc_matmul, Engine::tensor, a.on(acc, f, 128, {{width, 4}}), a.on(pt, type, 128, {{128, size}}),
            a.on(vt, type, 128, {{width, size}}, 0, {0, 0, D * size}));
  pv.accumulate_levels = 1 << 2;
  a.end();
  isa::Instruction& scale =
      a.add(Opcode::tensor_scalar, Engine::vector, a.on(so, type, 128, {{width, size}}), a.on(acc, f, 128, {{width, 4}}));
  scale.op0 = AluOp::multiply;
  scale.scalar0 = per_partition(a.on(sr, f, 128, one));
  a.add(Opcode::dma_copy, Engine::dma, a.hbm(out, type, 0, 128, D * size, {{width, size}}, {S * D * size, 128 * D * size}),
        a.on(so, type, 128, {{width, size}}));
  a.end();
  a.end();
  return a.done();
}

std::shared_ptr<const isa::Program> tiny_program() {
  Assembler a;
  const DType f = DType::f32;
  const uint32_t x = a.tensor(TensorRole::input, f, 1), y = a.tensor(TensorRole::input, f, 1),
                 out = a.tensor(TensorRole::output, f, 1);
  const uint32_t sx = a.tile(1, 4), sy = a.tile(1, 4), so = a.tile(1, 4);
  const std::vector<Dim> one = {{1, 4}};
  a.add(Opcode::dma_copy, Engine::dma, a.on(sx, f, 1, one), a.hbm(x, f, 0, 1, 4, one));
  a.add(Opcode::dma_copy, Engine::dma, a.on(sy, f, 1, one), a.hbm(y, f, 0, 1, 4, one));
  a.add(Opcode::tensor_tensor, Engine::vector, a.on(so, f, 1, one), a.on(sx, f, 1, one), a.on(sy, f, 1, one)).op0 =
      AluOp::add;
  a.add(Opcode::dma_copy, Engine::dma, a.hbm(out, f, 0, 1, 4, one), a.on(so, f, 1, one));
  return a.done();
}

}  // namespace neuron::emulator::testing
