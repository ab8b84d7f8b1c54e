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
constexpr unsigned group_protocol = 1;
constexpr auto hello_limit = 2s;  ///< for what a process says as soon as it has connected
constexpr auto drain_limit = 10s;

}  // namespace

Message hello_message(unsigned world, std::optional<unsigned> rank) {
    Message hello = {
        {"hello", group_magic}, {"version", group_protocol}, {"world", world}, {"who", own_name()}};
    if (rank) hello["rank"] = *rank;
    return hello;
}

Coordinator::Coordinator(host::Listener listener, unsigned world, std::chrono::milliseconds timeout)
    : listener_(std::move(listener)), world_(world), timeout_(timeout) {
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
            break_group(missing_text(ranks_without(there), world_, "arrived", timeout_));
            return false;
        }
        for (Member* member : ready_)
            drop_early(*member);
        if (!members_.front()->open) return false;
        std::erase_if(members_, [](const auto& member) { return !member->open; });
        if (arrival_) look_at_arrival(deadline);
        if (full_) {
            break_group("no room for more than " + std::to_string(members_.size()) + " of " +
                        std::to_string(world_) + " processes at rank 0, which has a connection to each" +
                        shortage(", or have fewer processes"));
            return false;
        }
    }
    return true;
}

/// One that says something, or nothing more, before the group has started is as if it had not come.
void Coordinator::drop_early(Member& member) {
    member.open = false;
}

/// Takes it in or turns it away.
void Coordinator::look_at_arrival(Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    try {
        admit(Control(listener_.accept(0ms)), std::clamp<std::chrono::milliseconds>(left, 1ms, hello_limit));
    } catch (const std::exception& error) {
        full_ = !shortage().empty();  // it is still there, and would be at each next look
        if (full_ && members_.size() < world_) return;
        std::fprintf(stderr, "railyard-bench: turned a connection away: %s\n", error.what());
    }
}

void Coordinator::admit(Control control, std::chrono::milliseconds limit) {
    const Message hello = control.receive(limit);
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
        if (!wait(!full_, deadline_)) {
            std::vector<bool> there(world_);
            for (const auto& [rank, value] : values_)
                there[rank] = true;
            return break_group(
                missing_text(ranks_without(there), world_, "reached \"" + phase_ + "\"", limit_));
        }
        for (Member* member : ready_) {
            if (!broken_) take(*member);
        }
        if (arrival_) look_at_arrival(deadline_);
    }
}

void Coordinator::take(Member& member) {
    const std::string name = "rank " + std::to_string(*member.rank) + " (" + member.who + ")";
    Message message;
    try {
        message = member.control.receive(hello_limit);
    } catch (const Failure&) {
        member.open = false;
        return break_group(name + " has gone");
    }
    if (message.contains("leave")) {
        member.open = false;
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
    Message all = {{"values", Message::array()}};
    for (auto& [rank, value] : values_)
        all["values"].push_back(std::move(value));
    values_.clear();
    deadline_ = Clock::time_point::max();
    for (const auto& each : members_)
        send(*each, all);
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

bool Coordinator::wait(bool listen, Clock::time_point until) {
    std::vector<pollfd> entries;
    std::vector<Member*> waited;
    for (const auto& member : members_) {
        if (!member->open) continue;
        entries.push_back({member->control.descriptor(), POLLIN, 0});
        waited.push_back(member.get());
    }
    if (listen) entries.push_back({listener_.descriptor(), POLLIN, 0});
    ready_.clear();
    arrival_ = false;
    while (ready_.empty() && !arrival_) {
        const auto left = std::clamp<std::chrono::milliseconds>(
            until == Clock::time_point::max()
                ? 1h
                : std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()),
            0ms, 1h);
        if (poll(entries.data(), entries.size(), static_cast<int>(left.count())) < 0 && errno != EINTR)
            throw Failure(std::string("poll: ") + std::strerror(errno));
        for (std::size_t i = 0; i < waited.size(); ++i)
            if (entries[i].revents != 0) ready_.push_back(waited[i]);
        arrival_ = listen && entries.back().revents != 0;
        if (ready_.empty() && Clock::now() >= until) return false;
    }
    return true;
}

std::vector<unsigned> Coordinator::ranks_without(const std::vector<bool>& there) const {
    std::vector<unsigned> ranks;
    for (unsigned rank = 0; rank < world_; ++rank)
        if (!there[rank]) ranks.push_back(rank);
    return ranks;
}

/// One that takes nothing has gone, which its connection tells when it is next looked at.
void Coordinator::send(Member& member, const Message& message) {
    if (!member.open) return;
    try {
        member.control.send(message);
    } catch (const Failure&) {
    }
}

}  // namespace railyard::bench
