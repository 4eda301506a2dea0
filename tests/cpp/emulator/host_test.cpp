// Threads and memory of the software NeuronCore.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "emulator/memory/hbm.h"
#include "emulator/memory/instance.h"
#include "emulator/threads/thread_pool.h"

namespace neuron::emulator {
namespace {

TEST(ThreadPool, RunsEveryIndexOnceOnAnyNumberOfThreads) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::atomic<bool> bad_worker{false};
        pool.parallel_for(count, [&](int64_t i, int worker) {
          seen[static_cast<size_t>(i)]++;
          if (worker < 0 || worker >= threads) bad_worker = true;
        });
        for (auto& s : seen) ASSERT_EQ(s.load(), 1);
        ASSERT_FALSE(bad_worker);
      }
    }
  }
}

TEST(ThreadPool, AnIdleWorkerTakesWhatABusyOneShares) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    pool.parallel_for(2, [&](int64_t index, int) {
      if (index == 0) return;
      // Each waits for the other: one thread alone would never get past the first.
      std::atomic<int> arrived{0};
      pool.share(2, [&](int64_t) {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      });
      EXPECT_EQ(arrived, 2);
    });
    EXPECT_EQ(pool.idle(), 0);
  }
}

TEST(ThreadPool, SharesEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> wrong{0};
      pool.parallel_for(3, [&](int64_t index, int) {
        for (int64_t count : {0, 1, 2, 7, 100}) {
          std::vector<std::atomic<int>> seen(static_cast<size_t>(count * (index + 1)));
          pool.share(static_cast<int64_t>(seen.size()), [&](int64_t i) { seen[static_cast<size_t>(i)]++; });
          for (auto& s : seen) wrong += s.load() != 1;
        }
      });
      ASSERT_EQ(wrong.load(), 0);
    }
  }
}

TEST(ThreadPool, SharesInlineOutsideOfItsOwnIndices) {
  ThreadPool pool(3), other(2);
  const auto inline_calls = [&pool] {
    const std::thread::id self = std::this_thread::get_id();
    int calls = 0;
    pool.share(100, [&](int64_t) { calls += std::this_thread::get_id() == self; });
    return calls;
  };
  EXPECT_EQ(inline_calls(), 100);
  pool.parallel_for(10, [](int64_t, int) {});
  EXPECT_EQ(inline_calls(), 100);
  std::atomic<int> calls{0};
  other.parallel_for(4, [&](int64_t, int) { calls += inline_calls(); });
  EXPECT_EQ(calls.load(), 400);
}

TEST(ThreadPool, NestedAndConcurrentCallsRunInline) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  const auto work = [&] {
    for (int round = 0; round < 200; ++round) {
      pool.parallel_for(4, [&](int64_t, int) { pool.parallel_for(3, [&](int64_t i, int) { sum += i; }); });
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(sum.load(), 2 * 200 * 4 * 3);
}

TEST(ThreadPool, ResizesBetweenJobsAndWorksAfterWorkersSlept) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int threads : {1, 4, 2}) {
    pool.resize(threads);
    EXPECT_EQ(pool.threads(), threads);
    pool.parallel_for(100, [&](int64_t, int) { ++calls; });
    usleep(2000);  // longer than workers spin
    pool.parallel_for(100, [&](int64_t, int) { ++calls; });
  }
  EXPECT_EQ(calls.load(), 600);
}

TEST(ThreadPool, RunsInlineInAForkedChild) {
  ThreadPool pool(3);
  pool.parallel_for(10, [](int64_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    int calls = 0;
    pool.parallel_for(10, [&](int64_t, int worker) { calls += worker == 0; });
    _exit(calls == 10 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Hbm, CountsUseAndRefusesBeyondCapacityNamingTheNumbers) {
  constexpr uint64_t kCapacity = 64ull << 20;
  Hbm hbm(2, kCapacity);
  auto small = hbm.allocate(100);
  auto large = hbm.allocate(10ull << 20);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*small) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*large) % (2u << 20), 0u);
  EXPECT_EQ((*large)[(10u << 20) - 1], 0);
  EXPECT_GE(hbm.used(), (10ull << 20) + 100);
  auto refused = hbm.allocate(60ull << 20);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::out_of_memory);
  EXPECT_NE(refused.status().message().find("core 2"), std::string::npos);
  hbm.release(*large, 10ull << 20);
  hbm.release(*small, 100);
  EXPECT_EQ(hbm.used(), 0u);
  auto again = hbm.allocate(60ull << 20);
  ASSERT_TRUE(again.ok());
  hbm.release(*again, 60ull << 20);
}

TEST(Hbm, RefusesWhatTheHostCannotGiveOverAllCores) {
  // Each core alone has room on paper; together they promise more than any host has.
  std::vector<std::unique_ptr<Hbm>> cores;
  std::vector<uint8_t*> blocks;
  constexpr uint64_t kBlock = 1ull << 40;
  Status refused;
  for (int c = 0; c < 64 && refused.ok(); ++c) {
    cores.push_back(std::make_unique<Hbm>(c, kBlock));
    auto block = cores.back()->allocate(kBlock);
    if (block.ok())
      blocks.push_back(*block);
    else
      refused = block.status();
  }
  EXPECT_EQ(refused.code(), Code::out_of_memory);
  EXPECT_EQ(cores.back()->used(), 0u);
  for (size_t c = 0; c < blocks.size(); ++c) cores[c]->release(blocks[c], kBlock);
}

TEST(Instance, ANamedInstanceGivesACoreOneOwner) {
  // The environment is read once per process, so each owner is a process of its own.
  const std::string name = "test-" + std::to_string(getpid());
  const auto child = [&](int hold_fd, int ready_fd) {
    setenv("NEURON_EMULATOR_INSTANCE", name.c_str(), 1);
    CoreLocks locks;
    const Status status = locks.acquire({0, 1});
    char byte = status.ok() ? 'o' : status.message().find("owned by process") != std::string::npos ? 'b' : 'x';
    if (write(ready_fd, &byte, 1) != 1) _exit(1);
    if (hold_fd >= 0 && read(hold_fd, &byte, 1) < 0) _exit(1);
    _exit(0);
  };
  int hold[2], ready[2];
  ASSERT_EQ(pipe(hold), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t first = fork();
  if (first == 0) child(hold[0], ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'o');
  const pid_t second = fork();
  if (second == 0) child(-1, ready[1]);
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'b');
  ASSERT_EQ(write(hold[1], "x", 1), 1);
  waitpid(first, nullptr, 0);
  waitpid(second, nullptr, 0);
  const pid_t third = fork();  // the first owner ended: its locks went with it
  if (third == 0) child(-1, ready[1]);
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'o');
  waitpid(third, nullptr, 0);
  const char* folder = std::getenv("TMPDIR");
  for (int core : {0, 1}) {
    unlink((std::string(folder && *folder ? folder : "/tmp") + "/neuron-emulator-" + std::to_string(getuid()) + "-" + name +
            "-core" + std::to_string(core) + ".lock")
               .c_str());
  }
}

}  // namespace
}  // namespace neuron::emulator
