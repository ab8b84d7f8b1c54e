// Who decides when a posted transfer starts: work on a CUDA stream, for one.
#pragma once

#include <cstdint>

#include "common/status.h"

namespace railyard {

class Transfer;

/// Hooks of one transfer's rounds. hold() is called by the poster, the others by any thread, some with a
/// rail's role held: none may wait for a rail or for whoever holds a lock while calling the engine.
class StartControl {
  public:
    /// In place of the start, at the end of a post; the round is armed and nothing of it is with a rail.
    /// in_progress: Engine::start() follows, sooner or later, from wherever. Anything else ends the round
    /// with that status, and the post answers it.
    virtual Status hold(Transfer& transfer) noexcept = 0;
    /// The round's data is where it belongs, or will never be (`status`). Once for every hold() that answered
    /// in_progress; the round is still open, a notification may be sent yet.
    virtual void data_ended(Transfer& transfer, Status status) noexcept = 0;
    /// The round is to end early (released, or its peer is gone): where it still waits for its start, start()
    /// should come soon; it ends the round without touching the network.
    virtual void stopped(Transfer& transfer) noexcept = 0;
    /// The transfer is about to be freed, its last round is over.
    virtual void gone(Transfer& transfer) noexcept = 0;

  protected:
    ~StartControl() = default;
};

}  // namespace railyard
