// The FIFO of a core: order across threads, events, deferred errors, the modelled clock.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/core.h"
#include "runtime/process.h"
#include "runtime/runtime.h"

namespace neuron::runtime {
namespace {

Core& core(int index = 0) { return *(*require_process())->cores[index]; }

TEST(Order, work_on_an_idle_core_runs_on_the_caller) {
  std::thread::id ran;
  ASSERT_TRUE(core()
                  .run([&] {
                    ran = std::this_thread::get_id();
                    return Status();
                  })
                  .ok());
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(Order, work_behind_running_work_keeps_its_order) {
  std::vector<int> order;
  std::atomic<bool> go{false}, started{false};
  std::thread first([&] {
    Status s = core().run([&] {
      started = true;
      while (!go) std::this_thread::yield();
      order.push_back(0);
      return Status();
    });
    EXPECT_TRUE(s.ok());
  });
  while (!started) std::this_thread::yield();
  for (int i = 1; i <= 5; ++i)
    core().enqueue([&, i] {
      order.push_back(i);
      return Status();
    });
  go = true;
  ASSERT_TRUE(core()
                  .run([&] {
                    order.push_back(6);
                    return Status();
                  })
                  .ok());
  first.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Order, an_error_of_queued_work_surfaces_once_at_synchronize) {
  core().enqueue([] { return internal_error("boom"); });
  Status status = synchronize(0);
  EXPECT_EQ(status.message(), "boom");
  EXPECT_TRUE(synchronize(0).ok());
}

TEST(Order, an_event_is_complete_when_its_place_is_reached) {
  std::atomic<bool> go{false};
  core().enqueue([&] {
    while (!go) std::this_thread::yield();
    return Status();
  });
  auto event = create_event(false);
  ASSERT_TRUE(record_event(*event, 0, 0).ok());
  EXPECT_FALSE(query_event(*event));
  go = true;
  ASSERT_TRUE(synchronize_event(*event).ok());
  EXPECT_TRUE(query_event(*event));
}

TEST(Order, an_event_may_be_dropped_before_its_place_is_reached) {
  std::atomic<bool> go{false};
  core().enqueue([&] {
    while (!go) std::this_thread::yield();
    return Status();
  });
  auto event = create_event(true);
  ASSERT_TRUE(record_event(*event, 0, 0).ok());
  std::weak_ptr<Event> watch = event;
  event.reset();
  EXPECT_FALSE(watch.expired());
  go = true;
  ASSERT_TRUE(synchronize(0).ok());
  EXPECT_TRUE(watch.expired());
}

TEST(Order, waiting_for_an_event_of_another_core_raises_the_clock) {
  core(0).raise_clock(core(1).clock_ns() + 5000);
  auto event = create_event(true);
  ASSERT_TRUE(record_event(*event, 0, 0).ok());
  ASSERT_TRUE(wait_event(*event, 1, 0).ok());
  ASSERT_TRUE(synchronize(1).ok());
  EXPECT_GE(core_clock_ns(1), core_clock_ns(0));
}

TEST(Order, elapsed_time_needs_timing_events) {
  auto a = create_event(false), b = create_event(true);
  ASSERT_TRUE(record_event(*a, 0, 0).ok());
  ASSERT_TRUE(record_event(*b, 0, 0).ok());
  ASSERT_TRUE(synchronize(0).ok());  // the worker of an earlier test may still be handing back the core
  EXPECT_FALSE(elapsed_ms(*a, *b).ok());
  EXPECT_TRUE(elapsed_ms(*b, *b).ok());
}

}  // namespace
}  // namespace neuron::runtime
