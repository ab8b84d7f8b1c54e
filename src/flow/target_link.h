// One target as its initiator sees it: the handshake, and the transfers to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flow/former_targets.h"
#include "flow/geometry.h"
#include "flow/letters.h"
#include "flow/sent_slices.h"
#include "flow/side.h"
#include "flow/target_info.h"
#include "flow/target_report.h"

namespace railyard::flow {

/// Not for several threads.
class TargetLink {
  public:
    /// Begins to connect. Throws Error.
    TargetLink(Side& side, const TargetInfo& info, std::uint32_t opening);
    TargetLink(const TargetLink&) = delete;
    TargetLink& operator=(const TargetLink&) = delete;

    /// Adds what the engine is to release after leave(): of all links that end, so that it waits for them
    /// once. Without the watch of one that is_missed().
    void add_handles(std::vector<Transfer*>& all) const;
    /// Takes leave, forgets the peer and stops what is under way; not of one that is_missed().
    void leave() noexcept;
    /// It is lost, and did not say so itself: it may take itself for connected.
    [[nodiscard]] bool is_missed() const noexcept { return !lost_.empty() && !closed_; }
    /// What is to be known of it then; the watch is the receiver's. Throws std::bad_alloc.
    [[nodiscard]] FormerTarget as_former() const { return {id_, opening_, connection_, watch_}; }

    [[nodiscard]] const std::string& id() const noexcept { return id_; }
    /// Tells it from others of the same target, before and later.
    [[nodiscard]] std::uint32_t opening() const noexcept { return opening_; }
    /// Throws Error{invalid_param} for slices that the target does not have.
    [[nodiscard]] Slices resolve(Slices slices) const {
        if (slices == whole_grain) return {0, geometry_.slices() - 1};
        if (slices.first > slices.last || slices.last >= geometry_.slices()) refuse(slices);
        return slices;
    }
    [[nodiscard]] std::uint32_t slices() const noexcept { return geometry_.slices(); }
    /// Of resolved slices: true while some of them are on their way, or others, where these begin the next
    /// round.
    [[nodiscard]] bool busy(std::uint32_t index, Slices slices, bool begins_round) const noexcept;
    /// Something of the grain is on its way, or of any grain.
    [[nodiscard]] bool carries(std::uint32_t index) const noexcept { return grains_[index].under_way != 0; }
    [[nodiscard]] bool carries() const noexcept { return !under_way_.empty(); }
    /// Sends them now, or once the target has answered. Allocates where such a range is sent for the first
    /// time; what goes wrong is a failure of the grain.
    void transfer(std::uint32_t index, Slices slices, bool begins_round) noexcept;
    /// Nothing of the grain before its next round: the target would take parts of two rounds for a whole one.
    void skip_round(std::uint32_t index) noexcept { grains_[index].skipped = true; }

    /// As if it had been added when it answers: what has waited for it is not sent, nor the rest of those
    /// rounds, nor what is transferred meanwhile. Without an effect once it has answered.
    void leave_out() noexcept;
    /// It has answered.
    [[nodiscard]] bool answered() const noexcept { return source_.has_value(); }

    /// Throws std::bad_alloc, with nothing done.
    void on_letter(const FlowLetter& letter);
    /// Looks what has ended.
    void progress() noexcept;
    /// Gives it up where its answer is late, and leaves it out before that, where others have answered since
    /// `others_since_ns` (0: nobody has). After the letters that have come: nobody may have looked at them
    /// for long.
    void expect_answer(std::uint64_t others_since_ns);
    /// The target's answer, where it is waited for, or something that is under way.
    [[nodiscard]] bool has_left() const noexcept { return (!source_ && !left_out_) || !under_way_.empty(); }
    /// Why it is no target any more; empty while it is one.
    [[nodiscard]] const std::string& lost() const noexcept { return lost_; }
    /// Why a grain did not get there: each once, and of one that failed again since, the last time. Throws
    /// std::bad_alloc, and it is still there to be taken.
    [[nodiscard]] std::optional<std::string> take_failure();
    /// Throws std::bad_alloc.
    [[nodiscard]] TargetReport report() const;

  private:
    /// A prepared transfer of some slices of a grain, for any number of rounds.
    struct Handle {
        Transfer* transfer = nullptr;
        std::uint32_t index = 0;
        Slices slices;
        std::uint32_t first = 0;  ///< unit
        std::uint32_t count = 0;  ///< of units
        std::uint64_t bytes = 0;
        bool under_way = false;
    };
    struct Grain {
        std::uint32_t round = 0;
        std::uint32_t under_way = 0;  ///< handles
        std::uint32_t arrived = 0;    ///< units of this round
        bool skipped = false;         ///< this round: what is left of it is not sent
        std::vector<std::unique_ptr<Handle>> handles;
        std::uint64_t failed = 0;  ///< the how many'th failure that was; 0: none is to be told
        std::string why;           ///< it failed; empty where there was no memory for that
    };
    struct Waiting {
        std::uint32_t index = 0;
        Slices slices;
        bool begins_round = false;
    };

    [[noreturn]] void refuse(Slices slices) const;
    void begin(std::uint32_t index, Slices slices, bool begins_round);
    Handle& handle_for(Grain& grain, std::uint32_t index, Slices slices);
    [[nodiscard]] Transfer* prepare(const Handle& handle);
    Status post(Handle& handle, std::uint32_t round);
    void ended(const Handle& handle, Status status) noexcept;
    void fail(std::uint32_t index, const char* reason) noexcept;
    void lose(const char* reason) noexcept;

    Side& side_;
    const std::string id_;
    const std::uint32_t opening_;
    const GrainGeometry geometry_;
    const std::string connection_;  ///< its connection info
    std::vector<std::shared_ptr<RemoteRegion>> remotes_;
    Transfer* watch_ = nullptr;  ///< of nothing: the engine looks after its peer, and knows it without a name
    std::vector<Grain> grains_;
    std::vector<Handle*> under_way_;
    std::vector<Waiting> waiting_;         ///< for the target's answer
    std::optional<std::uint32_t> source_;  ///< what the target calls us; none: it has not answered
    std::uint64_t added_ns_ = 0;
    /// It has not answered, and is not waited for: rounds that begin meanwhile are not sent to it.
    bool left_out_ = false;
    std::string lost_;
    bool closed_ = false;            ///< by the target
    std::size_t failed_ = 0;         ///< grains whose failure is to be told
    std::uint64_t failures_ = 0;     ///< that have been
    std::uint32_t last_failed_ = 0;  ///< grain index, where one has
    std::uint64_t whole_ = 0;        ///< grains that have got there
    std::uint64_t bytes_ = 0;        ///< the same
    std::uint64_t rounds_left_out_ = 0;
    std::string letter_;  ///< room for one
};

}  // namespace railyard::flow
