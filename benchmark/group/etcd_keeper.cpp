#include "group/etcd_keeper.h"

#include <charconv>
#include <cstdio>

#include "failure.h"
#include "group/rendezvous.h"

namespace railyard::bench {

std::string EtcdKeys::with_rank(const std::string& prefix, unsigned rank) {
    char text[16];
    std::snprintf(text, sizeof(text), "%06u", rank);
    return prefix + text;
}

unsigned EtcdKeys::rank_in(const std::string& key) {
    unsigned rank = 0;
    const std::size_t slash = key.rfind('/');
    std::from_chars(key.data() + slash + 1, key.data() + key.size(), rank);
    return rank;
}

std::string trouble_of(const EtcdRange& ranks, const EtcdRange& failed,
                       const std::vector<std::string>& members) {
    if (!failed.entries.empty()) {
        const EtcdEntry& first = failed.entries.front();
        const unsigned rank = EtcdKeys::rank_in(first.key);
        return "rank " + std::to_string(rank) + " (" + (rank < members.size() ? members[rank] : "?") +
               ") failed: " + first.value;
    }
    std::vector<bool> there(members.size());
    for (const EtcdEntry& entry : ranks.entries) {
        const unsigned rank = EtcdKeys::rank_in(entry.key);
        if (rank < there.size()) there[rank] = true;
    }
    for (unsigned rank = 0; rank < there.size(); ++rank) {
        if (!there[rank]) return gone_text(rank, members) + ": its lease in etcd has run out";
    }
    return "";
}

EtcdKeeper::EtcdKeeper(std::unique_ptr<EtcdClient> client, EtcdClient::Lease lease)
    : client_(std::move(client)), lease_(std::move(lease)), thread_([this] { run(); }) {}

EtcdKeeper::~EtcdKeeper() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void EtcdKeeper::watch(const EtcdKeys& keys, const std::vector<std::string>& members) {
    const std::lock_guard lock(mutex_);
    keys_ = keys;
    members_ = members;
}

std::string EtcdKeeper::trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
}

std::string EtcdKeeper::silence() const {
    const std::lock_guard lock(mutex_);
    return silence_;
}

/// A server that does not answer once may do so the next time, as long as the lease may still be there.
void EtcdKeeper::run() {
    using Clock = std::chrono::steady_clock;
    const auto interval = std::chrono::milliseconds(lease_.ttl) / 4;
    auto renewed = Clock::now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, interval, [this] { return stop_; })) {
        lock.unlock();
        std::string trouble, silence;
        try {
            trouble = look();
            renewed = Clock::now();
        } catch (const std::exception& error) {
            silence = error.what();
            if (Clock::now() - renewed > lease_.ttl) trouble = silence;
        }
        lock.lock();
        silence_ = silence;
        if (trouble_.empty()) trouble_ = trouble;
    }
}

std::string EtcdKeeper::look() {
    if (!client_->keep_alive(lease_.id))
        return "this process's lease in etcd has run out: it stood still for too long";
    std::optional<EtcdKeys> keys;
    std::vector<std::string> members;
    {
        const std::lock_guard lock(mutex_);
        keys = keys_;
        members = members_;
    }
    if (!keys) return "";
    const auto found = client_->ranges({keys->ranks(), keys->failed()}, 0);
    return trouble_of(found[0], found[1], members);
}

}  // namespace railyard::bench
