// The project's one error type. Layers return Status or Result<T>; src/pytorch turns them into exceptions,
// src/emulator turns them into NRT_STATUS. Nothing below src/pytorch throws.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace neuron {

enum class Code : uint8_t {
  ok,
  invalid_argument,  // the caller's mistake: shape, dtype, handle, malformed bytes  -> RuntimeError
  unsupported,       // right but not implemented; names op, dtype and shape         -> NotImplementedError
  out_of_memory,     // device memory (HBM)                                          -> torch.OutOfMemoryError
  does_not_fit,      // on-chip memory (SBUF, PSUM)                                  -> RuntimeError
  out_of_range,      // an index in a tensor is outside its bound                    -> IndexError
  unavailable,       // closed, forked, busy, library missing                        -> RuntimeError
  internal,          // a defect of ours                                             -> RuntimeError
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with "where: " in front, for callers that know more than the callee.
  Status within(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

inline Status invalid_argument(std::string m) { return {Code::invalid_argument, std::move(m)}; }
inline Status unsupported(std::string m) { return {Code::unsupported, std::move(m)}; }
inline Status out_of_memory(std::string m) { return {Code::out_of_memory, std::move(m)}; }
inline Status does_not_fit(std::string m) { return {Code::does_not_fit, std::move(m)}; }
inline Status out_of_range(std::string m) { return {Code::out_of_range, std::move(m)}; }
inline Status unavailable(std::string m) { return {Code::unavailable, std::move(m)}; }
inline Status internal_error(std::string m) { return {Code::internal, std::move(m)}; }

// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace neuron

#define NEURON_CONCAT_INNER(a, b) a##b
#define NEURON_CONCAT(a, b) NEURON_CONCAT_INNER(a, b)

// Returns the Status of `expr` from the enclosing function when it is an error.
#define NEURON_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    ::neuron::Status neuron_status_ = (expr);        \
    if (!neuron_status_.ok()) return neuron_status_; \
  } while (0)

// `NEURON_ASSIGN(auto x, f())`: x = the value of the Result, or returns its Status.
#define NEURON_ASSIGN(lhs, expr) NEURON_ASSIGN_IMPL(NEURON_CONCAT(neuron_result_, __LINE__), lhs, expr)
#define NEURON_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                       \
  if (!tmp.ok()) return tmp.status();      \
  lhs = std::move(tmp).value()
