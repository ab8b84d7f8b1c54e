#include <algorithm>
#include <initializer_list>
#include <utility>

#include "random.h"
#include "rules.h"
#include "schedule.h"

namespace railyard::fault {
namespace {

/// Bytes that one schedule moves in a round of all of its transfers, at most.
constexpr std::uint32_t most_bytes = 6 << 20;

/// Two draws are never made in one expression: compilers may make them in either order.
class Generator {
  public:
    explicit Generator(std::uint64_t seed) : random_(Random(seed).next()) { made_.seed = seed; }

    Schedule run() {
        choose_machine();
        choose_faults();
        make_transfers();
        for (int left = random_.between(12, 60); left > 0; --left) {
            end_what_is_due();
            act();
        }
        due_.clear();
        return std::move(made_);
    }

  private:
    struct Later {
        int at;  ///< position among the steps
        Step step;
    };

    void choose_machine() {
        made_.provider = random_.percent(25) ? "efa" : "efa-direct";
        const bool old = made_.provider == "efa" && random_.percent(30);  // without a device WRITE
        if (old) made_.machine = "p4d.24xl";
        const int engines = old ? 2 : random_.percent(35) ? 3 : 2;
        for (int i = 0; i < engines; ++i)
            made_.engines.push_back({random_.between(1, old ? 2 : 4), random_.percent(40)});
        made_.threads = random_.percent(70) ? 1 : random_.between(2, 3);
        pages_ = random_.percent(20);
    }

    void choose_faults() {
        const int mood = random_.between(0, 99);
        if (mood < 12) return;
        for (const Fault weather : {Fault::eagain, Fault::rate, Fault::delay, Fault::shuffle}) {
            if (random_.percent(40)) kinds_.push_back(weather);
        }
        if (mood < 40) return;
        if (pages_) kinds_.push_back(Fault::error);
        constexpr Fault serious[] = {Fault::error,      Fault::not_ready, Fault::link,       Fault::late,
                                     Fault::gone,       Fault::link,      Fault::disconnect, Fault::restart,
                                     Fault::deregister, Fault::release};
        for (int count = mood < 80 ? 1 : 3; count > 0; --count)
            kinds_.push_back(random_.one_of(serious));
    }

    [[nodiscard]] bool has(Fault kind) const {
        return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end();
    }

    std::uint32_t piece_size() {
        switch (random_.between(0, 9)) {
            case 0:
                return random_.percent(20) ? 0 : 1;
            case 1:
            case 2:
                return static_cast<std::uint32_t>(random_.between(2, 300));
            case 3:
            case 4:
                return static_cast<std::uint32_t>(random_.between(4000, 9000));
            case 5:
            case 6:
                return static_cast<std::uint32_t>(random_.between(30'000, 140'000));
            case 7:
                return static_cast<std::uint32_t>(256 * 1024 + random_.between(-1, 1));
            default:
                return static_cast<std::uint32_t>(random_.between(300'000, 1'500'000));
        }
    }

    void make_transfers() {
        std::uint32_t bytes = 0;
        const int count = random_.between(2, 14);
        const auto engines = static_cast<int>(made_.engines.size());
        for (int id = 0; id < count; ++id) {
            TransferSpec transfer;
            transfer.id = id;
            transfer.read = !pages_ && random_.percent(35);
            transfer.from = random_.between(0, engines - 1);
            transfer.to = random_.percent(4) ? transfer.from
                                             : (transfer.from + random_.between(1, engines - 1)) % engines;
            transfer.region = random_.between(0, region_slots - 1);
            if (pages_ || random_.percent(60)) transfer.notification = message_size();
            const bool batch = !pages_ && random_.percent(35);
            for (int pieces = batch ? random_.between(2, 60) : 1; pieces > 0; --pieces) {
                std::uint32_t size = batch || pages_ ? std::min(piece_size(), 20'000U) : piece_size();
                if (bytes + size > most_bytes) size = 64;
                bytes += size;
                transfer.sizes.push_back(size);
            }
            made_.transfers.push_back(std::move(transfer));
        }
    }

    int message_size() {
        return random_.percent(85) ? random_.between(0, 200) : random_.between(7'000, 60'000);
    }
    int thread() { return random_.between(0, made_.threads - 1); }
    [[nodiscard]] int thread_of(int transfer) const { return transfer % made_.threads; }
    int engine() { return random_.between(0, static_cast<int>(made_.engines.size()) - 1); }
    int transfer() { return random_.between(0, static_cast<int>(made_.transfers.size()) - 1); }
    int rail_of(int of) { return random_.between(0, made_.engines[static_cast<std::size_t>(of)].rails - 1); }

    void add(int by, Verb verb, std::initializer_list<int> numbers, std::string setting = {}) {
        made_.steps.push_back({by, verb, numbers, std::move(setting)});
    }
    void add_later(int by, Verb verb, std::initializer_list<int> numbers, int steps) {
        const int at = static_cast<int>(made_.steps.size()) + steps;
        due_.push_back({at, {by, verb, numbers, {}}});
    }
    void end_what_is_due() {
        const int now = static_cast<int>(made_.steps.size());
        for (std::size_t i = 0; i < due_.size();) {
            if (due_[i].at > now) {
                ++i;
                continue;
            }
            made_.steps.push_back(std::move(due_[i].step));
            due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }

    void act() {
        const int choice = random_.between(0, 99);
        if (choice < 14 && !kinds_.empty()) {
            disturb(
                kinds_[static_cast<std::size_t>(random_.between(0, static_cast<int>(kinds_.size()) - 1))]);
        } else if (choice < 50) {
            const int which = transfer();
            add(thread_of(which), Verb::post, {which});
        } else if (choice < 65) {
            const int which = transfer();
            add(thread_of(which), Verb::wait, {which});
        } else if (choice < 84) {
            const int by = thread();
            add(by, Verb::drive, {random_.between(1, 40)});
        } else if (choice < 95) {
            const int by = thread(), from = engine(), to = engine();
            add(by, Verb::notify, {from, to, next_message_++, message_size()});
        } else if (choice < 98) {
            const int which = transfer();  // so that it is prepared anew
            add(thread_of(which), Verb::wait, {which});
            add(thread_of(which), Verb::release, {which});
        } else {
            add(everybody, Verb::check, {});
        }
    }

    void disturb(Fault kind) {
        const int at = engine(), rail = rail_of(at), steps = random_.between(2, 14);
        switch (kind) {
            case Fault::disconnect:
            case Fault::restart:
            case Fault::deregister:
                return disturb_everybody(kind, at);
            case Fault::release: {
                const int which = transfer();
                add(thread_of(which), Verb::post, {which});
                if (random_.percent(50)) add(thread_of(which), Verb::drive, {random_.between(1, 5)});
                return add(thread_of(which), Verb::release, {which});
            }
            default:
                break;
        }
        const int by = thread();
        add(by, Verb::fault, {at, rail}, setting_of(kind));
        if (kind == Fault::error || kind == Fault::late) {
            constexpr const char* codes[] = {"error_code=13", "error_code=7", "error_code=1",
                                             "error_code=15"};
            made_.steps.back().setting += std::string(",") + random_.one_of(codes);
        }
        if (kind != Fault::gone) add_later(thread(), Verb::calm, {at, rail}, steps);
    }

    void disturb_everybody(Fault kind, int at) {
        const int steps = random_.between(0, 6);
        const auto engines = static_cast<int>(made_.engines.size());
        if (kind == Fault::restart) {
            add(everybody, Verb::destroy, {at});
            return add_later(everybody, Verb::create, {at}, steps);
        }
        if (kind == Fault::disconnect) {
            const int other = (at + random_.between(1, engines - 1)) % engines;
            add(everybody, Verb::disconnect, {at, other});
            return add_later(everybody, Verb::connect, {at, other}, steps);
        }
        const int slot = random_.between(0, region_slots - 1);
        add(everybody, Verb::deregister, {at, slot});
        add_later(everybody, Verb::enlist, {at, slot}, steps);
    }

    std::string setting_of(Fault kind) {
        const auto next = [this](const char* key, int most) {
            return std::string(key) + "=" + std::to_string(random_.between(1, most));
        };
        constexpr const char* rates[] = {"rate_gbps=0.2", "rate_gbps=1", "rate_gbps=5"};
        switch (kind) {
            case Fault::eagain:
                return random_.percent(50) ? "eagain_probability=0.4" : next("eagain_next", 300);
            case Fault::rate:
                return random_.one_of(rates);
            case Fault::delay:
                return random_.percent(50) ? next("latency_us", 400) : next("jitter_us", 400);
            case Fault::shuffle:
                return "out_of_order=1";
            case Fault::error:
                return next(random_.percent(50) ? "error_next" : "lost_answer_next", 4);
            case Fault::not_ready:
                return next("rnr_next", 4);
            case Fault::late:
                return next("late_next", 4) + ",late_ms=4";
            case Fault::gone:
                return "gone=1";
            default:
                return "link=down";
        }
    }

    Random random_;
    Schedule made_;
    std::vector<Fault> kinds_;
    std::vector<Later> due_;
    int next_message_ = 0;
    bool pages_ = false;  ///< every transfer is a small WRITE with a notification, and operations fail
};

/// From random numbers of its own, so that a seed's other decisions are what they were without it.
class Limits {
  public:
    explicit Limits(Schedule& made) : random_(Random(made.seed ^ 0x6c696d697473ULL).next()), made_(made) {}

    void run() {
        if (random_.percent(30)) share_a_secret();
        if (!random_.percent(30)) return;
        for (std::size_t i = 0; i < made_.engines.size(); ++i) {
            if (!random_.percent(70)) continue;
            made_.engines[i].xfer_timeout_ms = random_.between(10, 80);
            if (random_.percent(70)) slow_down(static_cast<int>(i));
        }
    }

  private:
    void share_a_secret() {
        for (EngineSpec& engine : made_.engines)
            engine.secret = 1;
        if (!random_.percent(15)) return;
        const int stranger = random_.between(0, static_cast<int>(made_.engines.size()) - 1);
        made_.engines[static_cast<std::size_t>(stranger)].secret = random_.percent(50) ? 2 : 0;
    }
    /// For some steps, with work of this engine. A piece of 256 kB takes 0.1 s: no probe is given up behind
    /// it.
    void slow_down(int engine) {
        const int rails = made_.engines[static_cast<std::size_t>(engine)].rails;
        const int rail = random_.between(0, rails - 1), by = random_.between(0, made_.threads - 1);
        const int steps = random_.between(2, 20);
        const int begin = random_.between(0, static_cast<int>(made_.steps.size()));
        const int end = std::min(begin + steps, static_cast<int>(made_.steps.size()));
        insert(end, {by, Verb::calm, {engine, rail}, {}});
        for (const TransferSpec& transfer : made_.transfers) {
            if (transfer.from == engine && random_.percent(50))
                insert(begin, {transfer.id % made_.threads, Verb::post, {transfer.id}, {}});
        }
        insert(begin, {by, Verb::fault, {engine, rail}, "rate_gbps=0.02"});
    }
    void insert(int at, const Step& step) { made_.steps.insert(made_.steps.begin() + at, step); }

    Random random_;
    Schedule& made_;
};

}  // namespace

Schedule generate(std::uint64_t seed) {
    Schedule made = Generator(seed).run();
    Limits(made).run();
    return made;
}

}  // namespace railyard::fault
