// What a process holds out to the others of its host: who it is, and which of its memory they may touch.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "common/boot_id.h"
#include "common/mutex.h"

namespace railyard {

/// What the memory of a process must hold at the place that its card's address names, before anything else of
/// it is touched. As it lies in memory.
struct CardFace {
    static constexpr std::uint64_t right_magic = 0x31647261'63647952;  // "Rydcard1"
    std::uint64_t magic = right_magic;
    std::array<std::uint8_t, 16> secret{};  ///< random
    bool operator==(const CardFace&) const = default;
};

/// Behind the face lies a table of words, one for each registration. A word is its index (the low bits) with
/// random bits above: another one for each registration there is, and never 0; who registers a range again
/// may have its word again.
inline constexpr std::uint64_t card_words = std::uint64_t{1} << 18;
inline constexpr std::size_t card_table_offset = 64;
inline constexpr std::size_t card_size = card_table_offset + card_words * sizeof(std::uint64_t);

/// Where a process holds out its card, as it travels in connection info.
struct CardAddress {
    BootId boot{};
    std::int32_t pid = 0;  ///< above 0
    std::int32_t descriptor = 0;
    std::uint64_t card = 0;  ///< where it is mapped there
    std::array<std::uint8_t, 16> secret{};
};
[[nodiscard]] std::string encode(const CardAddress& address);
/// Throws Error{mismatch} for what is none. Nothing is looked at but the bytes.
[[nodiscard]] CardAddress decode_card_address(std::string_view bytes);

/// Ours, in memory that peers map: they see at once that a word has changed. Any thread.
class HostCard {
  public:
    /// Throws Error{backend}.
    HostCard();
    ~HostCard();
    HostCard(const HostCard&) = delete;
    HostCard& operator=(const HostCard&) = delete;

    /// What HostProcess is made of.
    [[nodiscard]] const std::string& address() const noexcept { return address_; }
    /// A word for memory that peers may touch from now on; 0: as many as there may be are out. `before`: a
    /// word that was revoked, which it is once more where its place has not been given away. Throws
    /// std::bad_alloc and Error{backend}.
    [[nodiscard]] std::uint64_t issue(std::uint64_t before = 0);
    /// The memory is no more to be touched. Its place is not given away before so many others.
    static constexpr std::size_t kept_places = 4096;
    void revoke(std::uint64_t word) noexcept;

  private:
    using Indices = std::list<std::uint32_t>;
    [[nodiscard]] std::uint64_t& place(std::uint64_t word) const noexcept;
    [[nodiscard]] static std::uint64_t index_of(std::uint64_t word) noexcept {
        return word & (card_words - 1);
    }
    /// Of a free place; throws std::bad_alloc.
    [[nodiscard]] Indices::iterator free_place() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    int fd_ = -1;
    void* memory_ = nullptr;
    std::string address_;
    Mutex mutex_;
    Indices taken_ ABSL_GUARDED_BY(mutex_);
    Indices free_ ABSL_GUARDED_BY(mutex_);  ///< the one that was revoked first in front
    std::vector<Indices::iterator> places_ ABSL_GUARDED_BY(mutex_);  ///< those that were ever taken
};

/// A process of this host, as a card's address names it. Any thread.
class HostProcess {
  public:
    /// Throws Error{mismatch} for what is no address, Error{not_supported} saying why where the process is
    /// of another host, is another one, or another user's, Error{backend} for want of descriptors or memory,
    /// which may pass.
    explicit HostProcess(std::string_view card_address);
    ~HostProcess();
    HostProcess(const HostProcess&) = delete;
    HostProcess& operator=(const HostProcess&) = delete;

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// It is our own: another engine's card.
    [[nodiscard]] bool is_own() const noexcept { return own_; }
    /// process_vm_readv and process_vm_writev are allowed. Where they are not, as with
    /// kernel.yama.ptrace_scope or a seccomp filter, its card is mapped all the same.
    [[nodiscard]] bool may_copy() const noexcept { return may_copy_; }
    /// The memory that it gave the word out for may be touched.
    [[nodiscard]] bool vouches_for(std::uint64_t word) const noexcept;
    /// 0: the process of that number is still the one that was met; else why not: ESTALE for another one,
    /// ESRCH where it has ended, ENOLINK where it lives and is not reached: its main thread has ended, or it
    /// is about to.
    [[nodiscard]] int look() const noexcept;
    /// The same, once in a tick of the coarse clock (at most 10 ms): a number does not come round so fast.
    [[nodiscard]] int look_now_and_then() noexcept;

  private:
    void refuse_for_want(int error) const;
    /// Throws Error{not_supported}, Error{backend}.
    void map();
    void give_back() noexcept;
    [[nodiscard]] int look_by_memory() const noexcept;
    [[nodiscard]] int look_by_card() const noexcept;
    [[nodiscard]] int out_of_reach() const noexcept;
    [[nodiscard]] bool has_ended() const noexcept;

    pid_t pid_ = 0;
    bool own_ = false;
    bool may_copy_ = true;
    int handle_ = -1;   ///< of the process (pidfd); -1: the kernel has none
    std::string file_;  ///< the card's, in /proc
    std::uint64_t inode_ = 0;
    std::uint64_t card_ = 0;  ///< address there
    CardFace face_;
    const void* memory_ = nullptr;             ///< the card
    std::atomic<std::uint64_t> looked_at_{0};  ///< ns; coarse
};

}  // namespace railyard
