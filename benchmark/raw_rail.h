// One endpoint of the plain libfabric loop. Only the raw_* files know libfabric.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "fabric/fid.h"
#include "fabric/info.h"
#include "host/agent.h"

namespace railyard::bench {

/// One block to move. The context comes first: a completion's op_context is the address of its operation.
struct RawOperation {
    fi_context2 context;
    unsigned slot = 0;
    std::byte* local = nullptr;
    std::uint64_t offset = 0;  ///< of the remote block in the remote memory
    std::uint64_t length = 0;
    std::uint32_t immediate = 0;  ///< where the rail carries it
};

/// How the other side hears of a write.
enum class RawNotice : std::uint8_t {
    none,
    immediate,  ///< each write brings 32 bits of immediate data
    message,    ///< post_message, when the write has ended
};

/// What the other side published for one of its rails.
struct RawRemote {
    std::string address;
    std::uint64_t key = 0;
    std::uint64_t base = 0;
};
/// How the sides tell each other of their rails. raw_remote throws where something is missing.
[[nodiscard]] nlohmann::json to_json(const RawRemote& remote);
[[nodiscard]] RawRemote raw_remote(const nlohmann::json& json);

/// A domain, an endpoint and a completion queue of its own, as the plugin opens them. One thread.
class RawRail {
  public:
    /// With a notice, poll_all hears of the other side's.
    RawRail(const fabric::Device& device, bool wait_fd, std::span<std::byte> memory,
            RawNotice notice = RawNotice::none);

    [[nodiscard]] const RawRemote& local() const noexcept { return local_; }
    void connect(const RawRemote& remote);

    /// How many more operations may be posted now.
    [[nodiscard]] std::size_t credits() const noexcept { return depth_ - outstanding_; }
    /// Posts one operation; false when the provider is full for now. `more`: another follows at once.
    bool post(host::Op op, RawOperation& operation, bool more);
    /// Sends `message_size` bytes, whose completion tells of `operation` once more.
    bool post_message(RawOperation& operation);
    static constexpr std::size_t message_size = 64;
    /// Completed operations, at most `limit` of Completions; throws for a failed one.
    static constexpr std::size_t limit = 64;
    using Completions = std::array<fi_cq_entry, limit>;
    std::size_t poll(Completions& completions);
    /// The same where there are notices: our operations that have ended, and how many notices have come in.
    struct Ends {
        std::array<RawOperation*, limit> ours{};
        std::size_t count = 0;
        std::size_t arrived = 0;
    };
    void poll_all(Ends& ends);
    /// For the passive side: moves the provider, ignores what peers' departures report.
    void serve() noexcept;

  private:
    void open_queue(bool wait_fd);
    void open_endpoint();
    /// Gives its descriptor.
    void* register_memory(std::span<std::byte> memory, std::uint64_t access, fabric::Fid<fid_mr>& region);
    void open_messages();
    void post_receive(std::size_t index);
    [[noreturn]] void fail();

    std::string name_;
    fabric::InfoPtr info_;
    bool direct_rma_ = false;
    RawNotice notice_;
    std::uint64_t message_flags_;  ///< as the plugin asks for, which tells its caller of what has arrived
    std::uint64_t write_flags_ = FI_DELIVERY_COMPLETE;
    std::size_t depth_ = 0;
    std::size_t outstanding_ = 0;
    fabric::Fid<fid_fabric> fabric_;
    fabric::Fid<fid_domain> domain_;
    fabric::Fid<fid_eq> events_;
    fabric::Fid<fid_cq> queue_;
    fabric::Fid<fid_av> addresses_;
    fabric::Fid<fid_mr> region_;
    struct Received {
        fi_context2 context;  // first: a completion's op_context is its address
        std::array<std::byte, message_size> bytes;
    };
    static constexpr std::size_t receives = 64;
    std::vector<Received> received_;  ///< the last one's bytes are those that are sent
    fabric::Fid<fid_mr> received_region_;
    void* received_descriptor_ = nullptr;
    fabric::Fid<fid_ep> endpoint_;
    void* descriptor_ = nullptr;
    RawRemote local_;
    RawRemote remote_;
    fi_addr_t peer_ = FI_ADDR_UNSPEC;
};

}  // namespace railyard::bench
