// What becomes of operations that the target's NIC has refused for their key (ADR 38).
#include <utility>

#include "common/clock.h"
#include "rail/fabric_rail.h"

namespace railyard {

/// Those of the key that the route has are asked about; the others go out again with that one. Of several
/// chunks in one operation nobody knows whose key it was: they go out one by one.
void FabricRail::keys_refused(Operation& operation, Run chunks) noexcept {
    Submission& submission = *operation.submission;
    const bool has_old_key = std::exchange(operation.has_old_key, false);
    const std::size_t before = returned_.size();
    give_back(submission, chunks);
    if (chunks.size() > 1) {
        renewal_needed_ = renewal_needed_ || fabric_->domain.caps().late_after_error;
        return;
    }
    for (std::size_t i = before; i < returned_.size(); ++i) {
        Returned& returned = returned_[i];
        const Chunk& chunk = submission.lane->work->chunks[returned.chunk];
        returned.permitted = true;  // nothing of it has arrived
        returned.key_refused = !has_old_key;
        returned.key = submission.route->keys[chunk.remote_region].key;
    }
}

/// Whoever has no other key ends as all do that may be late (operation_failed).
bool FabricRail::awaits_key(Returned& returned) noexcept {
    const Submission& submission = *returned.submission;
    const Route& route = *submission.route;
    Work& work = *submission.lane->work;
    const Chunk& chunk = work.chunks[returned.chunk];
    const std::uint64_t key_before = route.keys[chunk.remote_region].key;
    Work::Verdict verdict = work.renew_key({route, chunk, returned.key, returned.since});
    if (verdict == Work::Verdict::unknown && waits_too_long(returned)) verdict = Work::Verdict::lost;
    if (verdict == Work::Verdict::lost) work.stop(Status::backend);
    if (verdict != Work::Verdict::repeat) return true;
    if (route.keys[chunk.remote_region].key != key_before) {
        for (Operation& operation : *fabric_->operations.back()) {
            if (!operation.posted || operation.handler == on_given_up_complete) continue;
            if (operation.submission->route == &route) operation.has_old_key = true;
        }
    }
    returned.key_refused = false;
    returned.since = returned.waits_from = now_ns();
    return false;
}

}  // namespace railyard
