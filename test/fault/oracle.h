// What has to be true of a run: follows everything that is done and throws Failure when it is not.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "counts.h"
#include "memory.h"
#include "messages.h"
#include "schedule.h"
#include "windows.h"

namespace railyard::fault {

struct Failure : std::runtime_error {
    Failure(Wrong what, const std::string& text) : std::runtime_error(text), wrong(what) {}
    Wrong wrong;
};

/// Any thread; calls nothing of the engines.
class Oracle {
  public:
    Oracle(const Schedule& schedule, Counts& counts);
    Oracle(const Oracle&) = delete;
    Oracle& operator=(const Oracle&) = delete;

    [[nodiscard]] Slot& slot(int engine, int index) {
        return slots_[static_cast<std::size_t>(engine)][static_cast<std::size_t>(index)];
    }

    // Transfers, by id. A round is one post with its end.

    void prepared(int id);
    /// New data at the source, a new round; returns the notification to post with, empty for none.
    std::string begin_round(int id);
    /// Right for this end? `status` is final; `taken`: since before its post.
    void end_round(int id, Status status, std::chrono::milliseconds taken = {});
    /// Its handle is gone; in flight, nobody will hear of its end.
    void released(int id, bool in_flight);
    /// An engine refused to prepare or to send.
    void refused(int id, Status status, const std::string& text);
    /// True: no further round, what was released may still arrive.
    [[nodiscard]] bool spent(int id);

    // Notifications

    /// One that belongs to no transfer, before it is sent.
    std::string send(int from, int to, int id, std::size_t length);
    void send_refused(const std::string& message, Status status, const std::string& text);
    void arrived(int engine, const std::string& agent, const std::string& text);
    /// Names of those that must still come; empty: none.
    [[nodiscard]] std::string missing();

    // Faults

    /// An engine was told of another one: `status` is `ok`, or what it refused it with.
    void introduced(int engine, int to, Status status, const std::string& text);
    void nic_fault(Fault fault, int engine, int rail);
    void nic_calm(int engine, int rail);
    void fault_begins(Fault fault, int engine, int other = -1);
    void fault_ends(Fault fault, int engine, int other = -1);
    void all_calm();
    /// What was on its way to the engine's memory, or on order of the engine, lands before this or never.
    void destroyed(int engine);
    void deregistered(int engine, int slot);

    /// Every byte of all memory.
    void check_memory();

  private:
    struct Round {
        const TransferSpec* spec = nullptr;
        int number = 0;
        bool in_flight = false;
        bool open = false;   ///< each byte of the target may be the old or the new one
        bool spent = false;  ///< bytes of it may come late, so there is no further round
        Tick prepared = 0, begun = 0, ended = 0;
        std::string message;               ///< name of its notification; empty: none
        const char* frozen = nullptr;      ///< why the target may not change any more
        std::vector<std::uint8_t> memory;  ///< the target when it was frozen
    };

    [[nodiscard]] Round& round_of(int id) { return rounds_.at(id); }
    [[nodiscard]] Slot& target_slot(const TransferSpec& spec) {
        return slot(spec.read ? spec.from : spec.to, spec.region);
    }
    [[nodiscard]] Slot& source_slot(const TransferSpec& spec) {
        return slot(spec.read ? spec.to : spec.from, spec.region);
    }
    [[nodiscard]] Concern concern_of(const Round& round) const;
    [[nodiscard]] Concern concern_of(const Message& message) const;
    [[nodiscard]] std::string describe(const Round& round) const;
    void require_data(const Round& round, const char* when);
    void require_old_or_new(const Round& round, const char* when);
    [[nodiscard]] bool writes_are_emulated() const;
    void freeze(Round& round, const char* why);
    void require_frozen(Round& round);
    [[nodiscard]] bool timed_out(const Round& round, Status status, std::chrono::milliseconds taken) const;
    void require_explained(const Concern& concern, Status status, const std::string& what);
    void check_slot(int engine, int index);

    const Schedule& schedule_;
    Counts& counts_;
    std::mutex mutex_;
    Tick now_ = 1;
    Windows windows_;
    std::vector<std::array<Slot, region_slots>> slots_;
    std::map<int, Round> rounds_;
    Messages messages_;
};

}  // namespace railyard::fault
