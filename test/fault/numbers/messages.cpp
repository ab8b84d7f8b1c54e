// Notifications: after many plain writes, and many at once.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "measure.h"

namespace railyard::test {
namespace {

constexpr std::size_t message_size = 4096;

double median(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

/// The notified write of one pair, from before post to the message's being there.
class Notified {
  public:
    explicit Notified(const Fabric& fabric)
        : pair(fabric, message_size), transfer_(pair.prepare(message_size, "x")) {
        got_.reserve(4);
        times_.reserve(slice);
        for (int i = 0; i < 10; ++i)
            median_ms();  // peers know each other, and all is allocated that will be
    }
    ~Notified() { pair.a->release(transfer_); }
    Notified(const Notified&) = delete;
    Notified& operator=(const Notified&) = delete;

    double median_ms() {
        times_.clear();
        while (times_.size() < slice) {
            got_.clear();
            const auto start = Clock::now();
            Status status = pair.a->post(*transfer_);
            until(
                "a notified write", [&] { return status != Status::in_progress && !got_.empty(); },
                [&] {
                    if (status == Status::in_progress) status = pair.a->poll(*transfer_);
                    pair.b->take_notifications(got_);
                });
            times_.push_back(ms_since(start));
            require_ok(status, "a notified write");
        }
        return median(times_);
    }

    NearPair pair;

  private:
    static constexpr std::size_t slice = 100;
    Transfer* transfer_;
    std::vector<Notification> got_;
    std::vector<double> times_;
};

std::size_t heap_bytes() {
    return mallinfo2().uordblks;
}

}  // namespace

json plain_writes(const Plan& plan) {
    Notified few(plan.fabric), many(plan.fabric);
    Transfer* plain = many.pair.prepare(message_size);
    for (int i = 0; i < 100; ++i)
        require_ok(many.pair.run(*plain), "a plain write");
    std::vector<double> few_ms, many_ms;
    few_ms.reserve(plan.rounds);
    many_ms.reserve(plan.rounds);
    const std::size_t before = heap_bytes();
    for (unsigned i = 0; i < plan.count; ++i)
        require_ok(many.pair.run(*plain), "a plain write");
    many.median_ms();
    const auto growth = static_cast<std::int64_t>(heap_bytes()) - static_cast<std::int64_t>(before);
    for (unsigned round = 0; round < plan.rounds; ++round) {
        few_ms.push_back(few.median_ms());
        many_ms.push_back(many.median_ms());
    }
    many.pair.a->release(plain);
    return {{"few_ms", few_ms}, {"many_ms", many_ms}, {"heap_growth", growth}};
}

json many_messages(const Plan& plan) {
    Fabric fabric = plan.fabric;
    fabric.progress_thread = true;
    NearPair pair(fabric, message_size);
    const unsigned each = plan.count / plan.rounds;
    const auto text = [](unsigned thread, unsigned index) {
        std::vector<std::uint8_t> bytes(20'000);
        fill_pattern(bytes, thread << 16 | index);
        return std::to_string(thread) + "/" + std::to_string(index) + ":" +
               std::string(bytes.begin(), bytes.end());
    };
    std::vector<std::thread> senders;
    for (unsigned thread = 0; thread < plan.rounds; ++thread) {
        senders.emplace_back([&, thread] {
            for (unsigned i = 0; i < each; ++i)
                pair.a->send_notification("beta", text(thread, i));
        });
    }
    std::vector<Notification> got;
    const auto limit = Clock::now() + std::chrono::seconds(60);
    while (got.size() < std::size_t{each} * plan.rounds && Clock::now() < limit) {
        pair.b->take_notifications(got);
        std::this_thread::yield();
    }
    for (std::thread& sender : senders)
        sender.join();
    // What would come twice comes now.
    const auto later = Clock::now() + std::chrono::milliseconds(200);
    while (Clock::now() < later)
        pair.b->take_notifications(got);
    std::set<std::pair<unsigned, unsigned>> intact;
    std::vector<unsigned> next(plan.rounds, 0);
    unsigned ordered = 0;
    for (const Notification& one : got) {
        unsigned thread = 0, index = 0;
        if (std::sscanf(one.message.c_str(), "%u/%u:", &thread, &index) != 2 || thread >= plan.rounds)
            continue;
        if (one.agent != "alpha" || one.message != text(thread, index)) continue;
        intact.insert({thread, index});
        ordered += next[thread] == index;
        next[thread] = index + 1;
    }
    return {{"sent", each * plan.rounds},
            {"arrived", got.size()},
            {"intact", intact.size()},
            {"ordered", ordered}};
}

json cycles(const Plan& plan) {
    NearPair pair(plan.fabric, message_size);
    const auto cycle = [&] {
        pair.meet();
        pair.a->connect("beta");
        Transfer* transfer = pair.prepare(message_size);
        require_ok(pair.run(*transfer), "a transfer of a new connection");
        pair.a->release(transfer);
        pair.remote.reset();
        pair.a->disconnect("beta");
    };
    for (unsigned i = 0; i < plan.count / 10; ++i)
        cycle();
    const std::size_t before = heap_bytes();
    for (unsigned i = 0; i < plan.count; ++i)
        cycle();
    const auto growth = static_cast<std::int64_t>(heap_bytes()) - static_cast<std::int64_t>(before);
    return {{"cycles", plan.count}, {"heap_growth", growth}};
}

}  // namespace railyard::test
