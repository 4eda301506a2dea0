// The container holds every program exactly, and no bytes make the parser misbehave.
#include "isa/container.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "claims.h"
#include "isa/disassembler.h"
#include "isa/instruction_table.h"
#include "isa/samples.h"
#include "isa/validator.h"

namespace neuron::isa {
namespace {

TEST(Container, EverySampleProgramIsValid) {
  for (const samples::Sample& s : samples::all()) {
    const Status status = validate(s.program);
    EXPECT_TRUE(status.ok()) << s.name << ": " << status.message();
  }
}

TEST(Container, RoundTripKeepsEveryProgramAndCoversEveryOpcode) {
  std::set<Opcode> seen;
  for (const samples::Sample& s : samples::all()) {
    for (const Instruction& i : s.program.instructions) seen.insert(i.opcode);
    const std::vector<uint8_t> bytes = serialize(s.program);
    const Result<Program> back = parse(bytes);
    ASSERT_TRUE(back.ok()) << s.name << ": " << back.status().message();
    EXPECT_EQ(serialize(*back), bytes) << s.name;
    EXPECT_EQ(disassemble(*back), disassemble(s.program)) << s.name;
    EXPECT_EQ(back->constants, s.program.constants);
    EXPECT_EQ(back->semaphores, s.program.semaphores);
    ASSERT_EQ(back->streams[0].steps.size(), s.program.streams[0].steps.size());
    for (size_t n = 0; n < back->streams[0].steps.size(); ++n)
      EXPECT_EQ(back->streams[0].steps[n].match, s.program.streams[0].steps[n].match);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(Opcode::count_));
  testing::record_claim("isa_round_trip", "opcodes that survive the container", static_cast<int64_t>(seen.size()),
                        static_cast<int64_t>(Opcode::count_));
}

TEST(Container, FieldsThatFewProgramsUseSurvive) {
  Program p = samples::streaming(3, 64);
  Instruction& i = p.instructions[1];
  i.scalar0 = samples::immediate(-0.0, INT64_MIN);
  i.scalar0.im = 1e-300;
  i.scalar1 = samples::immediate(3);
  i.reverse0 = i.reverse1 = true;
  i.largest = false;
  i.func = ActFn::silu;
  p.tensors[0].strides[0] = -5;
  p.name = std::string("name\0with zero", 14);
  const Result<Program> back = parse(serialize(p));
  ASSERT_TRUE(back.ok()) << back.status().message();
  const Instruction& j = back->instructions[1];
  EXPECT_TRUE(std::signbit(j.scalar0.re) && j.scalar0.re == 0);
  EXPECT_EQ(j.scalar0.im, 1e-300);
  EXPECT_EQ(j.scalar0.i, INT64_MIN);
  EXPECT_TRUE(j.reverse0 && j.reverse1 && !j.largest);
  EXPECT_EQ(j.waits.size(), i.waits.size());
  EXPECT_EQ(j.waits[1].base, i.waits[1].base);
  EXPECT_EQ(back->tensors[0].strides[0], -5);
  EXPECT_EQ(back->tensors[1].alias_of, 0);
  EXPECT_EQ(back->name, p.name);
}

TEST(Container, AbsentOperandsCostLittle) {
  const Program p = samples::streaming(4, 512);
  EXPECT_LT(serialize(p).size(), 450u);
}

TEST(Container, ErrorsSayWhatIsWrong) {
  std::vector<uint8_t> bytes = serialize(samples::streaming(4, 512));
  const auto message = [](std::vector<uint8_t> b) { return parse(b).status().message(); };
  EXPECT_NE(message({}).find("no magic"), std::string::npos);
  auto changed = bytes;
  changed[0] ^= 1;
  EXPECT_NE(message(changed).find("no magic"), std::string::npos);
  changed = bytes;
  changed[8] = 99;
  EXPECT_NE(message(changed).find("version 99"), std::string::npos);
  changed = bytes;
  changed.pop_back();
  EXPECT_NE(message(changed).find("header says"), std::string::npos);
  changed = bytes;
  changed.back() ^= 0x40;
  EXPECT_NE(message(changed).find("checksum"), std::string::npos);
}

TEST(Container, EveryFlippedBitIsNoticed) {
  const std::vector<uint8_t> bytes = serialize(samples::streaming(2, 64));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    EXPECT_FALSE(parse(changed).ok()) << "bit " << bit;
  }
}

void repair_header(std::vector<uint8_t>& bytes) {
  if (bytes.size() < 28) return;
  const uint64_t length = bytes.size() - 28, sum = container_checksum(std::span(bytes).subspan(28));
  for (int b = 0; b < 8; ++b) {
    bytes[12 + b] = static_cast<uint8_t>(length >> (8 * b));
    bytes[20 + b] = static_cast<uint8_t>(sum >> (8 * b));
  }
}

// Bit flips, truncations, splices and inserted runs; the header is repaired in most, so that the parser and the validator
// see the damage. Whatever loads must be a program that serialises and disassembles.
TEST(Container, MutatedContainersLoadOrFailCleanly) {
  std::vector<std::vector<uint8_t>> originals;
  for (const samples::Sample& s : samples::all()) originals.push_back(serialize(s.program));
  std::mt19937_64 random(20240607);
  const auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  const int count = testing::run_everything() ? 200'000 : 20'000;
  int loaded = 0;
  for (int n = 0; n < count; ++n) {
    std::vector<uint8_t> bytes = originals[below(originals.size())];
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] ^= static_cast<uint8_t>(1u << below(8));
          break;
        case 1:
          bytes[at] = static_cast<uint8_t>(random());
          break;
        case 2:
          bytes.resize(std::max<size_t>(at, 1));
          break;
        case 3: {
          const std::vector<uint8_t>& other = originals[below(originals.size())];
          const size_t from = below(other.size()), length = std::min(other.size() - from, below(64));
          bytes.insert(bytes.begin() + at, other.begin() + from, other.begin() + from + length);
          break;
        }
        default:
          bytes.insert(bytes.begin() + at, 1 + below(9), static_cast<uint8_t>(0x80 | below(128)));
          break;
      }
    }
    if (below(8) != 0) repair_header(bytes);
    const Result<Program> program = parse(bytes);
    if (!program.ok()) {
      EXPECT_FALSE(program.status().message().empty());
      continue;
    }
    ++loaded;
    EXPECT_FALSE(disassemble(*program).empty());
    EXPECT_TRUE(parse(serialize(*program)).ok());
  }
  EXPECT_GT(loaded, 0) << "the mutations never leave a loadable program: they test nothing behind the checksum";
  testing::record_claim("isa_mutated_containers", "mutated containers that load or fail cleanly", count, 2000);
}

TEST(Container, HugeCountsDoNotAllocate) {
  std::vector<uint8_t> bytes = serialize(samples::streaming(2, 64));
  bytes.resize(28);
  for (char c : std::string("\x04trn2\x01x\x09reference", 17)) bytes.push_back(static_cast<uint8_t>(c));
  for (int b = 0; b < 9; ++b) bytes.push_back(0xff);
  bytes.push_back(1);  // 2^64 - 1 tensors
  repair_header(bytes);
  const Result<Program> program = parse(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("malformed"), std::string::npos);
}

}  // namespace
}  // namespace neuron::isa
