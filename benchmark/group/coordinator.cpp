#include "group/coordinator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "common/shortage.h"
#include "failure.h"
#include "group/rendezvous.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

constexpr const char* group_magic = "railyard-bench";
constexpr unsigned group_protocol = 3;
constexpr auto hello_limit = 2s;           ///< a process speaks as soon as it has connected
constexpr auto hello_rest = 1s;            ///< of what has begun to come
constexpr std::size_t most_arrivals = 64;  ///< arrivals who keep others waiting, at most
constexpr std::size_t longest_hello = 4096;
constexpr auto drain_limit = 10s;
/// Of values in a message, unless one is longer. What all say together may be longer than a message can be.
constexpr std::size_t most_at_once = std::size_t{16} << 20;

}  // namespace

Message hello_message(unsigned world, std::optional<unsigned> rank) {
    Message hello = {
        {"hello", group_magic}, {"version", group_protocol}, {"world", world}, {"who", own_name()}};
    if (rank) hello["rank"] = *rank;
    return hello;
}

Coordinator::Coordinator(host::Listener listener, unsigned world, std::chrono::milliseconds timeout)
    : listener_(std::move(listener)), world_(world), timeout_(timeout), seats_(most_arrivals) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw Failure(std::string("cannot create a socket pair: ") + std::strerror(errno));
    own_.emplace(host::Channel(ends[0]));
    members_.push_back(std::make_unique<Member>(Control(host::Channel(ends[1])), own_name(), 0));
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        throw Failure(std::string("cannot start a thread: ") + error.what() +
                      "; raise the limit of threads (`ulimit -u`, pids of the container)");
    }
}

Coordinator::~Coordinator() {
    own_.reset();
    thread_.join();
}

Control Coordinator::own_channel() {
    Control control = std::move(*own_);
    own_.reset();
    return control;
}

void Coordinator::run() {
    try {
        if (gather()) {
            start();
            serve();
        }
        drain();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "railyard-bench: coordinator: %s\n", error.what());
    }
    members_.clear();
}

bool Coordinator::gather() {
    const auto deadline = Clock::now() + timeout_;
    while (members_.size() < world_) {
        if (!wait(true, deadline)) {
            break_group(missing_text(missing(), world_, "arrived", timeout_));
            return false;
        }
        for (Member* member : ready_)
            drop_early(*member);
        if (!members_.front()->open) return false;
        std::erase_if(members_, [](const auto& member) { return !member->open; });
        look_at_arrivals(deadline);
        if (full_ && members_.size() < world_) {
            break_group("no room for more than " + std::to_string(members_.size()) + " of " +
                        std::to_string(world_) + " processes at rank 0, which has a connection to each" +
                        shortage(", or have fewer processes"));
            return false;
        }
    }
    return true;
}

/// Those that have not arrived; who asked for no rank counts as the first that is free.
std::vector<unsigned> Coordinator::missing() const {
    std::vector<bool> there(world_);
    unsigned free = 0;
    for (const auto& member : members_)
        if (member->rank) there[*member->rank] = true;
    for (const auto& member : members_) {
        if (member->rank) continue;
        while (there[free])
            ++free;
        there[free] = true;
    }
    return ranks_without(there);
}

/// One that says something, or nothing more, before the group has started is as if it had not come.
void Coordinator::drop_early(Member& member) {
    member.open = false;
}

/// Takes in who says that it belongs here, and turns away who says something else, or nothing.
void Coordinator::look_at_arrivals(Clock::time_point until) {
    for (auto arrival = arrivals_.begin(); arrival != arrivals_.end();) {
        if (!arrival->ready && Clock::now() < arrival->leaves) {
            ++arrival;
            continue;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        try {
            if (!arrival->ready) throw Failure("it says nothing");
            admit(std::move(arrival->control), std::clamp<std::chrono::milliseconds>(left, 1ms, hello_rest));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "railyard-bench: turned a connection away: %s\n", error.what());
        }
        arrival = arrivals_.erase(arrival);
        seats_ = most_arrivals;
    }
    if (arrival_) accept();
}

/// Where no descriptor is left for it, it is still there, and would be at each next look: those that have
/// arrived before are heard first, as one that is turned away gives its own back.
void Coordinator::accept() {
    try {
        arrivals_.push_back({Control(listener_.accept(0ms)), Clock::now() + hello_limit, false});
    } catch (const std::exception& error) {
        if (shortage().empty()) {
            std::fprintf(stderr, "railyard-bench: turned a connection away: %s\n", error.what());
        } else if (arrivals_.empty()) {
            full_ = true;
        } else {
            seats_ = arrivals_.size();
        }
    }
}

void Coordinator::admit(Control control, std::chrono::milliseconds limit) {
    const Message hello = control.receive(limit, longest_hello);
    const std::string why = refusal(hello);
    if (!why.empty()) {
        control.send({{"error", why}});
        throw Failure(why);
    }
    std::optional<unsigned> rank;
    if (hello.contains("rank")) rank = hello.at("rank").get<unsigned>();
    members_.push_back(std::make_unique<Member>(std::move(control),
                                                hello.at("who").get<std::string>().substr(0, 300), rank));
}

std::string Coordinator::refusal(const Message& hello) const {
    if (hello.value("hello", "") != group_magic) return "this is no railyard-bench";
    if (hello.value("version", 0u) != group_protocol) return "another version of railyard-bench";
    if (members_.size() == world_) return "all " + std::to_string(world_) + " processes are there already";
    const auto world = hello.value("world", 0u);
    if (world != world_) {
        return "this group has " + std::to_string(world_) + " processes, and --world says " +
               std::to_string(world);
    }
    if (!hello.contains("rank")) return "";
    const auto rank = hello.at("rank").get<unsigned>();
    if (rank >= world_) return "no rank " + std::to_string(rank);
    for (const auto& member : members_) {
        if (member->rank == rank) return "rank " + std::to_string(rank) + " is taken by " + member->who;
    }
    return "";
}

/// Ranks that nobody asked for go to the others in the order of their arrival.
void Coordinator::start() {
    std::vector<bool> taken(world_);
    for (const auto& member : members_)
        if (member->rank) taken[*member->rank] = true;
    const std::vector<unsigned> free = ranks_without(taken);
    auto next = free.begin();
    for (auto& member : members_)
        if (!member->rank) member->rank = *next++;
    std::sort(members_.begin(), members_.end(),
              [](const auto& a, const auto& b) { return *a->rank < *b->rank; });
    Message who = Message::array();
    for (const auto& member : members_)
        who.push_back(member->who);
    for (const auto& member : members_)
        send(*member, {{"rank", *member->rank}, {"members", who}});
}

void Coordinator::serve() {
    const auto open = [](const auto& member) { return member->open; };
    while (!broken_ && std::any_of(members_.begin(), members_.end(), open)) {
        const auto until = std::min(deadline_, leave_by_);
        if (!wait(true, until)) {
            if (until == leave_by_) return wait_no_longer();
            std::vector<bool> there(world_);
            for (const auto& [rank, value] : values_)
                there[rank] = true;
            return break_group(
                missing_text(ranks_without(there), world_, "reached \"" + phase_ + "\"", limit_));
        }
        for (Member* member : ready_) {
            if (!broken_) take(*member);
        }
        look_at_arrivals(until);
    }
}

/// For those that have not left, though they have been told of the end, as rank 0 has: they stand still.
void Coordinator::wait_no_longer() {
    std::vector<bool> there(world_);
    for (const auto& member : members_) {
        there[*member->rank] = !member->open;
        member->open = false;
    }
    std::fprintf(stderr, "railyard-bench: coordinator: %s\n",
                 missing_text(ranks_without(there), world_, "left", timeout_).c_str());
}

void Coordinator::take(Member& member) {
    const std::string name = "rank " + std::to_string(*member.rank) + " (" + member.who + ")";
    member.control.call_other(name);
    Message message;
    try {
        message = member.control.receive(hello_limit);
    } catch (const PeerGone&) {
        member.open = false;
        return break_group(name + " has gone");
    } catch (const PeerSilent&) {
        member.open = false;
        return break_group(name + " stands still in the middle of a message");
    } catch (const Failure& failure) {
        member.open = false;
        return break_group(failure.what());
    }
    if (message.contains("leave")) {
        member.open = false;
        if (*member.rank == 0) leave_by_ = Clock::now() + timeout_;
    } else if (message.contains("fail")) {
        member.open = false;
        break_group(name + " failed: " + message.at("fail").get<std::string>());
    } else {
        take_value(member, message);
    }
}

void Coordinator::take_value(Member& member, const Message& message) {
    const auto phase = message.at("phase").get<std::string>();
    if (values_.empty()) {
        phase_ = phase;
        deadline_ = Clock::time_point::max();
    }
    if (phase != phase_) {
        return break_group("rank " + std::to_string(*member.rank) + " is at \"" + phase + "\", others at \"" +
                           phase_ + "\"; do all run the same railyard-bench with the same options?");
    }
    const std::chrono::milliseconds limit(message.at("limit_ms").get<std::int64_t>());
    if (Clock::now() + limit < deadline_) {
        deadline_ = Clock::now() + limit;
        limit_ = limit;
    }
    values_[*member.rank] = message.at("value");
    if (values_.size() < world_) return;
    tell_values();
    values_.clear();
    deadline_ = Clock::time_point::max();
}

void Coordinator::tell_values() {
    Message part = {{"values", Message::array()}, {"more", true}};
    const auto tell = [&] {
        for (const auto& each : members_)
            send(*each, part);
    };
    std::size_t size = 0;
    for (auto& [rank, value] : values_) {
        const std::size_t length = value.get_binary().size();
        if (size != 0 && size + length > most_at_once) {
            tell();
            part["values"].clear();
            size = 0;
        }
        size += length;
        part["values"].push_back(std::move(value));
    }
    part["more"] = false;
    tell();
}

void Coordinator::break_group(const std::string& reason) {
    broken_ = true;
    for (const auto& member : members_)
        send(*member, {{"error", reason}});
}

/// Closing a socket with something unread in it would take what was sent last from the other side.
void Coordinator::drain() {
    const auto deadline = Clock::now() + drain_limit;
    const auto open = [](const auto& member) { return member->open; };
    while (std::any_of(members_.begin(), members_.end(), open) && wait(false, deadline)) {
        for (Member* member : ready_) {
            try {
                static_cast<void>(member->control.receive(hello_limit));
            } catch (const Failure&) {
                member->open = false;
            }
        }
    }
}

/// Until a member or, with `arrivals`, somebody else is to be looked at; false where the time is over before.
bool Coordinator::wait(bool arrivals, Clock::time_point until) {
    std::vector<pollfd> entries;
    std::vector<Member*> waited;
    for (const auto& member : members_) {
        if (!member->open) continue;
        entries.push_back({member->control.descriptor(), POLLIN, 0});
        waited.push_back(member.get());
    }
    Clock::time_point next = until;
    for (const Arrival& arrival : arrivals_) {
        if (!arrivals) break;
        entries.push_back({arrival.control.descriptor(), POLLIN, 0});
        next = std::min(next, arrival.leaves);
    }
    const bool listen = arrivals && !full_ && arrivals_.size() < seats_;
    if (listen) entries.push_back({listener_.descriptor(), POLLIN, 0});
    ready_.clear();
    arrival_ = false;
    for (bool any = false;;) {
        const auto left = std::clamp<std::chrono::milliseconds>(
            next == Clock::time_point::max()
                ? 1h
                : std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()),
            0ms, 1h);
        if (poll(entries.data(), entries.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
            throw Failure(std::string("poll: ") + std::strerror(errno));
        auto entry = entries.begin();
        for (Member* member : waited)
            if ((entry++)->revents != 0) ready_.push_back(member);
        for (Arrival& arrival : arrivals_) {
            if (!arrivals) break;
            arrival.ready = (entry++)->revents != 0;
            any = any || arrival.ready;
        }
        arrival_ = listen && entry->revents != 0;
        if (any || arrival_ || !ready_.empty()) return true;
        if (Clock::now() >= until) return false;
        if (Clock::now() >= next) return true;  // somebody has been silent for long enough
    }
}

std::vector<unsigned> Coordinator::ranks_without(const std::vector<bool>& there) const {
    std::vector<unsigned> ranks;
    for (unsigned rank = 0; rank < world_; ++rank)
        if (!there[rank]) ranks.push_back(rank);
    return ranks;
}

/// One that takes nothing has gone, which its connection tells when it is next looked at.
void Coordinator::send(Member& member, const Message& message) {
    if (!member.open || member.deaf) return;
    try {
        member.control.send(message);
    } catch (const Failure&) {
        member.deaf = true;
    }
}

}  // namespace railyard::bench
