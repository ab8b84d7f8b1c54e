// As much of etcd's v3 API as a rendezvous needs, through its HTTP/JSON gateway.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "failure.h"
#include "group/group_options.h"

namespace railyard::bench {

struct EtcdEntry {
    std::string key;
    std::string value;
};

/// What one range of keys holds.
struct EtcdRange {
    std::uint64_t count = 0;
    std::vector<EtcdEntry> entries;  ///< in the order of the keys; none where only the count was asked for
};

/// The server did not answer, or says that it cannot for now: it may the next time.
struct EtcdSilent : Failure {
    using Failure::Failure;
};

/// One connection. One thread at a time. A call that fails throws Failure, which names the server: EtcdSilent
/// where it has not refused; none takes longer than its limit.
class EtcdClient {
  public:
    /// `limit`: of each call. Does not connect yet. With TLS, etcdctl's environment variables name the
    /// certificates and the user.
    EtcdClient(const RendezvousAddress& server, std::chrono::milliseconds limit);
    ~EtcdClient();
    EtcdClient(const EtcdClient&) = delete;
    EtcdClient& operator=(const EtcdClient&) = delete;

    struct Lease {
        std::string id;
        std::chrono::seconds ttl{0};
    };
    /// The server may give a longer time than asked for.
    [[nodiscard]] Lease grant(std::chrono::seconds ttl);
    /// False where the lease has run out.
    [[nodiscard]] bool keep_alive(const std::string& lease);
    void revoke(const std::string& lease);

    /// At the same moment the key `obsolete` goes, unless it is empty.
    void put(const EtcdEntry& entry, const std::string& lease, const std::string& obsolete = "");
    /// Puts all where the first of their keys does not exist yet; false where it does, and then nothing was
    /// put.
    [[nodiscard]] bool create(const std::vector<EtcdEntry>& entries, const std::string& lease);
    /// The ranges of all prefixes at one moment. Those before `counted` are counted only.
    [[nodiscard]] std::vector<EtcdRange> ranges(const std::vector<std::string>& prefixes,
                                                std::size_t counted);
    [[nodiscard]] std::optional<std::string> get(const std::string& key);
    void remove(const std::string& key);
    void remove_all(const std::string& prefix);
    /// Only while it has that value.
    void remove_if(const EtcdEntry& entry);

  private:
    struct Answer {
        long status = 0;  ///< of HTTP
        nlohmann::json json;
        std::string why;  ///< it refuses, and what helps where that is known; empty: it does not say
    };
    [[nodiscard]] nlohmann::json call(const char* method, const nlohmann::json& request);
    /// What `take` makes of the answer. Throws Failure where it is not as etcd answers.
    template <class Take>
    [[nodiscard]] auto read(const char* method, const nlohmann::json& request, Take take);
    [[nodiscard]] Answer ask(const char* method, const nlohmann::json& request);
    /// As the user, anew. Throws Failure.
    void log_in();

    struct Connection;
    const std::string base_;
    const std::string user_;  ///< "NAME:PASSWORD"; empty: none
    const std::chrono::milliseconds limit_;
    std::unique_ptr<Connection> connection_;
};

}  // namespace railyard::bench
