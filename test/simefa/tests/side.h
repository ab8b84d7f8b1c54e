// One side of a connection in the simulated provider's tests: everything opened on one NIC.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace simefa::test {

struct InfoDeleter {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

/// Hints as a client of ours sends them; change and pass on.
InfoPtr make_hints(const std::string& fabric = "");
/// Null: -FI_ENODATA. Other errors fail the test.
InfoPtr get_info(const fi_info* hints, std::uint32_t version = fi_version());

struct SideOptions {
    std::string fabric = "efa-direct";
    unsigned nic = 0;  ///< position in the test's table
    std::size_t queue_size = 0, transmit_size = 0, receive_size = 0;
    bool event_queue = true;
    fi_wait_obj wait = FI_WAIT_FD;
    std::uint64_t bind_flags = 0;  ///< FI_SELECTIVE_COMPLETION
    std::uint32_t version = fi_version();
    bool enable = true;
    bool shm = false;  ///< fabric efa may have it
    std::uint64_t more_caps = 0, more_mode = 0, order = 0;
};

struct Done {
    void* context = nullptr;
    std::uint64_t flags = 0, length = 0, data = 0, tag = 0;
    int error = 0, status = 0;  ///< positive errno and prov_errno; 0: success
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

class Side {
  public:
    explicit Side(const SideOptions& options = {});
    ~Side();
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    void enable();
    [[nodiscard]] std::string name() const;
    fi_addr_t insert(const std::string& peer);
    /// Closed with the side, or by close_region.
    fid_mr* add_region(void* address, std::size_t length, std::uint64_t access = all_access,
                       fi_hmem_iface iface = FI_HMEM_SYSTEM);
    void close_region(fid_mr* region);
    void close_endpoint();

    /// One completion if there is one now.
    std::optional<Done> poll();
    /// Fails the test when nothing comes within `limit_ms`.
    Done wait(int limit_ms = 10'000);
    /// Whether anything comes within `ms`.
    bool quiet_for(int ms);

    /// fi_writemsg / fi_readmsg / fi_sendmsg of one buffer.
    ssize_t write(const void* from, std::size_t length, fid_mr* region, fi_addr_t peer, std::uint64_t remote,
                  std::uint64_t key, std::uint64_t flags = FI_COMPLETION, void* context = nullptr,
                  std::uint64_t data = 0);
    ssize_t read(void* to, std::size_t length, fid_mr* region, fi_addr_t peer, std::uint64_t remote,
                 std::uint64_t key, std::uint64_t flags = FI_COMPLETION, void* context = nullptr);

    static constexpr std::uint64_t all_access =
        FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

    SideOptions options;
    InfoPtr info;
    fid_fabric* fabric = nullptr;
    fid_eq* events = nullptr;
    fid_domain* domain = nullptr;
    fid_av* vector = nullptr;
    fid_cq* queue = nullptr;
    fid_ep* endpoint = nullptr;

  private:
    std::vector<fid_mr*> regions_;
};

/// Two sides in this process that know each other, with a registered buffer each.
struct Pair {
    explicit Pair(const SideOptions& options = {}, std::size_t bytes = 1 << 16);
    Pair(const SideOptions& left_options, const SideOptions& right_options, std::size_t bytes = 1 << 16);

    Side left, right;
    std::vector<std::uint8_t> source, target;
    fid_mr* source_region;
    fid_mr* target_region;
    fi_addr_t to_right, to_left;

    [[nodiscard]] std::uint64_t remote(std::size_t offset = 0) const {
        return reinterpret_cast<std::uint64_t>(target.data()) + offset;
    }
    /// Posts, left to right, from the same offset to the same offset.
    ssize_t write(std::size_t offset, std::size_t length, std::uint64_t flags = FI_COMPLETION,
                  void* context = nullptr) {
        return left.write(source.data() + offset, length, source_region, to_right, remote(offset),
                          fi_mr_key(target_region), flags, context);
    }
    ssize_t read(std::size_t offset, std::size_t length, std::uint64_t flags = FI_COMPLETION,
                 void* context = nullptr) {
        return left.read(source.data() + offset, length, source_region, to_right, remote(offset),
                         fi_mr_key(target_region), flags, context);
    }
    /// Left's completion, while right is driven, too.
    Done wait_left(int limit_ms = 10'000);
};

/// Bytes that tell a wrong place from the right one.
void fill(std::vector<std::uint8_t>& bytes, std::uint32_t seed);

/// A table of NICs as an hwloc file; the test programs' main writes it and points SIMEFA_XML there.
std::string topology_xml(const std::vector<unsigned>& device_ids);
inline constexpr unsigned test_nics = 4;
[[nodiscard]] std::string nic_name(unsigned index);

}  // namespace simefa::test
