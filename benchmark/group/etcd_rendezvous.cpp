// Arriving in a group, and phases, as keys in etcd; docs/many_nodes.md has the list of keys.
#include "group/etcd_rendezvous.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <type_traits>

#include "common/random.h"
#include "failure.h"
#include "group/etcd_client.h"
#include "group/etcd_keeper.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

std::chrono::seconds ttl_for(std::chrono::milliseconds timeout) {
    return std::clamp(std::chrono::duration_cast<std::chrono::seconds>(timeout / 3), 2s, 10s);
}

/// Pauses between two looks at the server, which grow: soon after a phase has begun it ends.
class Pauses {
  public:
    Pauses(unsigned world, Clock::time_point until)
        : longest_(std::max<std::chrono::microseconds>(50ms, world * 1ms)), until_(until) {}
    /// False where the time is over.
    bool pause() {
        if (Clock::now() >= until_) return false;
        std::this_thread::sleep_for(next_);
        next_ = std::min(next_ * 3 / 2, longest_);
        return true;
    }

  private:
    const std::chrono::microseconds longest_;
    const Clock::time_point until_;
    std::chrono::microseconds next_ = 1ms;
};

/// What the run's key says.
struct Run {
    std::string id;
    unsigned world = 0;
    std::string who;

    [[nodiscard]] std::string text() const { return Json{{"id", id}, {"world", world}, {"who", who}}.dump(); }
};

std::optional<Run> parse_run(const std::optional<std::string>& text) {
    if (!text) return std::nullopt;
    const Json json = Json::parse(*text, nullptr, false);
    try {
        return Run{json.at("id").get<std::string>(), json.at("world").get<unsigned>(),
                   json.at("who").get<std::string>()};
    } catch (const Json::exception&) {
        throw Failure("another program than railyard-bench has written its key in etcd: '" +
                      text->substr(0, 100) + "'");
    }
}

/// Finds the run of a group that is just gathering, or founds one, and takes a rank in it. An earlier run
/// that is still there is waited for: if its processes are dead, their leases run out.
class Arrival {
  public:
    Arrival(EtcdClient& client, const EtcdClient::Lease& lease, const GroupOptions& options,
            std::chrono::milliseconds timeout)
        : client_(client),
          lease_(lease),
          options_(options),
          timeout_(timeout),
          deadline_(Clock::now() + timeout),
          keys_(options.rendezvous->group, "") {}

    void arrive() {
        const auto pause = std::min<std::chrono::milliseconds>(100ms, timeout_);
        while (!(find_run() && take_rank() && gather())) {
            if (Clock::now() >= deadline_) throw Failure(why_not_);
            std::this_thread::sleep_for(pause);
        }
    }

    [[nodiscard]] unsigned rank() const noexcept { return rank_; }
    [[nodiscard]] bool founder() const noexcept { return founder_; }
    [[nodiscard]] const Run& run() const noexcept { return run_; }
    [[nodiscard]] const EtcdKeys& keys() const noexcept { return keys_; }
    [[nodiscard]] const std::vector<std::string>& members() const noexcept { return members_; }

  private:
    bool find_run() {
        char id[20];
        std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(random_u64()));
        run_ = {id, options_.world, own_name()};
        founder_ = client_.create({{keys_.run(), run_.text()}}, lease_.id);
        if (!founder_) {
            const auto found = parse_run(client_.get(keys_.run()));
            if (!found) return false;  // it has just gone
            run_ = *found;
        }
        keys_ = EtcdKeys(options_.rendezvous->group, run_.id);
        if (run_.world == options_.world) return true;
        why_not_ = in_use() + ", and --world says " + std::to_string(options_.world) + what_to_do();
        return false;
    }

    bool take_rank() {
        const auto found = client_.ranges({keys_.started(), keys_.ranks()}, 1);
        if (found[0].count != 0) {
            why_not_ = in_use() + what_to_do();
            return false;
        }
        std::vector<std::string> taken(options_.world);
        for (const EtcdEntry& entry : found[1].entries) {
            const unsigned rank = EtcdKeys::rank_in(entry.key);
            if (rank < taken.size()) taken[rank] = entry.value;
        }
        const unsigned first = options_.rank.value_or(0);
        const unsigned end = options_.rank ? first + 1 : options_.world;
        for (rank_ = first; rank_ < end; ++rank_) {
            if (taken[rank_].empty() &&
                client_.create({{EtcdKeys::with_rank(keys_.ranks(), rank_), own_name()}}, lease_.id))
                return true;
        }
        why_not_ = options_.rank ? in_use() + ", in which rank " + std::to_string(first) + " is taken" +
                                       (taken[first].empty() ? "" : " by " + taken[first]) + what_to_do()
                                 : in_use() + what_to_do();
        return false;
    }

    /// Until all are there and have said so: the keys of one that has died may still be. False where the
    /// founder has gone before.
    bool gather() {
        Pauses pauses(options_.world, deadline_);
        bool ready = false;
        while (true) {
            const auto found = client_.ranges(
                {keys_.started(), keys_.ready(), keys_.run(), keys_.ranks(), keys_.failed()}, 2);
            const auto& ranks = found[3].entries;
            if (found[0].count != 0) return start(ranks);
            if (!found[4].entries.empty()) throw Failure(found[4].entries.front().value);
            const bool ours = !found[2].entries.empty() && found[2].entries.front().value == run_.text();
            if (!ours) return rejoin();
            if (ranks.size() == options_.world && !std::exchange(ready, true))
                client_.put({EtcdKeys::with_rank(keys_.ready(), rank_), ""}, lease_.id);
            if (ranks.size() == options_.world && found[1].count == options_.world)
                static_cast<void>(client_.create({{keys_.started(), ""}}, lease_.id));
            if (!pauses.pause()) call_off(missing(ranks));
        }
    }

    bool rejoin() {
        client_.remove(EtcdKeys::with_rank(keys_.ranks(), rank_));
        why_not_ = "the process that had founded the run, " + run_.who + ", has gone";
        return false;
    }

    /// The others say the same, rather than wait for a run that this process has left.
    [[noreturn]] void call_off(const std::string& reason) {
        const EtcdClient::Lease for_a_while = client_.grant(ttl_for(timeout_));
        client_.put({EtcdKeys::with_rank(keys_.failed(), rank_), reason}, for_a_while.id);
        client_.remove_if({keys_.run(), run_.text()});
        throw Failure(reason);
    }

    bool start(const std::vector<EtcdEntry>& ranks) {
        members_.assign(options_.world, "");
        for (const EtcdEntry& entry : ranks)
            members_.at(EtcdKeys::rank_in(entry.key)) = entry.value;
        return true;
    }

    [[nodiscard]] std::string missing(const std::vector<EtcdEntry>& ranks) const {
        std::vector<bool> there(options_.world);
        for (const EtcdEntry& entry : ranks)
            there.at(EtcdKeys::rank_in(entry.key)) = true;
        std::vector<unsigned> not_there;
        for (unsigned rank = 0; rank < options_.world; ++rank)
            if (!there[rank]) not_there.push_back(rank);
        return missing_text(not_there, options_.world, "arrived at " + options_.rendezvous->text(), timeout_);
    }

    [[nodiscard]] std::string in_use() const {
        return options_.rendezvous->text() + " is in use by a run of " + std::to_string(run_.world) +
               " processes, which " + run_.who + " founded";
    }
    [[nodiscard]] static std::string what_to_do() { return ": wait for its end, or name another GROUP"; }

    EtcdClient& client_;
    const EtcdClient::Lease& lease_;
    const GroupOptions& options_;
    const std::chrono::milliseconds timeout_;
    const Clock::time_point deadline_;
    EtcdKeys keys_;
    Run run_;
    bool founder_ = false;
    unsigned rank_ = 0;
    std::vector<std::string> members_;
    std::string why_not_ = "the run of the group has gone";
};

class EtcdRendezvous final : public Rendezvous {
  public:
    EtcdRendezvous(const GroupOptions& options, std::chrono::milliseconds timeout)
        : world_(options.world),
          client_(new_client(options, timeout)),
          lease_(client_->grant(ttl_for(timeout))),
          keeper_(new_client(options, timeout), lease_),
          arrival_(*client_, lease_, options, timeout) {
        try {
            arrival_.arrive();
        } catch (...) {
            give_up();
            throw;
        }
        keeper_.watch(keys(), members());
    }

    [[nodiscard]] unsigned rank() const noexcept override { return arrival_.rank(); }
    [[nodiscard]] const std::vector<std::string>& members() const noexcept override {
        return arrival_.members();
    }

    [[nodiscard]] std::vector<std::string> exchange(const std::string& phase, const std::string& value,
                                                    std::chrono::milliseconds limit) override {
        check();
        const std::string prefix = keys().phase(phase);
        const std::string own = EtcdKeys::with_rank(prefix, rank());
        Pauses pauses(world_, Clock::now() + limit);
        // Who is here has read all of the phase before the last. Written twice it is the same.
        patiently(pauses, [&] { client_->put({own, value}, lease_.id, before_last_); });
        before_last_ = std::exchange(last_, own);
        while (true) {
            const auto found = patiently(pauses, [&] {
                return client_->ranges({prefix, keys().ranks(), keys().failed()}, 2);
            });
            if (found[0].count == world_) return patiently(pauses, [&] { return values(prefix); });
            if (found[1].count < world_ || !found[2].entries.empty())
                patiently(pauses, [&] { fail_with_trouble(); });
            check();
            if (!pauses.pause()) throw Failure(missing(prefix, phase, limit));
        }
    }

    void check() override {
        const std::string trouble = keeper_.trouble();
        if (!trouble.empty()) throw Failure(trouble);
    }

    [[nodiscard]] std::string doubt() const override { return keeper_.silence(); }

    void fail(const std::string& reason) noexcept override {
        try {
            client_->put({EtcdKeys::with_rank(keys().failed(), rank()), reason}, lease_.id);
            client_->remove_if({keys().run(), arrival_.run().text()});  // nobody is to wait for this run
        } catch (const std::exception&) {                               // then the lease tells the others
        }
    }

    void leave() noexcept override {
        try {
            if (arrival_.founder()) client_->remove_if({keys().run(), arrival_.run().text()});
            client_->put({EtcdKeys::with_rank(keys().left(), rank()), ""}, lease_.id);
            if (client_->ranges({keys().left()}, 1).front().count == world_)
                client_->remove_all(keys().all());
        } catch (const std::exception&) {  // what is left goes with the leases
        }
    }

  private:
    static std::unique_ptr<EtcdClient> new_client(const GroupOptions& options,
                                                  std::chrono::milliseconds timeout) {
        return std::make_unique<EtcdClient>(*options.rendezvous,
                                            std::clamp<std::chrono::milliseconds>(timeout, 1s, 5s));
    }

    [[nodiscard]] const EtcdKeys& keys() const noexcept { return arrival_.keys(); }

    /// Asks a server that does not answer again, until the keeper says that the lease is over, or the time of
    /// the phase is.
    template <class Ask>
    std::invoke_result_t<Ask> patiently(Pauses& pauses, Ask ask) {
        while (true) {
            try {
                return ask();
            } catch (const EtcdSilent&) {
                check();
                if (!pauses.pause()) throw;
            }
        }
    }

    void give_up() noexcept {
        try {
            client_->revoke(lease_.id);
        } catch (const std::exception&) {  // it runs out
        }
    }

    [[nodiscard]] std::vector<std::string> values(const std::string& prefix) {
        std::vector<std::string> all;
        auto found = client_->ranges({prefix}, 0);
        for (EtcdEntry& entry : found.front().entries)
            all.push_back(std::move(entry.value));
        if (all.size() != world_) fail_with_trouble();
        return all;
    }

    [[noreturn]] void fail_with_trouble() {
        const auto found = client_->ranges({keys().ranks(), keys().failed()}, 0);
        const std::string trouble = trouble_of(found[0], found[1], members());
        throw Failure(trouble.empty() ? "the group's keys in etcd were changed by somebody else" : trouble);
    }

    [[nodiscard]] std::string missing(const std::string& prefix, const std::string& phase,
                                      std::chrono::milliseconds limit) {
        std::vector<bool> there(world_);
        const auto found = client_->ranges({prefix}, 0);
        for (const EtcdEntry& entry : found.front().entries)
            there.at(EtcdKeys::rank_in(entry.key)) = true;
        std::vector<unsigned> not_there;
        for (unsigned rank = 0; rank < world_; ++rank)
            if (!there[rank]) not_there.push_back(rank);
        return missing_text(not_there, world_, "reached \"" + phase + "\"", limit);
    }

    const unsigned world_;
    const std::unique_ptr<EtcdClient> client_;
    const EtcdClient::Lease lease_;
    EtcdKeeper keeper_;
    Arrival arrival_;
    std::string last_, before_last_;
};

}  // namespace

std::unique_ptr<Rendezvous> meet_at_etcd(const GroupOptions& options, std::chrono::milliseconds timeout) {
    return std::make_unique<EtcdRendezvous>(options, timeout);
}

}  // namespace railyard::bench
