// Prepared requests that are posted again and again, and which of them are outstanding, oldest first.
#pragma once

#include <span>
#include <vector>

#include "failure.h"
#include "host/agent.h"

namespace railyard::bench {

struct TransferFailed : Failure {
    TransferFailed(unsigned slot_, const std::string& text) : Failure(text), slot(slot_) {}
    unsigned slot;
};

/// One thread. A slot is the index of a request.
class RequestRing {
  public:
    /// Takes the place of all requests before, of which none may be outstanding. `moves_once`:
    /// Corrupt::reposts.
    void reset(std::vector<host::Request> requests, bool moves_once);
    /// Gives the requests back.
    void release() noexcept { requests_.clear(); }

    /// Throws TransferFailed.
    void post(unsigned slot);
    /// Slots whose transfers have ended since the last call; valid until the next call. Asks for the oldest
    /// one, and for one other, so that a late one does not hide the rest. Throws TransferFailed.
    std::span<const unsigned> harvest();
    /// The one that was posted first of those that have not ended; nothing where all have.
    [[nodiscard]] const unsigned* oldest() const noexcept;

  private:
    bool ended(unsigned slot);
    void append(unsigned slot) noexcept;
    void remove(unsigned slot) noexcept;

    std::vector<host::Request> requests_;
    std::vector<unsigned> next_,
        previous_;  ///< outstanding slots in the order of posting; the last entry is the ring's end
    unsigned scan_ = 0;
    std::vector<unsigned> at_once_, done_;
    bool moves_once_ = false;
    std::vector<bool> has_moved_;  ///< with moves_once_
};

}  // namespace railyard::bench
