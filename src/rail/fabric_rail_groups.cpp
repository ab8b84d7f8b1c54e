// Several small chunks in one operation: over tcp that saves a system call on either side for each of them.
#include <array>
#include <span>

#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// What was cut for several rails, and is one block for a rail that has all of it.
bool continues(const Chunk& before, const Chunk& chunk) noexcept {
    return before.local + before.length == chunk.local && before.remote + before.length == chunk.remote &&
           before.local_region == chunk.local_region && before.remote_region == chunk.remote_region;
}

}  // namespace

fabric::PostResult FabricRail::post_groups(Submission& submission, Run& run, std::uint32_t count) noexcept {
    const Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    using Direction = fabric::Endpoint::Direction;
    fabric::RmaRow row(*sending_, route.destination,
                       work.kind == Work::Kind::read ? Direction::read : Direction::write);
    if (work.immediate) row.bring_immediates(work.immediate_of(run.begin));
    const std::size_t most = work.immediate ? 1 : pieces_;
    const bool joins = submission.undivided && !work.immediate;  // else each chunk brings its own
    const std::uint32_t end = run.begin + count;
    fabric::PostResult result = row.ready();
    while (run.begin != end && result == fabric::PostResult::ok) {
        Operation& operation = *free_operations_;
        std::array<fabric::RmaPiece, fabric::RmaRow::most_pieces> pieces;
        const std::size_t shared = work.chunks[run.begin].length > grouped_chunk_bytes ? 1 : most;
        std::size_t used = 0;
        std::uint32_t chunks = 0;
        std::uint64_t bytes = 0;
        for (std::uint32_t index = run.begin; index != end; ++index, ++chunks) {
            const Chunk& chunk = work.chunks[index];
            if (chunks != 0 && joins && continues(work.chunks[index - 1], chunk)) {
                pieces[used - 1].length += chunk.length;
            } else {
                if (used == shared || (chunks != 0 && chunk.length > grouped_chunk_bytes)) break;
                const RemoteKey& key = route.keys[chunk.remote_region];
                pieces[used++] = {chunk.local, chunk.length, route.descriptors[chunk.local_region],
                                  chunk.remote - key.address_base, key.key};
            }
            bytes += chunk.length;
        }
        const bool more = run.begin + chunks != end;
        result = used == 1 ? row.post(operation, pieces.front(), more)
                           : row.post(operation, std::span(pieces).first(used), more);
        if (result != fabric::PostResult::ok) break;
        operation.submission = &submission;
        operation.chunk = &work.chunks[run.begin];
        operation.chunks = chunks;
        free_operations_ = operation.next;
        run.begin += chunks;
        submission.outstanding += chunks;
        posted_ += chunks;
        posted_bytes_ += bytes;
        if (route.path) route.path->count_posted(chunks);
    }
    if (result == fabric::PostResult::again) count_refused();
    return result;
}

}  // namespace railyard
