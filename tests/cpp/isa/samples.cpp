#include "isa/samples.h"

#include <algorithm>

#include "isa/instruction_table.h"

namespace neuron::isa::samples {

uint32_t Builder::tensor(const std::string& name, TensorRole role, DType dtype, std::vector<int64_t> shape) {
  Tensor t;
  t.name = name;
  t.role = role;
  t.dtype = dtype;
  t.strides.resize(shape.size());
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    t.strides[d] = n;
    n *= shape[d];
  }
  t.shape = std::move(shape);
  t.bytes = static_cast<uint64_t>(n) * size_of(dtype);
  program.tensors.push_back(t);
  return static_cast<uint32_t>(program.tensors.size() - 1);
}

uint32_t Builder::tile(Space space, uint32_t partitions, uint32_t bytes, uint32_t buffers, uint32_t rotate_level) {
  uint64_t& at = space == Space::sbuf ? sbuf_ : psum_;
  program.tiles.push_back(
      {"T" + std::to_string(program.tiles.size()), space, partitions, bytes, buffers, rotate_level, 0, at});
  at += uint64_t{bytes} * buffers;
  return static_cast<uint32_t>(program.tiles.size() - 1);
}

Access Builder::hbm(uint32_t tensor, uint32_t partitions, int64_t partition_stride, std::vector<Dim> dims) const {
  Access a;
  a.space = Space::hbm;
  a.object = tensor;
  a.dtype = program.tensors[tensor].dtype;
  a.partitions = partitions;
  a.partition_stride = partition_stride;
  a.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), a.dims.begin());
  return a;
}

Access Builder::on(uint32_t tile, DType dtype, uint32_t partitions, std::vector<uint32_t> counts) const {
  Access a;
  a.space = program.tiles[tile].space;
  a.object = tile;
  a.dtype = dtype;
  a.partitions = partitions;
  a.rank = static_cast<uint8_t>(counts.size());
  int64_t stride = static_cast<int64_t>(size_of(dtype));
  for (size_t d = counts.size(); d-- > 0;) {
    a.dims[d] = {counts[d], stride};
    stride *= counts[d];
  }
  return a;
}

Instruction& Builder::add(Opcode opcode, Engine engine) {
  Instruction i;
  i.opcode = opcode;
  i.engine = engine;
  i.label = 1;
  program.streams[0].steps.push_back(
      {Step::Kind::instruction, LoopKind::sequential, static_cast<uint32_t>(program.instructions.size()), 0});
  program.instructions.push_back(i);
  return program.instructions.back();
}

void Builder::loop(uint32_t trips, LoopKind kind) {
  open_.push_back(static_cast<uint32_t>(program.streams[0].steps.size()));
  program.streams[0].steps.push_back({Step::Kind::loop, kind, trips, 0});
}

void Builder::end() {
  auto& steps = program.streams[0].steps;
  const uint32_t begin = open_.back();
  open_.pop_back();
  steps[begin].match = static_cast<uint32_t>(steps.size());
  steps.push_back({Step::Kind::end, LoopKind::sequential, 0, begin});
}

ScalarOperand immediate(double re, int64_t i) {
  ScalarOperand s;
  s.kind = ScalarOperand::Kind::immediate;
  s.re = re;
  s.i = i;
  return s;
}

ScalarOperand per_partition(const Access& access) {
  ScalarOperand s;
  s.kind = ScalarOperand::Kind::access;
  s.access = access;
  return s;
}

namespace {

using DTypes = std::vector<DType>;

// dst [P, counts] of `to`, src0.. of `from`, all dense in tiles of `space`.
Instruction& element_wise(Builder& b, Opcode opcode, Engine engine, DType from, DType to, int sources,
                          Space space = Space::sbuf) {
  const auto operand = [&](DType t) {
    return b.on(b.tile(space, 128, 256 * static_cast<uint32_t>(size_of(t))), t, 128, {4, 64});
  };
  const Access dst = operand(to);
  Access src[3];
  for (int k = 0; k < sources; ++k) src[k] = operand(from);
  Instruction& i = b.add(opcode, engine);
  i.compute = engine == Engine::gpsimd ? compute_type_for(from) : DType::f32;
  i.dst = dst;
  i.src0 = src[0];
  i.src1 = src[1];
  i.src2 = src[2];
  return i;
}

Program dma_copy_convert() {
  Builder b;
  const uint32_t in = b.tensor("input0", TensorRole::input, DType::i64, {128, 300}),
                 out = b.tensor("output0", TensorRole::output, DType::f32, {128, 300});
  const uint32_t t = b.tile(Space::sbuf, 128, 1200);
  Instruction& load = b.add(Opcode::dma_copy, Engine::dma);
  load.dst = b.on(t, DType::f32, 128, {300});
  load.src0 = b.hbm(in, 128, 2400, {{300, 8}});
  Instruction& store = b.add(Opcode::dma_copy, Engine::dma);
  store.queue = 15;
  store.dst = b.hbm(out, 128, 1200, {{300, 4}});
  store.src0 = b.on(t, DType::f32, 128, {300});
  return b.program;
}

Program dma_copy_hbm_reversed() {
  Builder b;
  const uint32_t in = b.tensor("input0", TensorRole::input, DType::f32, {6, 10}),
                 out = b.tensor("output0", TensorRole::output, DType::f32, {60});
  Instruction& i = b.add(Opcode::dma_copy, Engine::dma);
  i.dst = b.hbm(out, 1, 0, {{60, 4}});
  i.src0 = b.hbm(in, 6, 40, {{10, -4}});
  i.src0.offset = 36;
  return b.program;
}

Program indirect(bool scatter, bool reduce) {
  Builder b;
  const uint32_t table = b.tensor("table", scatter ? TensorRole::output : TensorRole::input, DType::f32, {1000, 64});
  const uint32_t rows = b.tile(Space::sbuf, 16, 3 * 64 * 4), index = b.tile(Space::sbuf, 16, 3 * 8);
  Instruction& i = b.add(reduce ? Opcode::scatter_reduce : Opcode::dma_copy, reduce ? Engine::gpsimd : Engine::dma);
  if (reduce) i.op0 = AluOp::add;
  const Access tile = b.on(rows, DType::f32, 16, {3, 64});
  Access hbm = b.hbm(table, 16, 0, {{3, 0}, {64, 4}});
  i.dst = scatter ? hbm : tile;
  i.src0 = scatter ? tile : hbm;
  i.index = b.on(index, DType::i64, 16, {3});
  i.index_stride = 256;
  i.index_bound = 1000;
  i.oob = scatter ? OobMode::skip : OobMode::error;
  return b.program;
}

Program dma_transpose() {
  Builder b;
  const uint32_t in = b.tensor("input0", TensorRole::input, DType::bf16, {512, 100});
  Instruction& i = b.add(Opcode::dma_transpose, Engine::dma);
  i.src0 = b.hbm(in, 512, 200, {{100, 2}});
  i.dst = b.on(b.tile(Space::sbuf, 100, 1024), DType::bf16, 100, {512});
  return b.program;
}

Program matmul(Engine engine, DType source, DType result) {
  Builder b;
  const uint32_t bytes = static_cast<uint32_t>(size_of(source));
  const Access stationary = b.on(b.tile(Space::sbuf, 120, 100 * bytes), source, 120, {100});
  const Access moving = b.on(b.tile(Space::sbuf, 120, 512 * bytes), source, 120, {2, 256});
  const Space space = engine == Engine::tensor ? Space::psum : Space::sbuf;
  const Access dst = b.on(b.tile(space, 100, 512 * static_cast<uint32_t>(size_of(result))), result, 100, {512});
  b.loop(3);
  Instruction& i = b.add(Opcode::nc_matmul, engine);
  i.compute = engine == Engine::tensor ? DType::f32 : compute_type_for(source);
  i.dst = dst;
  i.src0 = stationary;
  i.src1 = moving;
  i.accumulate_levels = 1;
  b.end();
  return b.program;
}

Program transpose(Engine engine, DType t, uint32_t rows, uint32_t columns) {
  Builder b;
  const uint32_t bytes = static_cast<uint32_t>(size_of(t));
  const Access src = b.on(b.tile(Space::sbuf, rows, columns * bytes), t, rows, {columns});
  const Access dst =
      b.on(b.tile(engine == Engine::tensor ? Space::psum : Space::sbuf, columns, rows * bytes), t, columns, {rows});
  Instruction& i = b.add(Opcode::nc_transpose, engine);
  i.src0 = src;
  i.dst = dst;
  return b.program;
}

Program reduce(Engine engine, DType t, AluOp op) {
  Builder b;
  const uint32_t bytes = static_cast<uint32_t>(size_of(t));
  Access src = b.on(b.tile(Space::sbuf, 64, 480 * bytes), t, 64, {4, 6, 20});
  Access dst = b.on(b.tile(Space::sbuf, 64, 4 * bytes), t, 64, {4});
  Instruction& i = b.add(Opcode::tensor_reduce, engine);
  i.compute = compute_type_for(t);
  i.op0 = op;
  i.reduce_dims = 2;
  i.src0 = src;
  i.dst = dst;
  return b.program;
}

Program partition_reduce() {
  Builder b;
  Instruction& i = element_wise(b, Opcode::tensor_partition_reduce, Engine::gpsimd, DType::i32, DType::i32, 1);
  i.op0 = AluOp::bitwise_xor;
  i.dst.partitions = 1;
  return b.program;
}

Program normalization() {
  Builder b;
  const Access x = b.on(b.tile(Space::sbuf, 128, 2048), DType::f32, 128, {512});
  const Access stats = b.on(b.tile(Space::sbuf, 128, 24), DType::f32, 128, {6});
  const Access result = b.on(b.tile(Space::sbuf, 128, 8), DType::f32, 128, {2});
  Instruction& first = b.add(Opcode::bn_stats, Engine::vector);
  first.dst = stats;
  first.src0 = x;
  Instruction& second = b.add(Opcode::bn_aggr, Engine::vector);
  second.dst = result;
  second.src0 = stats;
  return b.program;
}

Program maxima(Engine engine) {
  Builder b;
  const Access x = b.on(b.tile(Space::sbuf, 128, 4000), DType::f32, 128, {1000});
  const Access top = b.on(b.tile(Space::sbuf, 128, 32), DType::f32, 128, {8});
  const Access where = b.on(b.tile(Space::sbuf, 128, 32), DType::u32, 128, {8});
  Instruction& first = b.add(Opcode::max8, engine);
  first.dst = top;
  first.src0 = x;
  Instruction& second = b.add(Opcode::find_index8, engine);
  second.dst = where;
  second.src0 = x;
  second.src1 = top;
  return b.program;
}

Program top_k() {
  Builder b;
  const Access x = b.on(b.tile(Space::sbuf, 128, 4000), DType::f32, 128, {1000});
  const Access values = b.on(b.tile(Space::sbuf, 128, 40), DType::f32, 128, {10}),
               where = b.on(b.tile(Space::sbuf, 128, 80), DType::i64, 128, {10});
  Instruction& i = b.add(Opcode::top_k, Engine::gpsimd);
  i.dst = values;
  i.dst2 = where;
  i.src0 = x;
  i.largest = false;
  return b.program;
}

Program random_bits() {
  Builder b;
  const Access dst = b.on(b.tile(Space::sbuf, 128, 512), DType::u32, 128, {128});
  const Access seed = b.on(b.tile(Space::sbuf, 128, 8), DType::u64, 128, {});
  Instruction& i = b.add(Opcode::random_bits, Engine::gpsimd);
  i.dst = dst;
  i.scalar0 = per_partition(seed);
  i.scalar1 = immediate(0, -7);
  i.pattern.partition_step = 128;
  i.pattern.step[0] = 1;
  return b.program;
}

Program iota() {
  Builder b;
  const Access dst = b.on(b.tile(Space::sbuf, 128, 512, 2, 0), DType::f32, 128, {128});
  b.loop(4);
  Instruction& i = b.add(Opcode::iota, Engine::gpsimd);
  i.dst = dst;
  i.pattern.base = -3;
  i.pattern.step[0] = 2;
  i.pattern.loop_step[0] = 100;
  b.end();
  return b.program;
}

Program with_constant() {
  Builder b;
  const uint32_t c = b.tensor("constant0", TensorRole::constant, DType::f32, {128});
  b.program.constants.assign(600, 7);
  b.program.tensors[c].constant_offset = 88;
  Instruction& i = b.add(Opcode::dma_copy, Engine::dma);
  i.dst = b.on(b.tile(Space::sbuf, 1, 512), DType::f32, 1, {128});
  i.src0 = b.hbm(c, 1, 0, {{128, 4}});
  return b.program;
}

Program activation(Engine engine) {
  Builder b;
  const Access sum = b.on(b.tile(Space::sbuf, 128, 4), DType::f32, 128, {1}),
               bias = b.on(b.tile(Space::sbuf, 128, 4), DType::f32, 128, {});
  Instruction& i = element_wise(b, Opcode::activation, engine, DType::f32, DType::bf16, 1);
  i.func = ActFn::exp;
  i.dst2 = sum;
  i.scalar0 = immediate(-0.125);
  i.scalar1 = per_partition(bias);
  return b.program;
}

Program scan(bool two) {
  Builder b;
  Instruction& i = element_wise(b, Opcode::tensor_tensor_scan, two ? Engine::vector : Engine::gpsimd,
                                two ? DType::f32 : DType::i64, two ? DType::f32 : DType::i64, two ? 2 : 1);
  i.op0 = two ? AluOp::multiply : AluOp::add;
  i.op1 = two ? AluOp::add : AluOp::bypass;
  i.scalar0 = immediate(1.5, 2);
  return b.program;
}

void add_element_wise(std::vector<Sample>& out) {
  const auto one = [&](const std::string& name, auto make) {
    Builder b;
    make(b);
    out.push_back({name, b.program});
  };
  for (Engine engine : {Engine::vector, Engine::scalar, Engine::gpsimd}) {
    const std::string on = "_" + std::string(name_of(engine));
    one("tensor_copy" + on, [&](Builder& b) { element_wise(b, Opcode::tensor_copy, engine, DType::f16, DType::i32, 1); });
    one("tensor_scalar" + on, [&](Builder& b) {
      Instruction& i = element_wise(b, Opcode::tensor_scalar, engine, DType::f32, DType::f32, 1);
      i.op0 = AluOp::multiply;
      i.scalar0 = immediate(2.5);
      i.op1 = AluOp::add;
      i.scalar1 = immediate(-1);
    });
  }
  for (Engine engine : {Engine::vector, Engine::gpsimd}) {
    const std::string on = "_" + std::string(name_of(engine));
    const DType t = engine == Engine::vector ? DType::bf16 : DType::c64;
    one("memset" + on, [&](Builder& b) { element_wise(b, Opcode::memset, engine, t, t, 0).scalar0 = immediate(-0.0, 3); });
    one("tensor_tensor" + on,
        [&](Builder& b) { element_wise(b, Opcode::tensor_tensor, engine, t, DType::boolean, 2).op0 = AluOp::equal; });
    one("scalar_tensor_tensor" + on, [&](Builder& b) {
      Instruction& i = element_wise(b, Opcode::scalar_tensor_tensor, engine, DType::f32, DType::f32, 2);
      i.op0 = AluOp::subtract;
      i.reverse0 = true;
      i.scalar0 = immediate(1);
      i.op1 = AluOp::multiply;
    });
    one("reciprocal" + on, [&](Builder& b) { element_wise(b, Opcode::reciprocal, engine, t, t, 1); });
    one("select" + on, [&](Builder& b) {
      Instruction& i = element_wise(b, Opcode::select, engine, t, t, 3);
      i.src1 = {};
      i.scalar1 = immediate(0);
    });
    out.push_back({"max8_find_index8" + on, maxima(engine)});
  }
  one("gpsimd_extended_operations", [&](Builder& b) {
    element_wise(b, Opcode::tensor_tensor, Engine::gpsimd, DType::f32, DType::f32, 2).op0 = AluOp::nextafter;
    element_wise(b, Opcode::tensor_tensor, Engine::gpsimd, DType::u8, DType::u8, 2).op0 = AluOp::shift_right_logical;
    Instruction& i = element_wise(b, Opcode::activation, Engine::gpsimd, DType::c128, DType::f64, 1);
    i.func = ActFn::angle;
  });
  one("psum_operands",
      [&](Builder& b) { element_wise(b, Opcode::tensor_copy, Engine::vector, DType::f32, DType::f32, 1, Space::psum); });
}

}  // namespace

std::vector<Sample> all() {
  std::vector<Sample> out;
  out.push_back({"dma_copy_convert", dma_copy_convert()});
  out.push_back({"dma_copy_hbm_reversed", dma_copy_hbm_reversed()});
  out.push_back({"gather", indirect(false, false)});
  out.push_back({"scatter", indirect(true, false)});
  out.push_back({"scatter_reduce", indirect(true, true)});
  out.push_back({"dma_transpose", dma_transpose()});
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f8e4m3fn}) {
    out.push_back({"nc_matmul_" + std::string(neuron::name_of(t)), matmul(Engine::tensor, t, DType::f32)});
  }
  out.push_back({"nc_matmul_f64", matmul(Engine::gpsimd, DType::f64, DType::f64)});
  out.push_back({"nc_matmul_i8_to_i32", matmul(Engine::gpsimd, DType::i8, DType::i32)});
  out.push_back({"nc_transpose_tensor", transpose(Engine::tensor, DType::bf16, 128, 128)});
  out.push_back({"nc_transpose_vector", transpose(Engine::vector, DType::f32, 32, 32)});
  out.push_back({"nc_transpose_gpsimd", transpose(Engine::gpsimd, DType::i64, 32, 16)});
  out.push_back({"tensor_reduce_vector", reduce(Engine::vector, DType::f32, AluOp::maximum)});
  out.push_back({"tensor_reduce_gpsimd", reduce(Engine::gpsimd, DType::i64, AluOp::multiply)});
  out.push_back({"tensor_partition_reduce", partition_reduce()});
  out.push_back({"bn_stats_bn_aggr", normalization()});
  out.push_back({"top_k", top_k()});
  out.push_back({"random_bits", random_bits()});
  out.push_back({"iota", iota()});
  out.push_back({"constant", with_constant()});
  out.push_back({"activation_scalar", activation(Engine::scalar)});
  out.push_back({"activation_gpsimd", activation(Engine::gpsimd)});
  out.push_back({"tensor_tensor_scan", scan(true)});
  out.push_back({"tensor_tensor_scan_one_source", scan(false)});
  out.push_back({"streaming", streaming(5, 512)});
  out.push_back({"resident_matmul", resident_matmul(4, 3)});
  add_element_wise(out);
  return out;
}

Program streaming(uint32_t trips, uint32_t columns, bool semaphores) {
  Builder b;
  const int64_t rows = int64_t{trips} * 128, row = int64_t{columns} * 4;
  const uint32_t in = b.tensor("input0", TensorRole::input, DType::f32, {rows, columns}),
                 out = b.tensor("output0", TensorRole::output, DType::f32, {rows, columns});
  b.program.tensors[out].alias_of = static_cast<int32_t>(in);
  const uint32_t a = b.tile(Space::sbuf, 128, columns * 4, 2), c = b.tile(Space::sbuf, 128, columns * 4, 2);
  const Access from = b.hbm(in, 128, row, {{columns, 4}}), to = b.hbm(out, 128, row, {{columns, 4}});
  // Semaphores: 0 = loaded, 1 = computed, 2 = stored.
  const auto wait = [&](uint16_t semaphore, int64_t base) {
    Wait w{semaphore, base, {}};
    w.loop_step[0] = 1;
    return w;
  };
  b.loop(trips, LoopKind::affine);
  Instruction& load = b.add(Opcode::dma_copy, Engine::dma);
  load.dst = b.on(a, DType::f32, 128, {columns});
  load.src0 = from;
  load.src0.loop_step[0] = 128 * row;
  if (semaphores) {
    load.signal = 0;
    load.waits = {wait(1, -1)};
  }
  Instruction& compute = b.add(Opcode::activation, Engine::scalar);
  compute.func = ActFn::relu;
  compute.dst = b.on(c, DType::f32, 128, {columns});
  compute.src0 = b.on(a, DType::f32, 128, {columns});
  if (semaphores) {
    compute.signal = 1;
    compute.waits = {wait(0, 1), wait(2, -1)};
  }
  Instruction& store = b.add(Opcode::dma_copy, Engine::dma);
  store.queue = 1;
  store.dst = to;
  store.dst.loop_step[0] = 128 * row;
  store.src0 = b.on(c, DType::f32, 128, {columns});
  if (semaphores) {
    store.signal = 2;
    store.waits = {wait(1, 1)};
  }
  b.end();
  b.program.semaphores = semaphores ? 3 : 0;
  return b.program;
}

Program resident_matmul(uint32_t outer, uint32_t inner, DType dtype) {
  Builder b;
  const uint32_t bytes = static_cast<uint32_t>(size_of(dtype));
  const uint32_t stationary = b.tile(Space::sbuf, 128, 128 * bytes), moving = b.tile(Space::sbuf, 128, 512 * bytes);
  const uint32_t result = b.tile(Space::psum, 128, 2048, 8, 0);
  b.loop(outer);
  b.loop(inner);
  Instruction& i = b.add(Opcode::nc_matmul, Engine::tensor);
  i.dst = b.on(result, DType::f32, 128, {512});
  i.src0 = b.on(stationary, dtype, 128, {128});
  i.src1 = b.on(moving, dtype, 128, {512});
  i.accumulate_levels = 2;
  b.end();
  b.end();
  return b.program;
}

}  // namespace neuron::isa::samples
