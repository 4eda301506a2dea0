#include "pytorch/generator.h"

#include <ATen/EmptyTensor.h>

#include <cstring>
#include <deque>
#include <mutex>

#include "pytorch/device.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {

namespace {
constexpr int64_t kStateBytes = 16;
}

NeuronGenerator::NeuronGenerator(c10::DeviceIndex device, c10::intrusive_ptr<State> state)
    : c10::GeneratorImpl(c10::Device(kNeuron, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(std::move(state)) {}

void NeuronGenerator::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}

void NeuronGenerator::set_offset(uint64_t offset) { state_->offset = offset; }

uint64_t NeuronGenerator::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void NeuronGenerator::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(new_state.numel() == kStateBytes, "RNG state is wrong size: a neuron generator's state has ", kStateBytes,
              " bytes (seed, offset), got ", new_state.numel());
  const uint8_t* bytes = new_state.data_dtype_initialized<uint8_t>();
  std::memcpy(&state_->seed, bytes, 8);
  std::memcpy(&state_->offset, bytes + 8, 8);
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  at::TensorBase state = at::detail::empty_cpu({kStateBytes}, at::kByte);
  auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_->seed, 8);
  std::memcpy(bytes + 8, &state_->offset, 8);
  return state.getIntrusivePtr();
}

void NeuronGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* ours = dynamic_cast<NeuronGenerator*>(other.get());
  TORCH_CHECK(ours, "expected a neuron generator");
  state_ = ours->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> NeuronGenerator::graphsafe_get_state() const {
  return c10::make_intrusive<NeuronGenerator>(device().index(), state_);
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  auto copy = c10::make_intrusive<State>();
  copy->seed = state_->seed;
  copy->offset = state_->offset;
  return new NeuronGenerator(device().index(), std::move(copy));
}

NeuronGenerator::Philox NeuronGenerator::consume(uint64_t increment) {
  std::lock_guard lock(mutex_);
  const Philox philox{state_->seed, state_->offset};
  state_->offset += increment;
  return philox;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto* generators = new std::deque<at::Generator>();
  if (device < 0) device = static_cast<c10::DeviceIndex>(runtime::current_device());
  std::lock_guard lock(mutex);
  while (generators->size() <= static_cast<size_t>(device)) {
    generators->push_back(at::make_generator<NeuronGenerator>(static_cast<c10::DeviceIndex>(generators->size())));
  }
  return (*generators)[device];
}

NeuronGenerator& generator_for(const std::optional<at::Generator>& generator, c10::DeviceIndex device) {
  const at::Generator& chosen = generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(chosen.device().type() == kNeuron, "Expected a 'neuron' device type for generator but found '",
              chosen.device().type(), "'");
  return *static_cast<NeuronGenerator*>(chosen.unsafeGetGeneratorImpl());
}

}  // namespace neuron::pytorch
