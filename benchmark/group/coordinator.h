// The meeting place over plain sockets: takes the processes of a group in, and passes on what each says.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "host/metadata_exchange.h"

namespace railyard::bench {

/// The first word of a process that arrives.
[[nodiscard]] Message hello_message(unsigned world, std::optional<unsigned> rank);

/// A thread in the process of rank 0, which talks to it as all others do. Whoever connects and is no process
/// of this group is turned away, with a reason; the group does not notice, nor does it wait for one that says
/// nothing. Where there is no file descriptor
/// left for a process of the group it breaks. A connection that closes before
/// its process has left breaks the group, and all are told whose it was.
class Coordinator {
  public:
    /// Throws Failure.
    Coordinator(host::Listener listener, unsigned world, std::chrono::milliseconds timeout);
    /// Waits until all others have heard the last and closed their connections: within some seconds, or
    /// `timeout` where rank 0 has left, as the others are to leave then, too.
    ~Coordinator();
    Coordinator(const Coordinator&) = delete;
    Coordinator& operator=(const Coordinator&) = delete;

    /// The connection of rank 0. Once.
    [[nodiscard]] Control own_channel();

  private:
    struct Member {
        Member(Control control_, std::string who_, std::optional<unsigned> rank_)
            : control(std::move(control_)), who(std::move(who_)), rank(rank_) {}
        Control control;
        std::string who;
        std::optional<unsigned> rank;
        bool open = true;
        bool deaf = false;  ///< it took a message in part, if at all: it could make nothing of another
    };
    using Clock = std::chrono::steady_clock;
    /// Who has connected and not yet said who it is.
    struct Arrival {
        Control control;
        Clock::time_point leaves;  ///< unless it says something
        bool ready;                ///< of the last wait
    };

    void run();
    [[nodiscard]] bool gather();
    void admit(Control control, std::chrono::milliseconds limit);
    [[nodiscard]] std::string refusal(const Message& hello) const;
    void drop_early(Member& member);
    void start();
    void serve();
    void look_at_arrivals(Clock::time_point until);
    void accept();
    void take(Member& member);
    void take_value(Member& member, const Message& message);
    void tell_values();
    void break_group(const std::string& reason);
    void wait_no_longer();
    void drain();
    [[nodiscard]] bool wait(bool arrivals, Clock::time_point until);
    [[nodiscard]] std::vector<unsigned> missing() const;
    [[nodiscard]] std::vector<unsigned> ranks_without(const std::vector<bool>& there) const;
    void send(Member& member, const Message& message);

    host::Listener listener_;
    const unsigned world_;
    const std::chrono::milliseconds timeout_;
    std::optional<Control> own_;
    std::vector<std::unique_ptr<Member>> members_;  ///< by rank once the group has started
    std::vector<Member*> ready_;                    ///< of the last wait
    std::list<Arrival> arrivals_;
    std::size_t seats_;     ///< of arrivals at a time, just now
    bool arrival_ = false;  ///< of the last wait: somebody is there to be accepted
    bool full_ = false;     ///< nobody more can be looked at
    bool broken_ = false;

    std::string phase_;
    std::map<unsigned, Message> values_;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point leave_by_ = Clock::time_point::max();  ///< once rank 0 has left
    std::chrono::milliseconds limit_{0};
    std::thread thread_;
};

}  // namespace railyard::bench
