// A rail over an endpoint whose provider answers as a test says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "rail/fabric_rail.h"

namespace railyard {

struct FabricRailProbe {
    /// Where operations and messages leave from, if from anywhere.
    static fid_ep* endpoint(FabricRail& rail) {
        RoleGuard guard(rail.role_);
        return rail.sending_ ? reinterpret_cast<fid_ep*>(rail.sending_->handle()) : nullptr;
    }
    /// What peers' operations come to.
    static fid* receiver(FabricRail& rail) { return rail.fabric_->endpoint.handle(); }
    static fid_cq* queue(FabricRail& rail) { return rail.fabric_->queue.received().get(); }
    static std::size_t depth(FabricRail& rail) { return rail.depth_; }
    /// Senders that are still open beside the one that operations leave from.
    static std::size_t set_aside(FabricRail& rail) {
        RoleGuard guard(rail.role_);
        return rail.fabric_->aside.size();
    }
    /// What is set aside has been so for as long as it may be.
    static void end_patience(FabricRail& rail) {
        RoleGuard guard(rail.role_);
        for (auto& aside : rail.fabric_->aside)
            aside->until = 0;
        rail.stopped_until_ = std::min<std::uint64_t>(rail.stopped_until_, 1);
    }
};

/// What the scripted provider answers and has seen. One at a time.
struct Script {
    std::deque<ssize_t> answers;                   // to the next posts; 0 afterwards
    std::set<std::uint64_t> silent;                // destinations that take nothing
    std::vector<void*> posted;                     // contexts with the provider
    std::vector<std::uint64_t> flags;              // of every post, refused ones too
    std::vector<std::uint64_t> immediates;         // of what was taken
    std::vector<std::size_t> pieces;               // of each operation that was taken
    std::map<std::uint64_t, std::uint64_t> bytes;  // taken, by destination
    std::deque<std::pair<void*, int>> completed;   // context, error
    ssize_t queue_answer = 0;                      // to every look at the completions, unless 0
    int pending_error = 0;
    void* error_context = nullptr;
};
inline Script script;

inline ssize_t scripted_write(fid_ep*, const fi_msg_rma* message, std::uint64_t flags) {
    script.flags.push_back(flags);
    ssize_t answer = 0;
    if (script.silent.count(message->addr)) return -FI_EAGAIN;
    if (!script.answers.empty()) {
        answer = script.answers.front();
        script.answers.pop_front();
    }
    if (answer == 0) {
        script.posted.push_back(message->context);
        if (flags & FI_REMOTE_CQ_DATA) script.immediates.push_back(message->data);
        EXPECT_EQ(message->iov_count, message->rma_iov_count);
        script.pieces.push_back(message->iov_count);
        for (std::size_t i = 0; i < message->iov_count; ++i) {
            EXPECT_EQ(message->msg_iov[i].iov_len, message->rma_iov[i].len);
            script.bytes[message->addr] += message->msg_iov[i].iov_len;
        }
    }
    return answer;
}

inline ssize_t scripted_read(fid_cq*, void* buffer, size_t count) {
    if (script.queue_answer) return script.queue_answer;
    auto* entries = static_cast<fi_cq_data_entry*>(buffer);
    size_t filled = 0;
    while (filled < count && !script.completed.empty()) {
        const auto [context, error] = script.completed.front();
        if (error) {
            if (filled) break;
            script.completed.pop_front();
            script.pending_error = error;
            script.error_context = context;
            return -FI_EAVAIL;
        }
        script.completed.pop_front();
        entries[filled++] = {context, 0, 0, nullptr, 0};
    }
    return filled ? static_cast<ssize_t>(filled) : -FI_EAGAIN;
}

inline ssize_t scripted_readerr(fid_cq*, fi_cq_err_entry* entry, std::uint64_t) {
    EXPECT_EQ(entry->err_data_size, 0u) << "not zeroed: the provider would write through a wild pointer";
    entry->op_context = script.error_context;
    entry->err = script.pending_error;
    return 1;
}

inline const char* scripted_strerror(fid_cq*, int, const void*, char*, size_t) {
    return "scripted";
}

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

class FabricRailTest : public testing::Test {
  protected:
    static constexpr std::uint64_t give_up_ns = 50'000'000;

    /// `pieces`: that the provider takes in one operation. `patience_ns`: after which a silent peer is given
    /// up.
    explicit FabricRailTest(std::size_t pieces = 1, bool separate_sender = true,
                            std::uint64_t patience_ns = give_up_ns)
        : FabricRailTest(device(pieces, separate_sender), patience_ns) {}
    explicit FabricRailTest(const std::shared_ptr<const fabric::Device>& device,
                            std::uint64_t patience_ns = give_up_ns)
        : rail_("rail", device, sink_, {false, patience_ns}) {
        script = {};
        fid_ep* endpoint = FabricRailProbe::endpoint(rail_);
        fid_cq* queue = FabricRailProbe::queue(rail_);
        real_rma_ = endpoint->rma;
        real_cq_ = queue->ops;
        rma_ = *endpoint->rma;
        rma_.writemsg = scripted_write;
        cq_ = *queue->ops;
        cq_.read = scripted_read;
        cq_.readerr = scripted_readerr;
        cq_.strerror = scripted_strerror;
        endpoint->rma = &rma_;
        queue->ops = &cq_;
    }
    /// Another sender has taken over.
    void script_sender() { FabricRailProbe::endpoint(rail_)->rma = &rma_; }
    ~FabricRailTest() override {
        if (fid_ep* endpoint = FabricRailProbe::endpoint(rail_)) endpoint->rma = real_rma_;
        FabricRailProbe::queue(rail_)->ops = real_cq_;
    }

    static std::shared_ptr<const fabric::Device> device(std::size_t pieces = 1, bool separate_sender = true) {
        auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
        devices.front().caps.rma_pieces = pieces;
        if (!separate_sender) {
            devices.front().caps.separate_sender = false;
            devices.front().caps.answers_at_sender = false;
        }
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }

    /// `count` chunks of 64 bytes towards `destination`, offered to the rail.
    struct Offer {
        Offer(FabricRail& rail, std::size_t count, PeerAddress destination, Path* gate = nullptr,
              std::uint32_t length = 64, std::atomic<std::uint32_t>* late = nullptr)
            : route{&rail, destination, gate, gate != nullptr, {nullptr}, {{}}} {
            work.chunks.assign(count, Chunk{0, 0, length, 0, 0});
            work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(count));
            submission.lane = &work.lanes.front();
            submission.route = &route;
            submission.late = late;
            work.arm(1, nullptr);
            rail.submit(submission);
        }
        Work work;
        Route route;
        Submission submission;
    };

    /// Chunks of 64 bytes offered to one rail, which another route may carry, too.
    struct Detour {
        Detour(FabricRail& first, Rail& second, PeerAddress there, std::uint32_t count = 20)
            : routes{Route{&first, 1, &usual, false, {nullptr}, {{}}},
                     Route{&second, there, &other, false, {nullptr}, {{}}}} {
            work.chunks.assign(count, Chunk{0, 0, 64, 0, 0});
            work.lanes.emplace_back(work, 0, count);
            submission.lane = &work.lanes.front();
            submission.route = &routes[0];
            submission.alternatives = routes;
        }
        void post() {
            work.arm(1, nullptr);
            submission.rearm();
            routes[0].rail->submit(submission);
        }
        Path usual, other;
        Work work;
        const std::array<Route, 2> routes;
        Submission submission;
    };

    void complete_all(int error = 0) {
        for (void* context : script.posted)
            script.completed.emplace_back(context, error);
        script.posted.clear();
    }

    /// What is posted from now on succeeds; false after 10 s.
    bool ends(const Offer& offer) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!offer.work.done() && std::chrono::steady_clock::now() < limit) {
            complete_all();
            rail_.progress();
        }
        return offer.work.done();
    }

    NullSink sink_;
    FabricRail rail_;
    fi_ops_rma rma_{};
    fi_ops_cq cq_{};
    fi_ops_rma* real_rma_ = nullptr;
    fi_ops_cq* real_cq_ = nullptr;
};

}  // namespace railyard
