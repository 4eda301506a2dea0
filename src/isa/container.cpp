// Layout: 8 bytes magic, u32 version, u64 payload length, u64 checksum of the payload, payload. All integers of the payload
// are LEB128 varints, signed ones zigzag; absent operands cost one mask bit, zero loop steps one mask bit. Constants come
// last, raw.
#include "isa/container.h"

#include <bit>
#include <cstring>
#include <string>

#include "isa/validator.h"

namespace neuron::isa {
namespace {

constexpr char kMagic[8] = {'N', 'C', 'T', 'I', 'L', 'E', 'P', '\n'};
constexpr uint32_t kVersion = kContainerVersion;
constexpr size_t kHeaderBytes = 8 + 4 + 8 + 8;

uint64_t load64(const uint8_t* p) {
  uint64_t v = 0;
  for (int b = 0; b < 8; ++b) v |= uint64_t{p[b]} << (8 * b);
  return v;
}

class Writer {
 public:
  std::vector<uint8_t> out;

  void byte(uint8_t v) { out.push_back(v); }
  template <class Enum>
  void code(Enum v) {
    byte(static_cast<uint8_t>(v));
  }
  void number(uint64_t v) {
    for (; v >= 0x80; v >>= 7) byte(static_cast<uint8_t>(v | 0x80));
    byte(static_cast<uint8_t>(v));
  }
  void integer(int64_t v) { number((static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63)); }
  void fixed64(uint64_t v) {
    for (int b = 0; b < 8; ++b) byte(static_cast<uint8_t>(v >> (8 * b)));
  }
  void text(const std::string& s) {
    number(s.size());
    out.insert(out.end(), s.begin(), s.end());
  }
  // The non-zero entries behind a mask of where they are.
  template <size_t N>
  void sparse(const std::array<int64_t, N>& values) {
    static_assert(N <= 8);
    uint8_t mask = 0;
    for (size_t k = 0; k < N; ++k) mask |= values[k] ? 1u << k : 0u;
    byte(mask);
    for (int64_t v : values) {
      if (v) integer(v);
    }
  }
};

// Reads with a sticky failure: after the first error every read gives 0, and failed() is asked before anything is allocated.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool failed() const { return failed_; }
  void fail() {
    failed_ = true;
    at_ = end_;
  }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  uint8_t byte() {
    if (at_ == end_) {
      failed_ = true;
      return 0;
    }
    return *at_++;
  }
  template <class Enum>
  void code(Enum& v) {
    v = static_cast<Enum>(byte());
  }
  uint64_t number() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte();
      v |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (!(b & 0x80)) {
        if (shift == 63 && b > 1) fail();
        return v;
      }
    }
    fail();
    return 0;
  }
  template <class T>
  void number(T& v) {
    const uint64_t n = number();
    v = static_cast<T>(n);
    if (static_cast<uint64_t>(v) != n) fail();
  }
  int64_t integer() {
    const uint64_t n = number();
    return static_cast<int64_t>((n >> 1) ^ (0 - (n & 1)));
  }
  uint64_t fixed64() {
    if (left() < 8) {
      fail();
      return 0;
    }
    at_ += 8;
    return load64(at_ - 8);
  }
  // A count of things that take at least `bytes_each` bytes: one that cannot be true fails here, before any allocation.
  size_t count(size_t bytes_each) {
    const uint64_t n = number();
    if (n > left() / bytes_each) {
      fail();
      return 0;
    }
    return n;
  }
  std::string text() {
    const size_t n = count(1);
    std::string s(reinterpret_cast<const char*>(at_), n);
    at_ += n;
    return s;
  }
  std::span<const uint8_t> raw(size_t n) {
    if (n > left()) {
      fail();
      return {};
    }
    at_ += n;
    return {at_ - n, n};
  }
  template <size_t N>
  void sparse(std::array<int64_t, N>& values) {
    const uint8_t mask = byte();
    for (size_t k = 0; k < N; ++k) values[k] = mask & (1u << k) ? integer() : 0;
    if (mask >> (N - 1) > 1) fail();
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  bool failed_ = false;
};

// --- accesses and scalars ------------------------------------------------------------------------------------------------

// First byte: space (2 bits), rank (3), then which optional fields follow.
constexpr uint8_t kHasLoops = 0x20, kHasPartitionStart = 0x40, kHasPartitionStride = 0x80;

void write_access(Writer& w, const Access& a) {
  bool loops = false;
  for (int64_t s : a.loop_step) loops |= s != 0;
  w.byte(static_cast<uint8_t>(static_cast<uint8_t>(a.space) | (a.rank & 7u) << 2 | (loops ? kHasLoops : 0) |
                              (a.partition_start ? kHasPartitionStart : 0) |
                              (a.partition_stride ? kHasPartitionStride : 0)));
  w.code(a.dtype);
  w.number(a.object);
  w.number(a.partitions);
  w.integer(a.offset);
  if (a.partition_start) w.number(a.partition_start);
  if (a.partition_stride) w.integer(a.partition_stride);
  for (int d = 0; d < a.rank && d < kMaxFreeDims; ++d) {
    w.number(a.dims[d].count);
    w.integer(a.dims[d].stride);
  }
  if (loops) w.sparse(a.loop_step);
}

void read_access(Reader& r, Access& a) {
  const uint8_t head = r.byte();
  a.space = static_cast<Space>(head & 3);
  a.rank = (head >> 2) & 7;
  if (a.rank > kMaxFreeDims || a.space == Space::none) return r.fail();
  r.code(a.dtype);
  r.number(a.object);
  r.number(a.partitions);
  a.offset = r.integer();
  if (head & kHasPartitionStart) r.number(a.partition_start);
  if (head & kHasPartitionStride) a.partition_stride = r.integer();
  for (int d = 0; d < a.rank; ++d) {
    r.number(a.dims[d].count);
    a.dims[d].stride = r.integer();
  }
  if (head & kHasLoops) r.sparse(a.loop_step);
}

constexpr uint8_t kRe = 0x10, kIm = 0x20, kInteger = 0x40;

void write_scalar(Writer& w, const ScalarOperand& s) {
  const uint64_t re = std::bit_cast<uint64_t>(s.re), im = std::bit_cast<uint64_t>(s.im);
  w.byte(static_cast<uint8_t>(static_cast<uint8_t>(s.kind) | (re ? kRe : 0) | (im ? kIm : 0) | (s.i ? kInteger : 0)));
  if (re) w.fixed64(re);
  if (im) w.fixed64(im);
  if (s.i) w.integer(s.i);
  if (s.kind == ScalarOperand::Kind::access) write_access(w, s.access);
}

void read_scalar(Reader& r, ScalarOperand& s) {
  const uint8_t head = r.byte();
  if ((head & 0xf) > static_cast<uint8_t>(ScalarOperand::Kind::access) || (head & 0xf) == 0) return r.fail();
  s.kind = static_cast<ScalarOperand::Kind>(head & 0xf);
  if (head & kRe) s.re = std::bit_cast<double>(r.fixed64());
  if (head & kIm) s.im = std::bit_cast<double>(r.fixed64());
  if (head & kInteger) s.i = r.integer();
  if (s.kind == ScalarOperand::Kind::access) read_access(r, s.access);
}

// --- instructions --------------------------------------------------------------------------------------------------------

constexpr size_t kAccesses = 6, kScalars = 2;
constexpr uint16_t kPatternBit = 1u << (kAccesses + kScalars), kIndexingBit = kPatternBit << 1,
                   kSignalBit = kPatternBit << 2, kWaitsBit = kPatternBit << 3;
constexpr size_t kLeastInstructionBytes = 18;  // fixed fields and the destination's access

template <class I>
auto accesses_of(I& i) {
  return std::array{&i.dst, &i.dst2, &i.src0, &i.src1, &i.src2, &i.index};
}
template <class I>
auto scalars_of(I& i) {
  return std::array{&i.scalar0, &i.scalar1};
}

bool pattern_used(const IndexPattern& p) {
  int64_t any = p.base | p.partition_step;
  for (int64_t s : p.step) any |= s;
  for (int64_t s : p.loop_step) any |= s;
  return any != 0;
}

uint16_t mask_of(const Instruction& i) {
  uint16_t mask = 0;
  const auto accesses = accesses_of(i);
  for (size_t k = 0; k < kAccesses; ++k) mask |= accesses[k]->present() ? 1u << k : 0u;
  const auto scalars = scalars_of(i);
  for (size_t k = 0; k < kScalars; ++k) mask |= scalars[k]->kind != ScalarOperand::Kind::none ? 1u << (kAccesses + k) : 0u;
  if (pattern_used(i.pattern)) mask |= kPatternBit;
  if (i.index_stride || i.index_bound) mask |= kIndexingBit;
  if (i.signal != kNoSemaphore) mask |= kSignalBit;
  if (!i.waits.empty()) mask |= kWaitsBit;
  return mask;
}

void write_instruction(Writer& w, const Instruction& i) {
  const uint16_t mask = mask_of(i);
  w.code(i.opcode);
  w.byte(static_cast<uint8_t>(static_cast<uint8_t>(i.engine) << 4 | (i.queue & 0xf)));
  w.code(i.compute);
  w.code(i.op0);
  w.code(i.op1);
  w.code(i.func);
  w.byte(i.reduce_dims);
  w.byte(static_cast<uint8_t>(i.reverse0 | i.reverse1 << 1 | i.largest << 2 | i.accumulate << 3 |
                              static_cast<uint8_t>(i.oob) << 4));
  w.byte(i.accumulate_levels);
  w.byte(static_cast<uint8_t>(mask));
  w.byte(static_cast<uint8_t>(mask >> 8));
  w.number(i.label);
  const auto accesses = accesses_of(i);
  for (size_t k = 0; k < kAccesses; ++k) {
    if (mask & (1u << k)) write_access(w, *accesses[k]);
  }
  const auto scalars = scalars_of(i);
  for (size_t k = 0; k < kScalars; ++k) {
    if (mask & (1u << (kAccesses + k))) write_scalar(w, *scalars[k]);
  }
  if (mask & kPatternBit) {
    w.integer(i.pattern.base);
    w.integer(i.pattern.partition_step);
    w.sparse(i.pattern.step);
    w.sparse(i.pattern.loop_step);
  }
  if (mask & kIndexingBit) {
    w.integer(i.index_stride);
    w.integer(i.index_bound);
  }
  if (mask & kSignalBit) w.number(i.signal);
  if (mask & kWaitsBit) {
    w.number(i.waits.size());
    for (const Wait& wait : i.waits) {
      w.number(wait.semaphore);
      w.integer(wait.base);
      w.sparse(wait.loop_step);
    }
  }
}

void read_instruction(Reader& r, Instruction& i) {
  r.code(i.opcode);
  const uint8_t place = r.byte();
  i.engine = static_cast<Engine>(place >> 4);
  i.queue = place & 0xf;
  r.code(i.compute);
  r.code(i.op0);
  r.code(i.op1);
  r.code(i.func);
  i.reduce_dims = r.byte();
  const uint8_t flags = r.byte();
  i.reverse0 = flags & 1;
  i.reverse1 = flags & 2;
  i.largest = flags & 4;
  i.accumulate = flags & 8;
  i.oob = static_cast<OobMode>(flags >> 4);
  i.accumulate_levels = r.byte();
  const uint16_t low = r.byte();
  const uint16_t mask = static_cast<uint16_t>(low | r.byte() << 8);
  r.number(i.label);
  if (!(mask & 1)) return r.fail();  // every instruction has a destination; keeps the least size true
  const auto accesses = accesses_of(i);
  for (size_t k = 0; k < kAccesses; ++k) {
    if (mask & (1u << k)) read_access(r, *accesses[k]);
  }
  const auto scalars = scalars_of(i);
  for (size_t k = 0; k < kScalars; ++k) {
    if (mask & (1u << (kAccesses + k))) read_scalar(r, *scalars[k]);
  }
  if (mask & kPatternBit) {
    i.pattern.base = r.integer();
    i.pattern.partition_step = r.integer();
    r.sparse(i.pattern.step);
    r.sparse(i.pattern.loop_step);
  }
  if (mask & kIndexingBit) {
    i.index_stride = r.integer();
    i.index_bound = r.integer();
  }
  if (mask & kSignalBit) r.number(i.signal);
  if (mask & kWaitsBit) {
    const size_t n = r.count(3);
    i.waits.resize(n);
    for (Wait& wait : i.waits) {
      r.number(wait.semaphore);
      wait.base = r.integer();
      r.sparse(wait.loop_step);
    }
  }
}

// --- tables --------------------------------------------------------------------------------------------------------------

void write_tensor(Writer& w, const Tensor& t) {
  w.text(t.name);
  w.code(t.role);
  w.code(t.dtype);
  w.number(t.bytes);
  w.number(t.shape.size());
  for (int64_t n : t.shape) w.integer(n);
  w.number(t.strides.size());
  for (int64_t n : t.strides) w.integer(n);
  w.integer(t.alias_of);
  w.number(t.constant_offset);
}

void read_tensor(Reader& r, Tensor& t) {
  t.name = r.text();
  r.code(t.role);
  r.code(t.dtype);
  t.bytes = r.number();
  t.shape.resize(r.count(1));
  for (int64_t& n : t.shape) n = r.integer();
  t.strides.resize(r.count(1));
  for (int64_t& n : t.strides) n = r.integer();
  const int64_t alias = r.integer();
  t.alias_of = static_cast<int32_t>(alias);
  if (t.alias_of != alias) r.fail();
  t.constant_offset = r.number();
}

void write_tile(Writer& w, const Tile& t) {
  w.text(t.name);
  w.code(t.space);
  for (uint64_t v : {uint64_t{t.partitions}, uint64_t{t.bytes_per_partition}, uint64_t{t.buffers}, uint64_t{t.rotate_level},
                     uint64_t{t.partition_start}, t.byte_offset}) {
    w.number(v);
  }
}

void read_tile(Reader& r, Tile& t) {
  t.name = r.text();
  r.code(t.space);
  r.number(t.partitions);
  r.number(t.bytes_per_partition);
  r.number(t.buffers);
  r.number(t.rotate_level);
  r.number(t.partition_start);
  t.byte_offset = r.number();
}

// `match` is not stored: the nesting says it.
void write_stream(Writer& w, const Stream& s) {
  w.number(s.steps.size());
  for (const Step& step : s.steps) {
    w.byte(static_cast<uint8_t>(static_cast<uint8_t>(step.kind) | static_cast<uint8_t>(step.loop_kind) << 4));
    w.number(step.value);
  }
}

void read_stream(Reader& r, Stream& s) {
  s.steps.resize(r.count(2));
  std::vector<uint32_t> open;
  for (uint32_t n = 0; n < s.steps.size(); ++n) {
    Step& step = s.steps[n];
    const uint8_t head = r.byte();
    step.kind = static_cast<Step::Kind>(head & 0xf);
    step.loop_kind = static_cast<LoopKind>(head >> 4);
    r.number(step.value);
    if (step.kind == Step::Kind::loop) open.push_back(n);
    if (step.kind == Step::Kind::end) {
      if (open.empty()) return r.fail();
      step.match = open.back();
      s.steps[open.back()].match = n;
      open.pop_back();
    }
  }
  if (!open.empty()) r.fail();
}

// Reads `bytes_each`-sized items one by one, so that memory grows only with what was really there.
template <class T, class Read>
void read_all(Reader& r, std::vector<T>& items, size_t bytes_each, Read read) {
  const size_t n = r.count(bytes_each);
  for (size_t k = 0; k < n && !r.failed(); ++k) read(r, items.emplace_back());
}

void read_payload(Reader& r, Program& p) {
  p.target = r.text();
  p.name = r.text();
  p.numerics = r.text();
  read_all(r, p.tensors, 8, read_tensor);
  read_all(r, p.tiles, 8, read_tile);
  read_all(r, p.labels, 1, [](Reader& reader, std::string& label) { label = reader.text(); });
  read_all(r, p.instructions, kLeastInstructionBytes, read_instruction);
  read_all(r, p.streams, 1, read_stream);
  r.number(p.semaphores);
  const size_t constant_bytes = r.count(1);
  const std::span<const uint8_t> constants = r.raw(constant_bytes);
  p.constants.assign(constants.begin(), constants.end());
  if (r.left() != 0) r.fail();
}

}  // namespace

// Four independent multiply-and-rotate lanes over 32-byte blocks, then a final mix: any flipped bit changes the result.
uint64_t container_checksum(std::span<const uint8_t> bytes) {
  constexpr uint64_t kA = 0x9e3779b97f4a7c15u, kB = 0xc2b2ae3d27d4eb4fu;
  uint64_t lane[4] = {kA, kB, ~kA, ~kB};
  size_t at = 0;
  const auto mix = [](uint64_t h, uint64_t v) { return std::rotl((h ^ v) * kA, 29) * kB; };
  for (; at + 32 <= bytes.size(); at += 32) {
    for (int l = 0; l < 4; ++l) lane[l] = mix(lane[l], load64(&bytes[at + 8 * l]));
  }
  uint64_t h = bytes.size();
  for (uint64_t v : lane) h = mix(h, v);
  for (; at < bytes.size(); ++at) h = mix(h, bytes[at]);
  h ^= h >> 31;
  h *= kA;
  return h ^ (h >> 29);
}

std::vector<uint8_t> serialize(const Program& program) {
  Writer w;
  w.out.reserve(512 + program.instructions.size() * 96 + program.constants.size());
  w.out.resize(kHeaderBytes);
  w.text(program.target);
  w.text(program.name);
  w.text(program.numerics);
  w.number(program.tensors.size());
  for (const Tensor& t : program.tensors) write_tensor(w, t);
  w.number(program.tiles.size());
  for (const Tile& t : program.tiles) write_tile(w, t);
  w.number(program.labels.size());
  for (const std::string& label : program.labels) w.text(label);
  w.number(program.instructions.size());
  for (const Instruction& i : program.instructions) write_instruction(w, i);
  w.number(program.streams.size());
  for (const Stream& s : program.streams) write_stream(w, s);
  w.number(program.semaphores);
  w.number(program.constants.size());
  w.out.insert(w.out.end(), program.constants.begin(), program.constants.end());

  const std::span<const uint8_t> payload = std::span(w.out).subspan(kHeaderBytes);
  Writer header;
  for (char c : kMagic) header.byte(static_cast<uint8_t>(c));
  for (int b = 0; b < 4; ++b) header.byte(static_cast<uint8_t>(kVersion >> (8 * b)));
  header.fixed64(payload.size());
  header.fixed64(container_checksum(payload));
  std::memcpy(w.out.data(), header.out.data(), kHeaderBytes);
  return std::move(w.out);
}

std::optional<uint32_t> container_version(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return std::nullopt;
  return static_cast<uint32_t>(load64(&bytes[8]) & 0xffffffffu);
}

Result<Program> parse(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return invalid_argument("container: not a tile program (no magic)");
  }
  const uint32_t version = static_cast<uint32_t>(load64(&bytes[8]) & 0xffffffffu);
  if (version != kVersion) {
    return invalid_argument("container: version " + std::to_string(version) + ", this build reads " +
                            std::to_string(kVersion));
  }
  const std::span<const uint8_t> payload = bytes.subspan(kHeaderBytes);
  if (load64(&bytes[12]) != payload.size()) {
    return invalid_argument("container: " + std::to_string(payload.size()) + " bytes of payload, header says " +
                            std::to_string(load64(&bytes[12])));
  }
  if (load64(&bytes[20]) != container_checksum(payload))
    return invalid_argument("container: checksum does not match, the bytes are damaged");
  Reader r(payload);
  Program program;
  read_payload(r, program);
  if (r.failed()) return invalid_argument("container: malformed payload");
  NEURON_RETURN_IF_ERROR(validate(program));
  return program;
}

}  // namespace neuron::isa
