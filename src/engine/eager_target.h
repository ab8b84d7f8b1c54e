// Where peers' small WRITEs go, and their small READs come from, that are messages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/recent_table.h"
#include "engine/eager_message.h"
#include "engine/notification.h"
#include "engine/notification_room.h"
#include "engine/recent_messages.h"
#include "engine/request.h"
#include "engine/token_table.h"
#include "manager/registration.h"

namespace railyard {

/// Host memory that takes and gives them. Each message is taken once, however often it is asked for. Any
/// thread.
class EagerTarget {
  public:
    /// Refusals that are remembered: who asks again hears the same. Of others it is looked again whether they
    /// may be taken.
    static constexpr std::size_t most_refusals = 1024;
    /// Bytes, of what READs with a notification were answered and may be asked for again: the notification
    /// has told the application that the memory is its own again. Past it the oldest ones go.
    static constexpr std::size_t most_kept = std::size_t{64} << 20;

    /// `inbox` takes the notifications, and outlives this.
    explicit EagerTarget(NotificationInbox& inbox) : inbox_(inbox) {}
    /// Peers call it by its token from now on.
    void add(const std::shared_ptr<Registration>& region);
    /// Nothing is put there any more when it returns. Of memory that was not added, nothing was.
    void remove(const Registration& region) noexcept;
    /// Puts the data in its place, then the notification, if any, into the inbox, as from that agent and
    /// instance; and says what the answer is. Nothing is touched unless all of it may be. Throws
    /// Error{mismatch} for what is no such message.
    struct Given {
        Answer answer;
        /// It was asked for before, and the answer of then may have been lost. Refused now: or its data is
        /// still on its way.
        bool again = false;
    };
    Given take(const std::string& agent, std::uint64_t nonce, std::string_view bytes);
    /// Of a READ: puts what it asks for in place of what was in `data`, then the notification, if any, into
    /// the inbox. `data` is the answer if the status says ok. Throws Error{mismatch} as well.
    Given give(const std::string& agent, std::uint64_t nonce, std::string_view bytes, std::string& data);

    /// Of what is kept, as most_kept counts it.
    [[nodiscard]] std::size_t kept_bytes() const;

  private:
    struct Refusal {
        std::uint64_t nonce = 0;
        Answer answer;
    };
    using Key = std::pair<std::uint64_t, std::uint64_t>;  // sender's instance, id
    /// Of what is done by a call that throws Error where it refuses.
    template <class Act>
    Given answer(const char* what, const std::string& agent, const Key& key, const Act& act)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// These throw Error.
    bool was_taken(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void put(const std::string& agent, const Key& key, const EagerMessage& message)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void read(const std::string& agent, const Key& key, const EagerRead& message, std::string& data)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void require_registered(const EagerLayout& layout) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void keep(const Key& key, const std::string& data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    NotificationInbox& inbox_;
    mutable Mutex mutex_;
    TokenTable by_token_ ABSL_GUARDED_BY(mutex_);
    RecentMessages taken_ ABSL_GUARDED_BY(mutex_);
    std::deque<Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
    std::uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;  ///< to those that had not been served before
    RecentTable<std::string, Key> kept_ ABSL_GUARDED_BY(mutex_){SIZE_MAX, most_kept};
};

}  // namespace railyard
