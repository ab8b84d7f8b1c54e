// Memory that must not be deregistered while a transfer of it is made.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/status.h"
#include "manager/registration.h"

namespace railyard {

[[noreturn]] inline void throw_unregistered() {
    throw Error(Status::invalid_param, "it names memory that is not registered (any more)");
}

/// Keeps memory registered until it goes, by when whoever deregisters it sees the transfer, or the transfer's
/// post sees that it has gone. Not for several threads at once.
class Pinned {
  public:
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    ~Pinned() {
        for (std::size_t i = 0; i < count_; ++i)
            few_[i]->pins.fetch_sub(1, std::memory_order_release);
        for (const auto& region : more_)
            region->pins.fetch_sub(1, std::memory_order_release);
    }
    /// Of the two, this and Engine::deregister_memory, the later one sees what the other has done. Throws
    /// Error.
    void add(const std::shared_ptr<Registration>& region) {
        if (count_ < few_.size()) {
            few_[count_++] = region;
        } else {
            more_.push_back(region);
        }
        region->pins.fetch_add(1, std::memory_order_seq_cst);
        if (region->revoked.load(std::memory_order_seq_cst)) throw_unregistered();
    }
    /// Our own memory, where it is that.
    void add(const std::shared_ptr<RemoteRegion>& region) {
        if (region->self) add(region->self);
    }

  private:
    std::array<std::shared_ptr<Registration>, 4> few_;  // without an allocation
    std::size_t count_ = 0;
    std::vector<std::shared_ptr<Registration>> more_;
};

}  // namespace railyard
