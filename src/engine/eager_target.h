// Where peers' small WRITEs go that come in messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/eager_message.h"
#include "engine/notification.h"
#include "engine/recent_messages.h"
#include "engine/request.h"
#include "manager/registration.h"

namespace railyard {

/// Host memory that takes them. Each message is taken once, however often it is asked for. Any thread.
class EagerTarget {
  public:
    /// Refusals that are remembered: who asks again hears the same. Of others it is looked again whether they
    /// may be taken.
    static constexpr std::size_t most_refusals = 1024;

    /// `inbox` takes the notifications, and outlives this.
    explicit EagerTarget(NotificationInbox& inbox) : inbox_(inbox) {}
    /// Peers call it by its token from now on.
    void add(const std::shared_ptr<Registration>& region);
    /// Nothing is put there any more when it returns. Of memory that was not added, nothing was.
    void remove(const Registration& region) noexcept;
    /// Puts the data in its place, then the notification, if any, into the inbox, as from that agent and
    /// instance; and says what the answer is. Nothing is touched unless all of it may be. Throws
    /// Error{mismatch} for what is no such message.
    Answer take(const std::string& agent, std::uint64_t nonce, std::string_view bytes);

  private:
    struct Refusal {
        std::uint64_t nonce = 0;
        Answer answer;
    };
    /// Throws Error.
    void put(const std::string& agent, std::uint64_t nonce, const EagerMessage& message)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    const Registration& memory_of(std::uint64_t token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    NotificationInbox& inbox_;
    Mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<Registration>> by_token_ ABSL_GUARDED_BY(mutex_);
    RecentMessages taken_ ABSL_GUARDED_BY(mutex_);
    std::deque<Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
