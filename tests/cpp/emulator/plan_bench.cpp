// Times the plan on the compiler's program shapes: minimum over repetitions, one line per case. Not a test.
// plan_bench [filter] [threads]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "emulator/executor.h"
#include "emulator/plan_programs.h"

namespace neuron::emulator::testing {
namespace {

// One thread: its CPU time, which neighbours on a loaded machine disturb least. More: wall time.
bool use_cpu_time = false;
double now() {
  timespec t;
  clock_gettime(use_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void bench(const std::string& name, const std::string& filter, double work, const char* unit, int threads,
           const std::function<std::shared_ptr<const isa::Program>()>& make) {
  if (name.find(filter) == std::string::npos) return;
  const auto program = make();
  const double start = now();
  auto plan = make_plan(program);
  const double build = now() - start;
  if (!plan.ok()) {
    std::printf("%s: %s\n", name.c_str(), plan.status().message().c_str());
    return;
  }
  std::vector<std::vector<float>> buffers;
  std::vector<TensorView> views;
  for (const isa::Tensor& t : program->tensors) buffers.emplace_back(t.bytes / 4 + 64, 0.01f);
  for (size_t t = 0; t < buffers.size(); ++t) {
    const int32_t alias = program->tensors[t].alias_of;
    views.push_back({reinterpret_cast<uint8_t*>(buffers[alias >= 0 ? static_cast<size_t>(alias) : t].data()),
                     program->tensors[t].bytes});
  }
  ThreadPool pool(threads);
  Launch launch{views, pool};
  double best = 1e9, total = 0;
  int inner = 1;
  for (int i = 0; i < 10000 && total < 0.6; ++i) {
    const double t0 = now();
    for (int k = 0; k < inner; ++k) {
      const Status s = (*plan)->run(launch);
      if (!s.ok()) std::printf("%s\n", s.message().c_str());
    }
    const double t = now() - t0;
    if (i > 0) best = std::min(best, t / inner);
    if (t < 1e-4) inner *= 2;
    total += t;
  }
  std::printf("%-34s %10.2f us  %8.1f %s   build %.0f us\n", name.c_str(), best * 1e6, work / best / 1e9, unit, build * 1e6);
}

void all(const std::string& filter, int threads) {
  const auto matmul = [&](DType type, uint32_t b, uint32_t m, uint32_t k, uint32_t n) {
    const std::string name = "matmul " + std::string(name_of(type)) + " " + std::to_string(b) + "x" + std::to_string(m) +
                             "x" + std::to_string(k) + "x" + std::to_string(n);
    bench(name, filter, 2.0 * b * m * k * n, "GFLOP/s", threads, [=] { return matmul_program(type, b, m, k, n); });
  };
  for (DType type : {DType::f32, DType::bf16}) {
    matmul(type, 1, 128, 128, 128);
    matmul(type, 1, 256, 256, 256);
    matmul(type, 1, 512, 512, 512);
    matmul(type, 1, 1024, 1024, 1024);
    matmul(type, 1, 2048, 256, 256);
    matmul(type, 1, 2048, 256, 768);
    matmul(type, 1, 2048, 256, 1024);
    matmul(type, 1, 2048, 1024, 256);
    matmul(type, 64, 256, 64, 256);
    matmul(type, 64, 256, 256, 64);
    bench("attention " + std::string(name_of(type)) + " 8x1024x64", filter, 4.0 * 8 * 1024 * 1024 * 64, "GFLOP/s", threads,
          [=] { return attention_program(type, 8, 1024, 64); });
    bench("attention " + std::string(name_of(type)) + " 64x256x64", filter, 4.0 * 64 * 256 * 256 * 64, "GFLOP/s", threads,
          [=] { return attention_program(type, 64, 256, 64); });
  }
  for (DType type : {DType::f32, DType::bf16}) {
    for (const auto& [kind, label, streams] :
         {std::tuple{Pointwise::add, "add", 3}, std::tuple{Pointwise::gelu, "gelu", 2},
          std::tuple{Pointwise::scale_bias_max_add, "chain", 3}, std::tuple{Pointwise::add_in_place, "add_", 3}}) {
      for (uint64_t n : {uint64_t{1} << 16, uint64_t{1} << 20, uint64_t{1} << 24}) {
        bench(std::string(label) + " " + std::string(name_of(type)) + " " + std::to_string(n), filter,
              static_cast<double>(n) * streams * static_cast<double>(size_of(type)), "GB/s", threads,
              [=, kind = kind] { return pointwise_program(type, kind, n); });
      }
    }
  }
  bench("softmax 4096x1024", filter, 8.0 * 4096 * 1024, "GB/s", threads, [] { return softmax_program(4096, 1024); });
  bench("softmax 256x256", filter, 8.0 * 256 * 256, "GB/s", threads, [] { return softmax_program(256, 256); });
  bench("layernorm 4096x1024", filter, 8.0 * 4096 * 1024, "GB/s", threads, [] { return layernorm_program(4096, 1024); });
  bench("layernorm 256x256", filter, 8.0 * 256 * 256, "GB/s", threads, [] { return layernorm_program(256, 256); });
  bench("tiny", filter, 1e9 * 1e-9, "G/s", threads, [] { return tiny_program(); });
}

}  // namespace
}  // namespace neuron::emulator::testing

int main(int argc, char** argv) {
  neuron::emulator::testing::use_cpu_time = argc > 2 && std::atoi(argv[2]) == 1;
  neuron::emulator::testing::all(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 2);
  return 0;
}
