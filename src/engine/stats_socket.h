// The Unix socket at which a running engine tells its state to whoever connects.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>

#include "engine/stats_client.h"

namespace railyard {

/// Made when the setting stats_socket names one; it goes with the object. Nothing waits for a client, and
/// each is cut off after a while, so none holds up anything. One thread at a time.
class StatsSocket {
  public:
    /// At a time; others wait to be accepted.
    static constexpr std::size_t most_clients = 8;
    /// Until serve() is to be called again, while there are clients.
    static constexpr std::uint64_t pause_ns = 20'000'000;
    /// A report is given to all who ask for so long.
    static constexpr std::uint64_t report_age_ns = 200'000'000;

    /// Listens at `pattern` (see StatsFile::name), a path or, with a leading @, an abstract name. A socket
    /// that nobody serves any more is replaced. Throws Error naming it and the remedy: {not_allowed} where
    /// somebody does, {invalid_param} for a name that will not do, {backend} where the system refuses.
    StatsSocket(const std::string& pattern, const std::string& agent, std::uint64_t nonce);
    /// Throws what the constructor would, without listening anywhere; but nothing where somebody serves the
    /// name.
    static void check(const std::string& pattern, const std::string& agent);
    ~StatsSocket();
    StatsSocket(const StatsSocket&) = delete;
    StatsSocket& operator=(const StatsSocket&) = delete;

    /// From the root, unless it is abstract.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// Accepts who has come, of our user or root alone, and serves all a piece; `report` makes the text.
    /// Returns when it wants to be called again (ns); UINT64_MAX: nobody is there.
    std::uint64_t serve(std::uint64_t now_ns, const std::function<std::string()>& report);

  private:
    void accept_all(std::uint64_t now_ns);
    [[nodiscard]] bool is_ours() const noexcept;

    const std::string agent_;
    std::string name_;  ///< does not change later
    int fd_ = -1;
    dev_t device_ = 0;  ///< of its file, and the next one; 0: it has none
    ino_t inode_ = 0;
    std::list<StatsClient> clients_;
    StatsClient::Report report_;
    std::uint64_t reported_at_ = 0;  ///< ns
};

}  // namespace railyard
