// The Philox generator of a core: 16-byte state, little-endian uint64 seed and uint64 offset.
//
// An operator that draws n elements uses counters offset .. offset + increment - 1 and advances the offset by the increment;
// eager and compiled graphs draw the same numbers.
#pragma once

#include <ATen/core/Generator.h>

namespace neuron::pytorch {

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  // What the graph-safe functions share: two generators with the same State draw from one sequence.
  struct State final : c10::intrusive_ptr_target {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };

  explicit NeuronGenerator(c10::DeviceIndex device, c10::intrusive_ptr<State> state = c10::make_intrusive<State>());

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return state_->offset; }
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  // Philox seed and offset for a call that consumes `increment` counters.
  struct Philox {
    uint64_t seed, offset;
  };
  Philox consume(uint64_t increment);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  NeuronGenerator* clone_impl() const override;
  c10::intrusive_ptr<State> state_;
};

// The default generator of a core; exists for every index without touching the device.
const at::Generator& default_generator(c10::DeviceIndex device);

// `generator` as ours (it must belong to `device`), or the core's default one.
NeuronGenerator& generator_for(const std::optional<at::Generator>& generator, c10::DeviceIndex device);

}  // namespace neuron::pytorch
