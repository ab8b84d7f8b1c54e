// The process of this host behind a shm endpoint: nobody tells when it ends.
#pragma once

#include <cstdint>
#include <string_view>

namespace railyard::fabric {

/// The name of the shared memory of the endpoint with that address; empty where it is none of shm.
[[nodiscard]] std::string_view shared_memory_of(std::string_view address) noexcept;

/// The process that a shm endpoint's address names ("fi_shm://PID-..." as ours are called, "fi_shm://PID:..."
/// of others), in its own PID namespace; 0 for anything else.
[[nodiscard]] int process_of(std::string_view address) noexcept;

/// What is seen here of the process that the address of a shm endpoint names.
enum class Seen : std::uint8_t {
    here,       ///< it has the endpoint's memory mapped
    elsewhere,  ///< the number is nobody's, or another one's: that of another PID namespace, or it has ended
    unknown,    ///< we may not look
};
/// Throws std::system_error where we are short of what it takes to look, std::bad_alloc.
[[nodiscard]] Seen process_behind(std::string_view address);

/// Sees a process end, zombies included. Any thread, but for look().
class PeerProcess {
  public:
    /// Sees nothing where the address names no process, our own, or one that does not have the endpoint's
    /// memory mapped as far as we may look: then the number is of another PID namespace.
    explicit PeerProcess(std::string_view address) noexcept { look(address); }
    ~PeerProcess();
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;

    /// Once more, where put_off() says so; the address is the same. While nobody else calls.
    void look(std::string_view address) noexcept;
    /// We were short of descriptors or memory, which passes.
    [[nodiscard]] bool put_off() const noexcept { return put_off_; }

    [[nodiscard]] bool watched() const noexcept { return pidfd_ >= 0; }
    /// Readable when the process has ended; -1 where it is not watched.
    [[nodiscard]] int descriptor() const noexcept { return pidfd_; }
    /// The address is of an endpoint of the process that asked.
    [[nodiscard]] bool is_ours() const noexcept { return ours_; }
    /// It was there, and is no more.
    [[nodiscard]] bool ended() const noexcept;

  private:
    int pidfd_ = -1;
    bool ours_ = false;
    bool put_off_ = false;
};

}  // namespace railyard::fabric
