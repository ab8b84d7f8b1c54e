// The receiving side of flows.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "flow/grain_board.h"
#include "flow/letters.h"
#include "flow/side.h"
#include "flow/target_info.h"

namespace railyard::flow {

/// What a target knows of an initiator that has opened.
struct SourceReport {
    std::uint32_t id = 0;
    bool connected = false;
    std::string name;
    GrainBoard::Counters counters;
};

/// Any thread. Initiators are answered in the engine's passes, whether or not the application calls.
class Target final : private EngineChore {
  public:
    /// Throws Error, NoFabric.
    explicit Target(const SideConfig& config);
    /// Takes leave of the sources; waits (bounded) for the message to go out.
    ~Target();

    [[nodiscard]] const TargetInfo& info() const noexcept { return info_; }
    /// False in a child of the process that made it: it is not even destroyed there.
    [[nodiscard]] bool own_process() const noexcept { return side_.own_process(); }
    /// Throws Error{not_allowed} there.
    void require_own_process() const { side_.require_own_process(); }
    /// ok or not_ready.
    Outcome try_new_grain(GrainBoard::Arrived& grain);
    /// ok, timeout or interrupted.
    Outcome wait_for_new_grain(GrainBoard::Arrived& grain, std::uint32_t timeout_ms);
    /// Readable while grains wait, or may; until try_new_grain() says not_ready. Throws Error.
    [[nodiscard]] int descriptor() { return side_.descriptor(); }
    [[nodiscard]] std::vector<SourceReport> sources();

  private:
    struct Source {
        std::string name;
        std::uint32_t opening = 0;
        bool connected = false;
        std::uint64_t left = 0;  ///< counts leaves; the lowest went first
        /// Of nothing, and never posted: whom transfers are prepared to the engine looks after.
        Transfer* watch = nullptr;
        std::string connection{};  ///< its connection info, to tell it later that it was set aside
        /// ns; when it was set aside, or last heard since. 0: it is connected, or took its leave itself.
        std::uint64_t heard_at = 0;
        std::uint64_t grains = 0;  ///< announced by then
    };

    bool run() noexcept override;
    /// Now and then, whether or not somebody asks: its number waits from then on.
    void look_for_the_gone() noexcept;
    void look_for_grains() noexcept;
    void wake_another() noexcept;
    void handle(const std::string& sender, const FlowLetter& letter);
    void on_open(const std::string& sender, const FlowLetter& letter);
    std::optional<std::uint32_t> source_for(const std::string& sender) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// Throws std::bad_alloc.
    void answer(const std::string& to, FlowLetter letter);
    void take_leave_of(const Source& source) noexcept;
    void leave_letters(bool any) noexcept;
    void choose_chore_time() noexcept;
    /// The source writes on although it was set aside: it is told so in the next pass. Any thread.
    void tell_later(std::uint32_t id) noexcept;
    void tell_the_set_aside() noexcept;
    void tell(const Source& source) noexcept;
    [[nodiscard]] bool is_set_aside(std::uint32_t id) const noexcept {
        return (set_aside_.load(std::memory_order_relaxed) >> id & 1) != 0;
    }
    /// For so long nobody else may have its number, which is nobody's: it may write on. ns
    std::uint64_t kept_for(std::uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    [[nodiscard]] std::string why_none_is_free() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// `unwatched`: takes what is to be released; nullptr: it is released here, while letters are handled.
    void note_the_gone(std::vector<Transfer*>* unwatched = nullptr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void leave(Source& source, std::vector<Transfer*>* unwatched = nullptr)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void set_aside(Source& source, std::vector<Transfer*>* unwatched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void forget(const std::string& initiator) noexcept;

    GrainBoard board_;
    Side side_;
    TargetInfo info_;
    Mutex mutex_;
    std::array<Source, most_sources> sources_ ABSL_GUARDED_BY(mutex_);
    std::uint64_t leaves_ ABSL_GUARDED_BY(mutex_) = 0;
    /// Set aside, and their numbers given to others since: the latest most_sources of them.
    std::vector<Source> former_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::uint32_t> set_aside_{0};  ///< a bit a source; written with mutex_ only
    /// A bit a source. Pairs with itself: who takes the bits has chosen the chore's time before who adds one.
    std::atomic<std::uint32_t> untold_{0};
    std::atomic<std::uint32_t> looks_{0};  ///< at the rails alone, since the last one at all else
    std::atomic<std::uint64_t> next_look_ns_{0};
    std::atomic<bool> handling_{false};
    std::vector<Notification> letters_;  ///< of who handles
    std::atomic<bool> has_left_{false};  ///< some of them, for want of memory
};

}  // namespace railyard::flow
