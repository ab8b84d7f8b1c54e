// Letters of instances whose introduction has yet to come.
#pragma once

#include <cstddef>
#include <cstdint>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/notification.h"

namespace railyard {

/// Messages have no order, and who was forgotten here learns of it by its questions only: until it has
/// introduced itself (again) they wait, for a while. Any thread.
class WaitingLetters {
  public:
    static constexpr std::size_t most = 256;                         ///< letters; the oldest make room
    static constexpr std::size_t most_bytes = std::size_t{4} << 20;  ///< of all texts

    /// One that has waited for longer than that is not taken any more: who sent it has given up.
    explicit WaitingLetters(std::uint64_t patience_ns) : patience_ns_(patience_ns) {}
    void keep(Letters letters, std::uint64_t now_ns) noexcept;
    /// Those of the instance, in the order in which they came.
    Letters take(std::uint64_t nonce, std::uint64_t now_ns) noexcept;
    [[nodiscard]] std::size_t count() const;

  private:
    void drop_first() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void drop_late(std::uint64_t now_ns) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const std::uint64_t patience_ns_;
    mutable Mutex mutex_;
    Letters letters_ ABSL_GUARDED_BY(mutex_);  // the oldest first
    std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace railyard
