// One operation on its way through the simulated device.
#pragma once

#include <cstdint>

#include "provider/device_limits.h"
#include "provider/peer.h"
#include "shared/layout.h"

namespace simefa {

struct Operation;

/// Who wants to know how an operation ended. Called once per operation, under the domain's lock.
class OperationOwner {
  public:
    virtual void operation_done(Operation& operation, int status) noexcept = 0;

  protected:
    ~OperationOwner() = default;
};

struct Operation {
    enum class Kind : std::uint8_t { write, read, send };

    Kind kind = Kind::write;
    bool silent = false;       ///< no completion on success (inject, selective completion)
    bool has_data = false;     ///< immediate data travels with it
    bool decided = false;      ///< the faults had their chance
    bool answer_lost = false;  ///< will fail, although it has been carried out
    bool reported = false;     ///< has ended for the application; its bytes are still to land
    bool moved = false;        ///< bytes are placed, the notice is not
    bool waited = false;       ///< found no receive buffer at least once
    bool internal = false;   ///< of a protocol, not of the application: takes no place in the transmit queue
    bool is_packet = false;  ///< tells the protocol what owner_data is
    std::uint8_t segment_count = 0;
    std::uint32_t key = 0;
    int local_status = 0;  ///< error found while posting that the device reports later
    std::uint64_t completion_flags = 0;
    void* context = nullptr;
    Peer* peer = nullptr;  ///< holds a reference
    Segment local[segment_limit];
    std::uint64_t length = 0;
    std::uint64_t remote = 0;
    std::uint64_t data = 0;
    std::uint64_t posted_at = 0;  ///< when the doorbell rang; ns
    std::uint64_t due = 0;        ///< when the bytes arrive
    std::uint64_t order = 0;      ///< tells operations apart that are due together
    std::uint64_t retry_delay = 0;
    OperationOwner* owner = nullptr;  ///< null: goes to the completion queue
    void* owner_data = nullptr;
    Operation* next = nullptr;
    std::uint8_t inline_data[inject_direct];
};

/// First in, first out, through the operations' own links.
class OperationList {
  public:
    [[nodiscard]] bool empty() const noexcept { return !first_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] Operation* front() const noexcept { return first_; }
    [[nodiscard]] Operation* back() const noexcept { return last_; }
    void push_back(Operation& operation) noexcept {
        operation.next = nullptr;
        if (last_) {
            last_->next = &operation;
        } else {
            first_ = &operation;
        }
        last_ = &operation;
        ++size_;
    }
    Operation& pop_front() noexcept {
        Operation& operation = *first_;
        first_ = operation.next;
        if (!first_) last_ = nullptr;
        --size_;
        return operation;
    }

  private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace simefa
