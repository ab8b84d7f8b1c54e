// Request by request, what the target does.
#include "target.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>

#include "agent_side.h"
#include "common/clock.h"
#include "failure.h"
#include "raw_fabric.h"
#include "side_memory.h"
#include "size_list.h"
#include "slice.h"
#include "target_notifications.h"
#include "watchdog.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

/// Longest silence of an initiator that has not said how long its own may be; a dead one closes the
/// connection long before, and of a machine that is gone TCP tells.
constexpr std::chrono::milliseconds first_silence = 1h;
constexpr auto nap = 1ms;
constexpr unsigned protocol_version = 2;

Layout layout_of(const Message& message) {
    return {message.at("size").get<std::uint64_t>(), message.at("batch").get<unsigned>(),
            message.at("window").get<unsigned>()};
}

class Target {
  public:
    Target(const Options& options, Control control) : options_(options), control_(std::move(control)) {}

    void run() {
        while (true) {
            Message command = control_.receive(silence_);
            const std::string what = command.at("do").get<std::string>();
            arm_watchdog(what == "serve" ? silence_ + 60s : 2 * options_.timeout + 60s,
                         ("target: " + what).c_str());
            if (what == "end") return control_.send({{"ok", true}});
            answer(what, command);
            disarm_watchdog();
        }
    }

  private:
    /// Whatever goes wrong is the initiator's to report.
    void answer(const std::string& what, const Message& command) {
        Message reply;
        try {
            reply = handle(what, command);
        } catch (const std::exception& error) {
            reply = {{"error", error.what()}};
        }
        control_.send(reply);
    }

    Message handle(const std::string& what, const Message& command) {
        if (what == "open") return open(command);
        if (what == "join") return join(command);
        if (what == "fill") return fill(command);
        if (what == "serve") return serve(command);
        if (what == "check") return check(command);
        if (what == "usage") return {{"cpu_ns", process_cpu_ns()}};
        throw Failure("unknown request '" + what + "'; do both sides run the same railyard-bench?");
    }

    Message open(const Message& command) {
        if (command.at("version") != protocol_version)
            throw Failure("the initiator speaks another version of the protocol");
        auto memory = command.at("memory").get<std::uint64_t>();
        if (memory > options_.memory + (std::uint64_t{1} << 20)) {
            throw Failure("the initiator asks for " + format_size(memory) +
                          " of memory, more than --memory " + format_size(options_.memory) + " here");
        }
        silence_ = std::clamp(std::chrono::milliseconds(command.value("silence_ms", first_silence.count())),
                              std::chrono::milliseconds(1), longest_part);
        Options options = options_;
        options.progress_thread = command.at("pt").get<bool>();
        options.stream = StreamMode::off;  // streams are the initiator's
        poll_ = command.at("poll").get<bool>();
        stall_ = command.at("stall").get<bool>();
        raw_.reset();
        ours_.reset();
        const Place place{command.at("vram").get<bool>(), command.at("gpu").get<unsigned>()};
        memory_.emplace(place, memory);
        Message reply = {{"base", memory_->range().address}};
        if (command.at("plugin").get<bool>()) {
            ours_ = std::make_unique<AgentSide>(options, "target", memory_->range());
            const std::string metadata = ours_->metadata();
            reply["metadata"] = Message::binary({metadata.begin(), metadata.end()});
        }
        if (command.at("raw").get<bool>()) {
            raw_ = std::make_unique<RawFabric>(fabric_choice(options.params), options.progress_thread,
                                               memory_->host_bytes());
            reply["raw"] = raw_->address();
        }
        return reply;
    }

    Message join(const Message& command) {
        if (ours_) {
            const auto& metadata = command.at("metadata").get_binary();
            ours_->join({reinterpret_cast<const char*>(metadata.data()), metadata.size()},
                        {command.at("base").get<std::uint64_t>(), memory_->length(),
                         command.at("device").get<std::uint64_t>()});
        }
        if (raw_) raw_->connect(command.at("raw"));
        return {{"ok", true}};
    }

    Layout checked_layout(const Message& command) const {
        const Layout layout = layout_of(command);
        if (!memory_ || !layout.fits(memory_->length())) throw Failure("a layout outside the memory");
        return layout;
    }

    Message fill(const Message& command) {
        const Layout layout = checked_layout(command);
        seed_ = command.at("seed").get<std::uint64_t>();
        if (command.at("as") == "source") {
            memory_->fill_source(layout, seed_);
        } else {
            memory_->scrub_destination(layout, seed_);
        }
        return {{"ok", true}};
    }

    Message check(const Message& command) {
        const Layout layout = checked_layout(command);
        if (auto wrong = memory_->check_destination(layout, seed_, options_.corrupt))
            return {{"wrong", *wrong}};
        return {{"ok", true}};
    }

    /// Answers at once, moves the side asked for until the next request has come, which says how many
    /// notifications there must be, and waits for these. The reader thread has the control channel meanwhile.
    Message serve(const Message& command) {
        layout_ = checked_layout(command);
        check_on_arrival_ = command.at("check_on_arrival").get<bool>();
        arrival_wrong_.reset();
        if (ours_) account_.begin(ours_->peer(), command.at("point").get<unsigned>(), layout_.window);
        control_.send({{"ok", true}});
        auto next = std::async(std::launch::async, [this] { return receive_while_serving(); });
        const bool idle = stall_ && command.at("timed").get<bool>();
        const bool raw = command.at("side") == "raw";
        const bool spin = !idle && (raw || poll_);
        for (unsigned passes = 1; next.wait_for(spin ? 0ms : nap) != std::future_status::ready; ++passes) {
            if (idle) continue;
            if (raw) {
                raw_->serve();
            } else {
                take_notifications();
            }
            if (spin && passes % spins_before_yield == 0) sched_yield();
        }
        return stop(next.get());
    }

    /// On a thread of its own. When the initiator is gone, serving may take no more than a moment to end.
    Message receive_while_serving() {
        try {
            return control_.receive(silence_);
        } catch (const Failure&) {
            arm_watchdog(options_.timeout + 5s, "target: serving, after the initiator has gone");
            throw;
        }
    }

    Message stop(const Message& command) {
        if (command.at("do") != "stop") throw Failure("expected a stop request");
        const auto posts = command.at("posts").get<std::vector<std::uint64_t>>();
        std::uint64_t wanted = 0;
        for (std::uint64_t count : posts)
            wanted += count;
        if (wanted == 0 || !ours_) return {{"ok", true}};
        wait_for_notifications(wanted);
        if (arrival_wrong_) return {{"wrong", "data behind its notification: " + *arrival_wrong_}};
        if (auto wrong = account_.wrong(posts)) return {{"wrong", *wrong}};
        return {{"ok", true}};
    }

    /// Until all are here and nothing more has come for a moment, or nothing comes for the whole timeout.
    void wait_for_notifications(std::uint64_t wanted) {
        const auto limit = static_cast<std::uint64_t>(options_.timeout.count()) * 1'000'000u;
        constexpr std::uint64_t moment = 2'000'000;
        std::uint64_t last = now_ns();
        std::uint64_t seen = account_.received();
        for (std::uint64_t now = last; now - last < (seen >= wanted ? moment : limit); now = now_ns()) {
            take_notifications();
            if (account_.received() == seen) continue;
            seen = account_.received();
            last = now;
        }
    }

    void take_notifications() {
        for (const auto& [sender, message] : ours_->agent().notifications()) {
            std::optional<unsigned> slot = account_.take(sender, message);
            if (!slot || !check_on_arrival_ || arrival_wrong_) continue;
            arrival_wrong_ = memory_->check_slot(layout_, seed_, *slot);
        }
    }

    const Options& options_;
    Control control_;
    std::optional<SideMemory> memory_;
    std::unique_ptr<AgentSide> ours_;
    std::unique_ptr<RawFabric> raw_;
    bool poll_ = true;
    bool stall_ = false;
    std::chrono::milliseconds silence_ = first_silence;
    std::uint64_t seed_ = 0;
    Layout layout_;
    bool check_on_arrival_ = false;
    std::optional<std::string> arrival_wrong_;
    NotificationAccount account_;
};

/// Of the initiator, between two requests: it measures meanwhile, or is idle.
std::chrono::milliseconds longest_silence(const Options& options) {
    if (options.iterations != 0) return longest_part;
    const std::chrono::duration<double> part(std::max(options.seconds, options.idle_seconds));
    return std::max(first_silence,
                    std::chrono::duration_cast<std::chrono::milliseconds>(part) + 2 * options.timeout + 60s);
}

}  // namespace

Message open_request(const Options& options, std::uint64_t memory) {
    const bool polls = options.target_poll == TargetPoll::automatic ? !options.progress_thread
                                                                    : options.target_poll == TargetPoll::on;
    return {{"do", "open"},
            {"version", protocol_version},
            {"memory", memory},
            {"vram", options.target_mem.vram},
            {"gpu", options.target_mem.gpu},
            {"pt", options.progress_thread},
            {"poll", polls},
            {"stall", options.stall},
            {"silence_ms", longest_silence(options).count()},
            {"plugin", options.uses_plugin()},
            {"raw", options.uses_raw()}};
}

int run_target(const Options& options, Control control) {
    try {
        Target target(options, std::move(control));
        target.run();
        arm_watchdog(options.timeout + 5s, "closing the target");
    } catch (const PeerGone& error) {
        if (options.role != Role::both) std::fprintf(stderr, "railyard-bench: target: %s\n", error.what());
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "railyard-bench: target: %s\n", error.what());
        return 1;
    }
    return 0;
}

std::uint64_t process_cpu_ns() noexcept {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(used.tv_nsec);
}

}  // namespace railyard::bench
