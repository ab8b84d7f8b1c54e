// The rendezvous over plain sockets: one process listens and coordinates, all others connect to it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control.h"
#include "group/coordinator.h"
#include "group/rendezvous.h"

namespace railyard::bench {

class SocketRendezvous final : public Rendezvous {
  public:
    /// As the coordinator and rank 0.
    SocketRendezvous(host::Listener listener, unsigned world, std::chrono::milliseconds timeout);
    /// As one that the coordinator at the other end of `control`, which is at `place` (empty: on this host),
    /// takes in.
    SocketRendezvous(Control control, unsigned world, std::optional<unsigned> rank,
                     std::chrono::milliseconds timeout, const std::string& place = {});

    [[nodiscard]] unsigned rank() const noexcept override { return rank_; }
    [[nodiscard]] const std::vector<std::string>& members() const noexcept override { return members_; }
    [[nodiscard]] std::vector<std::string> exchange(const std::string& phase, const std::string& value,
                                                    std::chrono::milliseconds limit) override;
    void check() override;
    void fail(const std::string& reason) noexcept override;
    void leave() noexcept override;

  private:
    void await_start(std::chrono::milliseconds timeout);
    [[nodiscard]] Message receive(std::chrono::milliseconds limit);

    std::unique_ptr<Coordinator>
        coordinator_;  ///< rank 0's; waits for the others when it goes, so first here
    std::optional<Control> control_;
    std::string who_;  ///< the coordinator, for messages
    unsigned rank_ = 0;
    std::vector<std::string> members_;
};

[[nodiscard]] std::unique_ptr<Rendezvous> meet_at_socket(const GroupOptions& options,
                                                         std::chrono::milliseconds timeout);

}  // namespace railyard::bench
