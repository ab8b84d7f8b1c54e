// The phases of a group; docs/many_nodes.md has their picture.
#include "group/group_runner.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "common/clock.h"
#include "control.h"
#include "failure.h"
#include "group/group_report.h"
#include "group/mesh.h"
#include "size_list.h"
#include "slice.h"
#include "watchdog.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

constexpr unsigned acts_before_death = 20;  // of --die
constexpr unsigned calls_between_chores = 256;
constexpr std::uint64_t check_interval_ns = 100'000'000;
/// How long to ask why a transfer may have failed: its partner may just be telling.
constexpr auto news_time = 1s;

/// What all processes must have been told alike, as rank 0 labels the results of all with its own; the seed
/// is rank 0's. Which GPU's memory it is may differ, as machines do.
Message workload(const Options& options) {
    Message ops = Message::array();
    for (host::Op op : options.ops)
        ops.push_back(to_string(op));
    return {{"--pattern", to_string(options.group.pattern)},
            {"--op", ops},
            {"--sizes", options.sizes},
            {"--batch", options.batches},
            {"--notify", options.notify},
            {"--seconds", options.seconds},
            {"--iters", options.iterations},
            {"--window", options.window},
            {"--memory", options.memory},
            {"--no-check", !options.check},
            {"--pt", options.progress_thread ? "on" : "off"},
            {"--mem", options.mem.kind()},
            {"--target-mem", options.target_mem.kind()},
            {"--stream", to_string(options.stream)},
            {"--plugin", options.plugin}};
}

/// What the rendezvous told while transfers were outstanding.
struct GroupBroken : Failure {
    using Failure::Failure;
};

/// The mesh as the timed loop drives it: now and then it looks at what others want of this side.
class Driver {
  public:
    Driver(Mesh& mesh, Rendezvous& rendezvous, bool dies)
        : mesh_(mesh), rendezvous_(rendezvous), dies_(dies) {}

    void post(unsigned slot) {
        if (dies_ && ++posts_ == acts_before_death) raise(SIGKILL);
        mesh_.post(slot);
    }

    std::span<const unsigned> harvest() {
        if (++calls_ % calls_between_chores == 0) chores();
        return mesh_.harvest();
    }

  private:
    void chores() {
        mesh_.serve();
        const std::uint64_t now = now_ns();
        if (now - checked_ < check_interval_ns) return;
        checked_ = now;
        try {
            rendezvous_.check();
        } catch (const Failure& failure) {
            throw GroupBroken(failure.what());
        }
    }

    Mesh& mesh_;
    Rendezvous& rendezvous_;
    const bool dies_;
    unsigned posts_ = 0, calls_ = 0;
    std::uint64_t checked_ = 0;
};

class GroupMember {
  public:
    GroupMember(const Options& options, Rendezvous& rendezvous) : options_(options), rendezvous_(rendezvous) {
        if (rendezvous.rank() == 0) report_.emplace(options, rendezvous.members());
    }

    void open(std::uint64_t slice_length) {
        Message own = workload(options_);
        own["seed"] = options_.seed;
        std::vector<Message> all = exchange("options", own, options_.timeout, false);
        seed_ = all.front().at("seed").get<std::uint64_t>();
        for (Message& each : all)
            each.erase("seed");
        require_the_same(all);
        arm_watchdog(2 * options_.timeout + 60s, "opening the plugin");
        mesh_ = std::make_unique<Mesh>(options_, rendezvous_.rank(), slice_length);
        if (report_) report_->set_opened(mesh_->opened());
        mesh_->join(exchange("opened", mesh_->introduction(), 2 * options_.timeout + 60s, false));
        meet("joined");
        arm_watchdog(2 * options_.timeout + 60s, "connecting to the others");
        mesh_->connect();
        meet("connected");
    }

    void measure(const Point& point) {
        point_ = &point;
        result_ = {};
        result_.point = point;
        arm_watchdog(2 * options_.timeout + 60s, "preparing the transfers");
        mesh_->prepare(point);
        if (options_.check) verify("filled", "moved", "verified", "");
        time();
        // What was timed has moved bytes that were there before.
        if (options_.check) verify("filled again", "moved again", "verified again", "after the timed part: ");
        result_.checked = options_.check && result_.wrong.empty();
        mesh_->release();
        wrong_ = wrong_ || !result_.wrong.empty();
        if (report_) report_->add(std::move(result_));
    }

    /// Nothing is under way any more since the last phase. Who ends well says that all have closed well.
    void close() {
        const auto limit = options_.timeout + 30s;
        arm_watchdog(limit, "closing the plugin");
        if (options_.group.die_closing == rendezvous_.rank()) raise(SIGKILL);
        mesh_.reset();
        static_cast<void>(exchange("end", Message::object(), limit, false));
        rendezvous_.leave();
        disarm_watchdog();
    }

    void finish(const std::string& error) {
        if (report_) report_->finish(error);
    }

    [[nodiscard]] bool all_right() const noexcept { return !wrong_; }

  private:
    std::string phase_name(const char* phase) const {
        return point_ ? "point " + std::to_string(point_->index) + " " + phase : phase;
    }

    /// Everybody's value; meanwhile this side is moved for those who are not there yet: all the time where
    /// `busy`, else now and then.
    std::vector<Message> exchange(const char* phase, const Message& value, std::chrono::milliseconds limit,
                                  bool busy) {
        const std::string name = phase_name(phase);
        std::string bytes;
        Message::to_cbor(value, bytes);
        arm_watchdog(limit + 30s, ("phase \"" + name + "\"").c_str());
        auto next = std::async(std::launch::async, [&] { return rendezvous_.exchange(name, bytes, limit); });
        const bool spin = busy && !options_.progress_thread;
        for (unsigned passes = 1; next.wait_for(spin ? 0ms : 1ms) != std::future_status::ready; ++passes) {
            if (doomed_ && passes == acts_before_death) raise(SIGKILL);
            if (mesh_) mesh_->serve();
            if (spin && passes % spins_before_yield == 0) sched_yield();
        }
        std::vector<Message> values;
        for (const std::string& each : next.get())
            values.push_back(Message::from_cbor(each));
        return values;
    }

    /// A barrier.
    void meet(const char* phase) {
        static_cast<void>(exchange(phase, Message::object(), options_.timeout, false));
    }

    static void require_the_same(const std::vector<Message>& all) {
        for (std::size_t rank = 1; rank < all.size(); ++rank) {
            for (const auto& [name, value] : all.front().items()) {
                if (all[rank].value(name, Message()) == value) continue;
                throw Failure("rank " + std::to_string(rank) + " was started with another " + name +
                              " than rank 0 (" + all[rank].value(name, Message()).dump() + " and " +
                              value.dump() + "): start all processes of a group with the same options");
            }
        }
    }

    /// One that has no targets answers for an empty slice.
    SliceResult run(SliceLimits limits) {
        const bool dies = limits.timed && options_.group.die == rendezvous_.rank();
        if (!mesh_->initiates()) {
            doomed_ = dies;
            return {};
        }
        limits.window = point_->layout.window * mesh_->targets();
        limits.iterations *= mesh_->targets();
        limits.timeout = options_.timeout;
        Driver driver(*mesh_, rendezvous_, dies);
        try {
            return SliceLoop<Driver>(driver, limits, describe(*point_)).run();
        } catch (const TransferFailed& failure) {
            throw Failure(describe(*point_) + " with rank " + std::to_string(mesh_->target_of(failure.slot)) +
                          ": " + failure.what() + news());
        } catch (const GroupBroken&) {
            throw;
        } catch (const Failure& failure) {  // a stall
            const auto target = mesh_->oldest_target();
            if (!target) throw;
            throw Failure(std::string(failure.what()) + "; the oldest outstanding one is with rank " +
                          std::to_string(*target));
        }
    }

    /// What the others know of it: "; rank 5 ... has gone".
    std::string news() const {
        const std::uint64_t end =
            now_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(news_time).count());
        while (now_ns() < end) {
            try {
                rendezvous_.check();
            } catch (const std::exception& error) {
                return std::string("; ") + error.what();
            }
            std::this_thread::sleep_for(10ms);
        }
        const std::string doubt = rendezvous_.doubt();
        return doubt.empty() ? "" : "; " + doubt;
    }

    /// Runs one slice here and lets the others do theirs. Afterwards all that was posted has ended
    /// everywhere.
    std::vector<Message> move(const char* phase, const SliceLimits& limits,
                              std::chrono::milliseconds patience) {
        ProcessResult own;
        const SliceResult slice = run(limits);
        own.transfers = slice.transfers;
        own.seconds = slice.seconds;
        own.latency = slice.latency;
        Message value = to_message(own);
        value["posts"] = point_->notify ? mesh_->posts(slice.posts) : Message::object();
        return exchange(phase, value, patience, true);
    }

    /// Looks at what has come, tells the others, and gets ready for the next slice: nobody starts it before.
    void settle(const char* phase, const std::vector<Message>& moved, const std::string& when) {
        arm_watchdog(2 * options_.timeout + 60s, "looking at what has come");
        std::string wrong;
        if (point_->notify) {
            std::vector<Message> posts;
            for (const Message& each : moved)
                posts.push_back(each.at("posts"));
            wrong = mesh_->account(posts, options_.timeout);
        }
        if (wrong.empty() && options_.check) wrong = mesh_->check(*point_, contents_);
        mesh_->expect(*point_, std::nullopt);
        for (const Message& each : exchange(phase, {{"wrong", wrong}}, 2 * options_.timeout + 60s, false)) {
            const auto found = each.at("wrong").get<std::string>();
            if (!found.empty() && result_.wrong.empty()) result_.wrong = when + found;
        }
    }

    /// An untimed pass: each block once, over a destination that holds the inverse. With names for its
    /// phases.
    void verify(const char* filled, const char* moved, const char* verified, const char* when) {
        contents_ = seed_ + passes_++;
        mesh_->fill(*point_, contents_);
        mesh_->expect(*point_, contents_);
        static_cast<void>(exchange(filled, Message::object(), 2 * options_.timeout + 60s, false));
        SliceLimits limits;
        limits.iterations = point_->layout.window;
        settle(verified, move(moved, limits, 2 * options_.timeout + 60s), when);
    }

    void time() {
        if (!options_.check) {
            mesh_->expect(*point_, std::nullopt);
            meet("ready");
        }
        SliceLimits limits;
        limits.iterations = options_.iterations;
        limits.seconds = options_.iterations == 0 ? options_.seconds : 0;
        limits.timed = true;
        const auto time = std::chrono::duration<double>(options_.seconds);
        const auto patience =
            options_.iterations != 0
                ? longest_part
                : std::chrono::duration_cast<std::chrono::milliseconds>(time) + 2 * options_.timeout;
        const std::vector<Message> moved = move("timed", limits, patience);
        settle("settled", moved, "after the timed part: ");
        for (unsigned rank = 0; rank < moved.size(); ++rank) {
            ProcessResult process = process_result(moved[rank], rank);
            if (process.transfers > 0) result_.processes.push_back(std::move(process));
        }
    }

    const Options& options_;
    Rendezvous& rendezvous_;
    std::optional<GroupReport> report_;
    std::unique_ptr<Mesh> mesh_;
    const Point* point_ = nullptr;
    GroupPointResult result_;
    std::uint64_t seed_ = 0;
    std::uint64_t contents_ = 0, passes_ = 0;  ///< what the memory is filled with: each pass has its own
    bool wrong_ = false;
    bool doomed_ = false;  ///< dies as soon as it serves
};

}  // namespace

std::vector<Point> make_group_points(const Options& options) {
    const GroupOptions& group = options.group;
    const unsigned partners = most_partners(group.pattern, group.world);
    const bool here = !group.rendezvous;
    Options shared = options;
    shared.memory = (here ? 2 * options.memory / group.world : options.memory) / partners;
    try {
        return make_points(shared);
    } catch (const std::invalid_argument& error) {
        const std::string whose =
            here ? "twice --memory " + format_size(options.memory) + " is for all processes of this host, and"
                 : "--memory " + format_size(options.memory) + " is for one process, and";
        throw std::invalid_argument(std::string(error.what()) + " (" + whose + " shared among the " +
                                    std::to_string(partners) + " partners of each)");
    }
}

int run_member(const Options& options, const std::vector<Point>& points, Rendezvous& rendezvous) {
    const std::string name = "rank " + std::to_string(rendezvous.rank());
    std::optional<GroupMember> member;
    std::string error;
    try {
        member.emplace(options, rendezvous);
        member->open(std::max<std::uint64_t>(memory_needed(points), 1 << 16));
        for (const Point& point : points)
            member->measure(point);
        member->close();
    } catch (const std::exception& failure) {
        error = failure.what();
        rendezvous.fail(error);
        std::fprintf(stderr, "railyard-bench: %s: %s\n", name.c_str(), error.c_str());
    }
    // What is in flight may keep the plugin from closing at once.
    arm_watchdog(options.timeout + 30s, "reporting, and closing the plugin");
    if (member) member->finish(error);
    const bool right = error.empty() && member->all_right();
    member.reset();
    disarm_watchdog();
    return right ? 0 : 1;
}

}  // namespace railyard::bench
