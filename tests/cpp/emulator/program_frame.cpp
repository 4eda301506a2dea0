#include "emulator/program_frame.h"

#include <algorithm>

#include "isa/instruction_table.h"
#include "isa/target.h"

namespace neuron::emulator::testing {
namespace {

using isa::Access;
using isa::Engine;
using isa::Instruction;
using isa::Space;

constexpr uint64_t kTargetElements = 6000;  // of one operand over all partitions, typically

uint64_t product(const Counts& counts) {
  uint64_t n = 1;
  for (uint32_t c : counts) n *= c;
  return n;
}

const isa::Target& target() { return *isa::find_target("trn2"); }

// Strides of a dense layout of `counts` with randomly ordered dimensions, now and then a gap; returns the bytes covered.
uint64_t random_layout(Random& random, const Counts& counts, uint64_t element,
                       std::array<isa::Dim, isa::kMaxFreeDims>& dims) {
  std::vector<size_t> order(counts.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (random.chance(3)) {
    for (size_t d = order.size(); d > 1; --d) std::swap(order[d - 1], order[random.below(d)]);
  }
  uint64_t bytes = element * (random.chance(6) ? 2 : 1);
  for (size_t k = order.size(); k-- > 0;) {
    dims[order[k]] = {counts[order[k]], static_cast<int64_t>(bytes)};
    bytes *= counts[order[k]];
    if (random.chance(6)) bytes += element * random.below(4);
  }
  return std::max(bytes, element);
}

struct Use {
  const Access* access;
  bool writes;
};

std::vector<Use> uses(const Instruction& i) {
  std::vector<Use> out;
  const bool reads_dst = true;  // accumulation, scatter: a writer counts as a reader too
  for (const Access* a : {&i.dst, &i.dst2}) {
    if (a->present()) out.push_back({a, reads_dst});
  }
  for (const Access* a : {&i.src0, &i.src1, &i.src2, &i.index}) {
    if (a->present()) out.push_back({a, false});
  }
  for (const isa::ScalarOperand* s : {&i.scalar0, &i.scalar1}) {
    if (s->kind == isa::ScalarOperand::Kind::access) out.push_back({&s->access, false});
  }
  return out;
}

bool conflict(const Instruction& a, const Instruction& b) {
  for (const Use& x : uses(a)) {
    for (const Use& y : uses(b)) {
      const bool same =
          (x.access->space == Space::hbm) == (y.access->space == Space::hbm) && x.access->object == y.access->object;
      if (same && (x.writes || y.writes)) return true;
    }
  }
  return false;
}

bool same_queue(const Instruction& a, const Instruction& b) {
  return a.engine == b.engine && (a.engine != Engine::dma || a.queue == b.queue);
}

}  // namespace

Frame::Frame(Generated& out, Random& r, int d, uint64_t shrink)
    : random(r), depth(d), out_(out), first_sequential_(isa::kMaxLoops), shrink_(shrink) {
  for (int l = 0; l < d; ++l) trips_.push_back(1 + static_cast<uint32_t>(r.below(3)));
}

bool Frame::fits() const {
  return sbuf_used_ <= target().sbuf_bytes_per_partition && psum_used_ <= target().psum_bytes_per_partition();
}

uint32_t Frame::partitions(uint32_t most) {
  static const std::vector<uint32_t> kChoices = {1, 2, 3, 7, 16, 31, 32, 33, 64, 65, 100, 127, 128};
  uint32_t p;
  do p = random.pick(kChoices);
  while (p > most);
  return p;
}

uint64_t Frame::element_budget(uint32_t partitions) {
  uint64_t iterations = 1;
  for (uint32_t t : trips_) iterations *= t;
  constexpr uint64_t kLongRow = 2100;  // now and then: several strips
  const uint64_t typical = std::min(kLongRow, kTargetElements / partitions / std::max<uint64_t>(1, iterations / 2));
  return std::max<uint64_t>(1, (random.chance(24) ? kLongRow : typical) / shrink_);
}

Counts Frame::counts(uint64_t most_elements, int most_rank) {
  static const std::vector<int> kRanks = {0, 1, 1, 1, 1, 2, 2, 3, 4};
  const int rank = std::min(random.pick(kRanks), most_rank);
  Counts out;
  uint64_t left = most_elements;
  for (int d = 0; d < rank; ++d) {
    const uint64_t most = d + 1 == rank ? left : std::max<uint64_t>(1, std::min<uint64_t>(left, 9));
    uint64_t n = 1 + random.below(most);
    if (d + 1 == rank && random.chance(2)) n = most;  // fill the budget often: strips and vector tails
    out.push_back(static_cast<uint32_t>(n));
    left = std::max<uint64_t>(1, left / n);
  }
  return out;
}

Access Frame::tile(DType dtype, uint32_t partitions, const Counts& counts, int depth_of_use, Space space) {
  isa::Tile t;
  t.name = "tile" + std::to_string(out_.program.tiles.size());
  t.space = space;
  t.partitions = partitions;
  if (partitions <= 32 && space == Space::sbuf && random.chance(4))
    t.partition_start = 32 * static_cast<uint32_t>(random.below(4));
  Access a;
  a.space = space;
  a.object = static_cast<uint32_t>(out_.program.tiles.size());
  a.dtype = dtype;
  a.partitions = partitions;
  a.rank = static_cast<uint8_t>(counts.size());
  const uint64_t element = size_of(dtype);
  uint64_t bytes = random_layout(random, counts, element, a.dims);
  if (random.chance(5)) {
    a.offset = static_cast<int64_t>(element * random.below(5));
    bytes += static_cast<uint64_t>(a.offset);
  }
  const uint64_t kAlignment = space == Space::psum ? target().psum_bank_bytes : 64;  // a matmul's result stays in one bank
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t& used = space == Space::psum ? psum_used_ : sbuf_used_;
  const uint64_t capacity = space == Space::psum ? target().psum_bytes_per_partition() : target().sbuf_bytes_per_partition;
  if (depth_of_use > 0 && random.chance(2) && used + 3 * bytes <= capacity / 2) {
    t.buffers = 2 + static_cast<uint32_t>(random.below(2));
    t.rotate_level = static_cast<uint32_t>(random.below(static_cast<uint64_t>(depth_of_use)));
  }
  t.bytes_per_partition = static_cast<uint32_t>(bytes);
  t.byte_offset = used;
  used += bytes * t.buffers;
  out_.program.tiles.push_back(t);
  return a;
}

Access Frame::hbm(isa::TensorRole role, DType dtype, uint32_t partitions, const Counts& counts, int depth_of_use,
                  bool all_loops, Fill fill, int64_t fill_bound) {
  isa::Tensor t;
  static const char* const kNames[] = {"input", "output", "constant", "scratch"};
  t.name = kNames[static_cast<int>(role)] + std::to_string(out_.program.tensors.size());
  t.role = role;
  t.dtype = dtype;
  Access a;
  a.space = Space::hbm;
  a.object = static_cast<uint32_t>(out_.program.tensors.size());
  a.dtype = dtype;
  a.partitions = partitions;
  a.rank = static_cast<uint8_t>(counts.size());
  const int64_t element = static_cast<int64_t>(size_of(dtype));
  int64_t bytes = static_cast<int64_t>(random_layout(random, counts, size_of(dtype), a.dims));
  if (role == isa::TensorRole::input && repeated_rows_ && random.chance(8)) {
    a.partition_stride = random.chance(2) ? 0 : element;  // rows that repeat or overlap
    bytes += a.partition_stride * (partitions - 1);
  } else {
    a.partition_stride = bytes;
    bytes *= partitions;
  }
  for (int l = depth_of_use - 1; l >= 0; --l) {
    if (!all_loops && random.chance(3)) continue;
    a.loop_step[static_cast<size_t>(l)] = bytes;
    bytes *= trips_[static_cast<size_t>(l)];
  }
  if (random.chance(6)) {  // a flipped dimension
    for (int d = 0; d < a.rank; ++d) {
      if (!random.chance(2)) continue;
      a.offset += a.dims[static_cast<size_t>(d)].stride * (a.dims[static_cast<size_t>(d)].count - 1);
      a.dims[static_cast<size_t>(d)].stride = -a.dims[static_cast<size_t>(d)].stride;
      break;
    }
  }
  if (random.chance(6)) {
    const int64_t start = element * static_cast<int64_t>(random.below(9));
    a.offset += start;
    bytes += start;
  }
  t.bytes = static_cast<uint64_t>(bytes);
  t.shape = {bytes / element};
  t.strides = {1};
  out_.program.tensors.push_back(t);
  out_.fills.push_back(fill);
  out_.fill_bounds.push_back(fill_bound);
  return a;
}

Access Frame::load(DType dtype, uint32_t partitions, const Counts& counts, Fill fill, int most_depth, bool broadcast,
                   int64_t fill_bound) {
  const int at = static_cast<int>(random.below(static_cast<uint64_t>(most_depth) + 1));
  Counts stored = counts;
  std::vector<bool> repeats(counts.size(), false);
  if (broadcast && random.chance(5)) {
    for (size_t d = 0; d < counts.size(); ++d) {
      repeats[d] = random.chance(2);
      if (repeats[d]) stored[d] = 1;
    }
  }
  Access to = tile(dtype, partitions, stored, at);
  const bool constant = random.chance(10);
  dma(to,
      hbm(constant ? isa::TensorRole::constant : isa::TensorRole::input, dtype, partitions, stored, at, false, fill,
          fill_bound),
      {at, false});
  for (size_t d = 0; d < counts.size(); ++d) {
    to.dims[d].count = counts[d];
    if (repeats[d]) to.dims[d].stride = 0;
  }
  return to;
}

Access Frame::source(DType dtype, uint32_t partitions, const Counts& counts, Fill fill, Engine engine, bool psum_allowed) {
  Access from = load(dtype, partitions, counts, fill, depth);
  const bool reads_psum = engine == Engine::vector || engine == Engine::scalar;
  if (!psum_allowed || !reads_psum || !psum_fits(8 * product(counts)) || !isa::narrow(dtype) || !random.chance(4))
    return from;
  const Access to = tile(dtype, partitions, counts, depth, Space::psum);
  Instruction& copy = add(isa::Opcode::tensor_copy, Engine::vector, DType::f32, {depth, false});
  copy.dst = to;
  copy.src0 = from;
  return to;
}

bool Frame::psum_fits(uint64_t bytes) const {
  return bytes <= target().psum_bank_bytes && psum_used_ + 8192 <= target().psum_bytes_per_partition();
}

Access Frame::in_sbuf(const Access& from, Place place) {
  if (from.space != Space::psum) return from;
  Counts counts;
  for (int d = 0; d < from.rank; ++d) counts.push_back(from.dims[static_cast<size_t>(d)].count);
  const Access to = tile(from.dtype, from.partitions, counts, place.depth);
  Instruction& copy = add(isa::Opcode::tensor_copy, random.chance(2) ? Engine::vector : Engine::scalar, DType::f32, place);
  copy.dst = to;
  copy.src0 = from;
  return to;
}

void Frame::grow_last_tile(Access& a, uint32_t n) {
  isa::Tile& t = out_.program.tiles[a.object];
  uint64_t& used = t.space == Space::psum ? psum_used_ : sbuf_used_;
  used = t.byte_offset;
  const uint64_t alignment = t.space == Space::psum ? target().psum_bank_bytes : 64;
  a.offset = 0;
  a.rank = 1;
  a.dims[0] = {n, static_cast<int64_t>(size_of(a.dtype))};
  t.bytes_per_partition = static_cast<uint32_t>((n * size_of(a.dtype) + alignment - 1) / alignment * alignment);
  used += uint64_t{t.bytes_per_partition} * t.buffers;
}

int64_t Frame::make_table(const Access& a, int64_t rows) {
  isa::Tensor& t = out_.program.tensors[a.object];
  const int64_t row = static_cast<int64_t>(t.bytes);
  t.bytes = static_cast<uint64_t>(row * rows);
  t.shape = {row * rows / static_cast<int64_t>(size_of(t.dtype))};
  return row;
}

int64_t Frame::bound_of_last_load() {
  const size_t last = out_.program.tensors.size() - 1;
  const int64_t elements =
      static_cast<int64_t>(out_.program.tensors[last].bytes / size_of(out_.program.tensors[last].dtype));
  out_.fill_bounds[last] = elements;
  return elements;
}

isa::ScalarOperand Frame::scalar(DType compute, uint32_t partitions, Fill fill, Engine engine) {
  isa::ScalarOperand s;
  if (random.chance(2)) {
    s.kind = isa::ScalarOperand::Kind::access;
    DType dtype = compute;
    if (compute == DType::f32 && engine != Engine::gpsimd && random.chance(4))
      dtype = random.pick<DType>({DType::bf16, DType::f16, DType::i32});
    s.access = load(dtype, partitions, {}, fill, depth);
    return s;
  }
  s.kind = isa::ScalarOperand::Kind::immediate;
  s.i = fill == Fill::shift ? static_cast<int64_t>(random.below(8)) : static_cast<int64_t>(random.below(19)) - 9;
  if (s.i == 0 && fill == Fill::nonzero) s.i = 3;
  s.re = static_cast<double>(s.i) * 0.3125;
  s.im = static_cast<double>(random.below(9)) * 0.25 - 1;
  return s;
}

void Frame::store(const Access& tile_access, Place place, bool convert) {
  const Access from = in_sbuf(tile_access, place);
  static const std::vector<DType> kTargets = {DType::f32, DType::bf16, DType::f16, DType::i32,
                                              DType::u8,  DType::i64,  DType::f64, DType::boolean};
  DType dtype = from.dtype;
  if (convert && random.chance(5)) dtype = random.pick(kTargets);
  Counts counts;
  for (int d = 0; d < from.rank; ++d) counts.push_back(from.dims[static_cast<size_t>(d)].count);
  if (random.chance(6)) {  // through scratch: a dependence in HBM
    const Access there = hbm(isa::TensorRole::scratch, dtype, from.partitions, counts, place.depth, true);
    dma(there, from, place);
    const Access back = tile(dtype, from.partitions, counts, place.depth);
    dma(back, there, place);
    dma(hbm(isa::TensorRole::output, dtype, from.partitions, counts, place.depth, true), back, place);
    return;
  }
  dma(hbm(isa::TensorRole::output, dtype, from.partitions, counts, place.depth, true), from, place);
}

Instruction& Frame::add(isa::Opcode opcode, Engine engine, DType compute, Place place) {
  items_.push_back({});
  Item& item = items_.back();
  item.place = place;
  item.instruction.opcode = opcode;
  item.instruction.engine = engine;
  item.instruction.compute = compute;
  if (engine == Engine::dma) item.instruction.queue = static_cast<uint8_t>(random.below(target().dma.queues));
  item.instruction.label = 1;
  return item.instruction;
}

Instruction& Frame::dma(const Access& to, const Access& from, Place place) {
  Instruction& i = add(isa::Opcode::dma_copy, Engine::dma, DType::f32, place);
  i.dst = to;
  i.src0 = from;
  return i;
}

// c must wait until p has completed often enough: p's executions of all earlier iterations of the loops they share, and of
// the same iteration when p stands before c.
void Frame::add_waits(std::vector<size_t>& order, uint16_t first_semaphore) {
  for (size_t c = 0; c < order.size(); ++c) {
    for (size_t p = 0; p < order.size(); ++p) {
      Item& consumer = items_[order[c]];
      Item& producer = items_[order[p]];
      if (p == c || same_queue(producer.instruction, consumer.instruction) ||
          !conflict(producer.instruction, consumer.instruction))
        continue;
      const int common = std::min(producer.place.depth, consumer.place.depth);
      int64_t unit = 1;
      for (int l = common; l < producer.place.depth; ++l) unit *= trips_[static_cast<size_t>(l)];
      isa::Wait wait;
      wait.semaphore = static_cast<uint16_t>(first_semaphore + p);
      wait.base = p < c ? unit : 0;
      for (int l = common - 1; l >= 0; --l) {
        wait.loop_step[static_cast<size_t>(l)] = unit;
        unit *= trips_[static_cast<size_t>(l)];
      }
      if (wait.base == 0 && common == 0) continue;
      consumer.instruction.waits.push_back(wait);
      producer.instruction.signal = wait.semaphore;
    }
  }
}

void Frame::finish() {
  // Program order: before[0], before[1], .., body, .., after[1], after[0].
  std::vector<size_t> order;
  isa::Stream stream;
  isa::Program& program = out_.program;
  const auto emit = [&](int level, bool after) {
    for (size_t n = 0; n < items_.size(); ++n) {
      if (items_[n].place.depth == level && items_[n].place.after == after) order.push_back(n);
    }
  };
  const uint32_t first_instruction = static_cast<uint32_t>(program.instructions.size());
  std::vector<uint32_t> open;
  const auto steps_up_to = [&](size_t from) {
    for (size_t n = from; n < order.size(); ++n) {
      stream.steps.push_back(
          {isa::Step::Kind::instruction, isa::LoopKind::sequential, first_instruction + static_cast<uint32_t>(n), 0});
    }
  };
  for (int l = 0; l <= depth; ++l) {
    const size_t from = order.size();
    emit(l, false);
    steps_up_to(from);
    if (l == depth) break;
    const bool affine = l < first_sequential_ && random.chance(2);
    open.push_back(static_cast<uint32_t>(stream.steps.size()));
    stream.steps.push_back({isa::Step::Kind::loop, affine ? isa::LoopKind::affine : isa::LoopKind::sequential,
                            trips_[static_cast<size_t>(l)], 0});
  }
  for (int l = depth; l >= 0; --l) {
    const size_t from = order.size();
    emit(l, true);
    steps_up_to(from);
    if (l == 0) break;
    const uint32_t start = open.back();
    open.pop_back();
    stream.steps[start].match = static_cast<uint32_t>(stream.steps.size());
    stream.steps.push_back({isa::Step::Kind::end, isa::LoopKind::sequential, 0, start});
  }
  add_waits(order, program.semaphores);
  program.semaphores = static_cast<uint16_t>(program.semaphores + order.size());
  for (size_t n : order) program.instructions.push_back(items_[n].instruction);
  program.streams.push_back(std::move(stream));
}

}  // namespace neuron::emulator::testing
