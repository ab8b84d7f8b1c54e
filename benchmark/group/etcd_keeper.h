// Keeps a process's lease alive, and looks at how the others are.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "group/etcd_client.h"

namespace railyard::bench {

/// The keys of one run of a group. Everything but the run's own key lies below an id of its own, so that what
/// an earlier run has left is never taken for this one's.
class EtcdKeys {
  public:
    EtcdKeys(const std::string& group, const std::string& id) : group_(group), id_(id) {}

    /// "id", "world" and "who" of the run that the group is in; exists until its founder leaves.
    [[nodiscard]] std::string run() const { return "railyard-bench/" + group_ + "/run"; }
    [[nodiscard]] std::string all() const { return "railyard-bench/" + group_ + "/" + id_ + "/"; }
    [[nodiscard]] std::string ranks() const { return all() + "rank/"; }
    [[nodiscard]] std::string ready() const { return all() + "ready/"; }
    [[nodiscard]] std::string started() const { return all() + "started"; }
    [[nodiscard]] std::string failed() const { return all() + "failed/"; }
    [[nodiscard]] std::string left() const { return all() + "left/"; }
    [[nodiscard]] std::string phase(const std::string& name) const { return all() + "phase/" + name + "/"; }

    /// Of all ranks, in their order.
    [[nodiscard]] static std::string with_rank(const std::string& prefix, unsigned rank);
    [[nodiscard]] static unsigned rank_in(const std::string& key);

  private:
    std::string group_, id_;
};

/// What is wrong with a group, given who is there and who failed; "" for nothing.
[[nodiscard]] std::string trouble_of(const EtcdRange& ranks, const EtcdRange& failed,
                                     const std::vector<std::string>& members);

/// A thread with a connection of its own. The server forgets who does not renew the lease in time.
class EtcdKeeper {
  public:
    EtcdKeeper(std::unique_ptr<EtcdClient> client, EtcdClient::Lease lease);
    ~EtcdKeeper();
    EtcdKeeper(const EtcdKeeper&) = delete;
    EtcdKeeper& operator=(const EtcdKeeper&) = delete;

    /// From now on it looks at the others, too.
    void watch(const EtcdKeys& keys, const std::vector<std::string>& members);
    /// What it knows to be wrong; "" for nothing. Any thread.
    [[nodiscard]] std::string trouble() const;
    /// Why the server has not answered it the last time; "" where it has. Any thread.
    [[nodiscard]] std::string silence() const;

  private:
    void run();
    [[nodiscard]] std::string look();

    const std::unique_ptr<EtcdClient> client_;
    const EtcdClient::Lease lease_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    bool stop_ = false;
    std::optional<EtcdKeys> keys_;
    std::vector<std::string> members_;
    std::string trouble_, silence_;
    std::thread thread_;
};

}  // namespace railyard::bench
