// Connections that an operation has failed over, before their end is told of: the next one takes another.
#include <deque>
#include <string>

#include "log_lines.h"
#include "scripted_rail.h"

namespace railyard {
namespace {

/// The real queue, one entry of which is made a failure.
struct Breaking {
    ssize_t (*read)(fid_cq*, void*, size_t) = nullptr;
    std::uint64_t kind = 0;  // FI_SEND or FI_WRITE; 0: nothing fails any more
    void* failed = nullptr;
    std::deque<fi_cq_data_entry> others;
};
Breaking breaking;

ssize_t breaking_read(fid_cq* queue, void* buffer, size_t count) {
    auto* const entries = static_cast<fi_cq_data_entry*>(buffer);
    if (!breaking.others.empty()) {
        entries[0] = breaking.others.front();
        breaking.others.pop_front();
        return 1;
    }
    const ssize_t got = breaking.read(queue, buffer, count);
    for (ssize_t i = 0; i < got; ++i) {
        if (!(entries[i].flags & breaking.kind)) continue;
        breaking.kind = 0;
        breaking.failed = entries[i].op_context;
        breaking.others.assign(entries, entries + i);
        breaking.others.insert(breaking.others.end(), entries + i + 1, entries + got);
        return -FI_EAVAIL;
    }
    return got;
}

ssize_t breaking_readerr(fid_cq*, fi_cq_err_entry* entry, std::uint64_t) {
    entry->op_context = std::exchange(breaking.failed, nullptr);
    entry->err = FI_ECONNRESET;
    return 1;
}

/// Two rails of this process, the first of which writes to the other.
class BrokenConnection : public testing::Test {
  protected:
    static constexpr std::uint64_t patience_ns = 5'000'000'000;

    BrokenConnection()
        : log_(log::Level::debug),
          here_("here", device(), sink_, {false, patience_ns}),
          there_("there", device(), sink_, {false, patience_ns}),
          peer_(here_.insert_peer(there_.address())),
          from_(here_.register_memory({reinterpret_cast<std::uint64_t>(source_.data()), source_.size()})),
          to_(there_.register_memory({reinterpret_cast<std::uint64_t>(target_.data()), target_.size()})) {
        fid_cq* const queue = FabricRailProbe::queue(here_);
        real_ = queue->ops;
        ops_ = *real_;
        breaking = {};
        breaking.read = real_->read;
        ops_.read = breaking_read;
        ops_.readerr = breaking_readerr;
        queue->ops = &ops_;
    }
    ~BrokenConnection() override {
        FabricRailProbe::queue(here_)->ops = real_;
        here_.deregister_memory(from_);
        there_.deregister_memory(to_);
    }

    static std::shared_ptr<const fabric::Device> device() {
        auto devices = fabric::discover("tcp-msg", fabric::parse_device_filter("lo"));
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }
    template <class Over>
    bool pass_until(Over over) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!over() && std::chrono::steady_clock::now() < limit) {
            here_.progress();
            there_.progress();
        }
        return over();
    }
    static long connections() { return test::LogLines::count("connects to a peer"); }

    Status write() {
        Path path;
        const Route route{&here_, peer_, &path, false, {from_.descriptor}, {{to_.key, to_.address_base}}};
        Work work;
        work.chunks.push_back({reinterpret_cast<std::uint64_t>(source_.data()),
                               reinterpret_cast<std::uint64_t>(target_.data()), 64, 0, 0});
        work.lanes.emplace_back(work, 0, 1);
        Submission submission;
        submission.lane = &work.lanes.front();
        submission.route = &route;
        work.arm(1, nullptr);
        here_.submit(submission);
        EXPECT_TRUE(pass_until([&] { return work.done(); }));
        return work.status();
    }
    Status send() {
        struct Message : OutMessage {
            bool over = false;
            Status result = Status::ok;
        } message;
        message.destination = peer_;
        message.fill = [](OutMessage&, std::span<std::byte>) noexcept { return std::size_t{8}; };
        message.advance = [](OutMessage&) noexcept { return false; };
        message.done = [](OutMessage& ended, Status status) noexcept {
            static_cast<Message&>(ended).over = true;
            static_cast<Message&>(ended).result = status;
        };
        here_.send(message);
        EXPECT_TRUE(pass_until([&] { return message.over; }));
        return message.result;
    }

    const test::LogLines log_;
    NullSink sink_;
    std::array<char, 64> source_{}, target_{};
    FabricRail here_, there_;
    const PeerAddress peer_;
    RegisteredMemory from_, to_;
    fi_ops_cq ops_{};
    fi_ops_cq* real_ = nullptr;
};

TEST_F(BrokenConnection, IsNotUsedAgainAfterAWriteThatFailed) {
    source_.fill('x');
    ASSERT_EQ(write(), Status::ok);
    ASSERT_EQ(write(), Status::ok);
    ASSERT_EQ(connections(), 1);
    breaking.kind = FI_WRITE;
    EXPECT_EQ(write(), Status::remote_disconnect);
    EXPECT_EQ(write(), Status::ok);
    EXPECT_EQ(connections(), 2);
    EXPECT_EQ(target_, source_);
}

TEST_F(BrokenConnection, IsNotUsedAgainAfterAMessageThatFailed) {
    ASSERT_EQ(send(), Status::ok);
    ASSERT_EQ(send(), Status::ok);
    ASSERT_EQ(connections(), 1);
    breaking.kind = FI_SEND;
    EXPECT_EQ(send(), Status::remote_disconnect);
    EXPECT_EQ(send(), Status::ok);
    EXPECT_EQ(connections(), 2);
}

/// Answers to askers that were looked up before go another way.
TEST_F(BrokenConnection, AddressesThatAreRemovedAreCounted) {
    const PeerAddress asker = here_.insert_peer(there_.sender().address);
    const std::uint64_t before = here_.removals();
    here_.remove_peer(asker);
    EXPECT_EQ(here_.removals(), before + 1);
}

}  // namespace
}  // namespace railyard
