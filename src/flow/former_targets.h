// Targets that an initiator has given up because nothing was heard of them. One that was only stopped, or cut
// off, takes itself for connected when it is back, and is told then.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/engine.h"
#include "flow/letters.h"

namespace railyard::flow {

struct FormerTarget {
    std::string id;
    std::uint32_t opening = 0;
    std::string connection;        ///< its connection info
    Transfer* watch = nullptr;     ///< the engine looks after it still; nullptr: it has been told
    std::uint64_t since_ns = 0;    ///< it is a former one
    std::uint64_t told_at_ns = 0;  ///< 0: it is still to be told
};

/// Any thread.
class FormerTargets {
  public:
    /// That are looked for: the latest.
    static constexpr std::size_t most = 16;

    explicit FormerTargets(Engine& engine) noexcept : engine_(engine) {}

    /// What was under way to them has been released, but for the watch.
    void add(std::list<FormerTarget> given_up) noexcept;
    /// It is about to be added again, and to be told of that instead.
    void forget(const std::string& id) noexcept;
    /// Tells those that answer. Often: it looks now and then.
    void look() noexcept;
    /// That may be the answer to the opening in which it was given up.
    void on_letter(const std::string& sender, const FlowLetter& letter);

  private:
    void look_at(FormerTarget& former, std::uint64_t now);
    [[nodiscard]] bool is_suspect(std::string_view id) const;
    void tell(const FormerTarget& former);
    /// The engine need not look after it any more: the watch, which is to be released without the mutex.
    [[nodiscard]] Transfer* let_go(FormerTarget& former) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    Engine& engine_;
    Mutex mutex_;
    std::list<FormerTarget> all_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> watched_{0};  ///< of them; written with the mutex
    std::atomic<std::uint64_t> next_look_ns_{0};
    std::atomic<bool> looking_{false};
};

}  // namespace railyard::flow
