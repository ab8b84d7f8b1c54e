// Two engines whose notifications leave together with their data: the ground of the tests of these.
#pragma once

#include "failover.h"

namespace railyard::test {

inline constexpr std::size_t page = 4096;

class EarlyNotifications : public Failover {
  protected:
    explicit EarlyNotifications(const ParamMap& more = {}) : Failover(4, more) {}

    /// After a few, the target has told us our number.
    void meet() {
        warm_up();
        Transfer* transfer = prepare(page, 0, "hello");
        for (int i = 0; i < 3; ++i) {
            ASSERT_EQ(run(*transfer), Status::ok);
            ASSERT_EQ(arrived(1).size(), 1u);
            drive(std::chrono::milliseconds(20));
        }
        a_->release(transfer);
    }
    /// WRITE of so many pages, none next to another, each an operation of its own.
    Transfer* prepare_pages(std::size_t count, std::string_view text) {
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back(source_->local(offset_of(i), page));
            to.push_back({target_->address() + offset_of(i), page, &remote_});
        }
        return a_->prepare(Operation::write, from, to, "beta", text);
    }
    static constexpr std::size_t offset_of(std::size_t page_number) { return 2 * page_number * page; }
    std::span<std::uint8_t> page_at(Buffer& buffer, std::size_t number) {
        return std::span(buffer.bytes).subspan(offset_of(number), page);
    }
    [[nodiscard]] bool has_all(std::size_t pages) {
        for (std::size_t i = 0; i < pages; ++i) {
            if (!std::ranges::equal(page_at(*source_, i), page_at(*target_, i))) return false;
        }
        return true;
    }
    /// Waits for so many notifications; a little longer, in case that there are more.
    std::vector<Notification> arrived(std::size_t count,
                                      std::chrono::milliseconds longer = std::chrono::milliseconds(0)) {
        std::vector<Notification> got;
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (got.size() < count && std::chrono::steady_clock::now() < limit) {
            a_->progress();
            b_->take_notifications(got);
        }
        drive(longer);
        b_->take_notifications(got);
        return got;
    }
    double latencies_of_one(std::size_t pages = 1) {
        Transfer* transfer = prepare_pages(pages, "there");
        const double latencies = latencies_to_notification(*transfer);
        a_->release(transfer);
        return latencies;
    }
    /// Each of `rounds` has contents of its own, which must be there when its notification is.
    void write_and_compare(int rounds, std::size_t pages = 1) {
        Transfer* transfer = prepare_pages(pages, "there");
        for (int i = 0; i < rounds && !HasFailure(); ++i) {
            fill_pattern(std::span(source_->bytes).first(offset_of(pages)), ++contents_);
            ASSERT_NE(a_->post(*transfer), Status::backend);
            std::vector<Notification> got;
            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
            while (got.empty() && std::chrono::steady_clock::now() < limit) {
                a_->progress();
                b_->take_notifications(got);
            }
            EXPECT_TRUE(has_all(pages)) << "round " << i << ": announced before it was there";
            EXPECT_EQ(got.size(), 1u) << "round " << i;
            ASSERT_EQ(wait(*transfer), Status::ok);
        }
        a_->release(transfer);
    }

    /// Once it is announced, the application puts something else there, which has to stay.
    void run_and_reuse(Transfer& transfer, const std::vector<std::uint8_t>& reused) {
        ASSERT_EQ(a_->post(transfer), Status::in_progress);
        ASSERT_EQ(arrived(1).size(), 1u);
        std::copy(reused.begin(), reused.end(), target_->bytes.begin());
        EXPECT_EQ(wait(transfer), Status::ok);
        drive(std::chrono::milliseconds(100));
        EXPECT_TRUE(std::equal(reused.begin(), reused.end(), target_->bytes.begin()))
            << "old bytes once more, over what the application has put there since";
    }

    std::uint32_t contents_ = 1;
};

}  // namespace railyard::test
