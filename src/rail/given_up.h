// What is kept for an operation of whose end its transfer hears no more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "rail/work.h"

namespace railyard {

struct GivenUp {
    GivenUp(std::atomic<std::uint32_t>* counter, std::unique_ptr<KeptMemory> kept) noexcept
        : memory(std::move(kept)), late_(counter) {}
    ~GivenUp() { end_late(); }
    GivenUp(const GivenUp&) = delete;
    GivenUp& operator=(const GivenUp&) = delete;

    /// It reaches no memory any more, whatever libfabric has of it.
    void end_late() noexcept {
        if (std::atomic<std::uint32_t>* const late = take_late())
            late->fetch_sub(1, std::memory_order_release);
    }
    /// The Submission::late that counts it, which is the caller's to end.
    std::atomic<std::uint32_t>* take_late() noexcept { return std::exchange(late_, nullptr); }

    std::unique_ptr<KeptMemory> memory;  ///< as long as libfabric may go on with it

  private:
    std::atomic<std::uint32_t>* late_;
};

}  // namespace railyard
