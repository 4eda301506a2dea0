// Device memory: addresses, caching, statistics, exhaustion. Runs with 256 MiB of HBM per core.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "runtime/runtime.h"

namespace neuron::runtime {
namespace {

constexpr size_t MiB = size_t{1} << 20;

void* must_allocate(size_t bytes, int device = 0) {
  auto a = allocate(bytes, device, 0);
  EXPECT_TRUE(a.ok()) << a.status().message();
  return a.ok() ? *a : nullptr;
}

TEST(Memory, round_trips_bytes_at_any_offset) {
  char* block = static_cast<char*>(must_allocate(10000));
  std::vector<char> in(5000), out(5000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(copy_to_device(block + 123, in.data(), in.size()).ok());
  ASSERT_TRUE(copy_to_host(out.data(), block + 123, out.size()).ok());
  EXPECT_EQ(in, out);
  free(block);
}

TEST(Memory, a_host_dereference_of_a_device_address_faults) {
  char* block = static_cast<char*>(must_allocate(64));
  EXPECT_DEATH({ *static_cast<volatile char*>(block) = 1; }, "");
  free(block);
}

TEST(Memory, a_freed_block_is_reused_at_once) {
  void* a = must_allocate(4096);
  free(a);
  EXPECT_EQ(must_allocate(4096), a);
  free(a);
}

TEST(Memory, statistics_follow_live_blocks) {
  ASSERT_TRUE(empty_cache(0).ok());
  const MemoryStats before = memory_stats(0);
  void* a = must_allocate(3 * MiB);
  void* b = must_allocate(100);
  const MemoryStats during = memory_stats(0);
  EXPECT_EQ(during.allocation_count.current - before.allocation_count.current, 2);
  EXPECT_EQ(during.requested_bytes.current - before.requested_bytes.current, static_cast<int64_t>(3 * MiB + 100));
  EXPECT_GE(during.reserved_bytes.current, during.allocated_bytes.current);
  free(a);
  free(b);
  const MemoryStats after = memory_stats(0);
  EXPECT_EQ(after.allocated_bytes.current, before.allocated_bytes.current);
  ASSERT_TRUE(empty_cache(0).ok());
  EXPECT_EQ(memory_stats(0).reserved_bytes.current, memory_stats(0).allocated_bytes.current);
}

TEST(Memory, exhaustion_names_the_bytes_and_is_survived) {
  auto too_much = allocate(300 * MiB, 0, 0);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.status().code(), Code::out_of_memory);
  for (const char* word : {"314572800", "free", "cached"}) {
    EXPECT_NE(too_much.status().message().find(word), std::string::npos) << too_much.status().message();
  }
  void* a = must_allocate(100 * MiB);
  free(a);
}

TEST(Memory, cached_segments_are_given_up_before_failing) {
  void* a = must_allocate(100 * MiB);
  void* b = must_allocate(100 * MiB);
  free(a);
  free(b);
  void* c = must_allocate(200 * MiB);  // fits only when the two cached segments are returned
  free(c);
}

TEST(Memory, zero_bytes_is_a_null_pointer) { EXPECT_EQ(must_allocate(0), nullptr); }

TEST(Memory, an_unknown_device_is_named) {
  auto a = allocate(16, 99, 0);
  ASSERT_FALSE(a.ok());
  EXPECT_NE(a.status().message().find("99"), std::string::npos);
}

TEST(Memory, cores_copy_to_each_other) {
  void* a = must_allocate(1000, 0);
  void* b = must_allocate(1000, 1);
  ASSERT_TRUE(fill(a, 0x5a, 1000).ok());
  ASSERT_TRUE(copy_on_device(b, a, 1000).ok());
  std::vector<char> out(1000);
  ASSERT_TRUE(copy_to_host(out.data(), b, 1000).ok());
  EXPECT_EQ(out, std::vector<char>(1000, 0x5a));
  free(a);
  free(b);
}

TEST(Memory, random_traffic_from_two_threads_keeps_blocks_apart) {
  auto traffic = [](unsigned seed) {
    std::mt19937 random(seed);
    struct Live {
      char* address;
      size_t bytes;
      char mark;
    };
    std::vector<Live> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.size() > 20 || (!live.empty() && random() % 3 == 0)) {
        std::swap(live[random() % live.size()], live.back());
        Live l = live.back();
        live.pop_back();
        std::vector<char> out(l.bytes);
        ASSERT_TRUE(copy_to_host(out.data(), l.address, l.bytes).ok());
        ASSERT_EQ(out, std::vector<char>(l.bytes, l.mark));
        free(l.address);
      } else {
        const size_t bytes = 1 + random() % (random() % 10 == 0 ? 2 * MiB : 20000);
        auto a = allocate(bytes, 0, 0);
        ASSERT_TRUE(a.ok()) << a.status().message();
        const char mark = static_cast<char>(random());
        ASSERT_TRUE(fill(*a, mark, bytes).ok());
        live.push_back({static_cast<char*>(*a), bytes, mark});
      }
    }
    for (Live& l : live) free(l.address);
  };
  std::thread other(traffic, 1u);
  traffic(2u);
  other.join();
}

TEST(Memory, extent_finds_the_allocation_around_an_address) {
  char* a = static_cast<char*>(must_allocate(5000));
  void* start = nullptr;
  size_t bytes = 0;
  ASSERT_TRUE(allocation_extent(a + 4999, &start, &bytes));
  EXPECT_EQ(start, a);
  EXPECT_GE(bytes, 5000u);
  free(a);
  EXPECT_FALSE(allocation_extent(a, &start, &bytes));
}

TEST(Fork, a_child_gets_a_clear_error) {
  ASSERT_TRUE(initialize().ok());
  const pid_t child = fork();
  if (child == 0) {
    auto a = allocate(16, 0, 0);
    const bool clear = !a.ok() && a.status().message().find("forked") != std::string::npos;
    _exit(clear ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace neuron::runtime
