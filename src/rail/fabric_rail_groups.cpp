// Several small chunks in one operation: over tcp that saves a system call on either side for each of them.
#include <array>
#include <span>

#include "rail/fabric_rail.h"

namespace railyard {

fabric::PostResult FabricRail::post_groups(Submission& submission, Run& run, std::uint32_t count) noexcept {
    const Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    using Direction = fabric::Endpoint::Direction;
    fabric::RmaRow row(*sending_, route.destination,
                       work.kind == Work::Kind::read ? Direction::read : Direction::write);
    if (work.immediate) row.bring_immediates(*work.immediate + run.begin);
    const std::size_t most = work.immediate ? 1 : pieces_;
    const std::uint32_t end = run.begin + count;
    fabric::PostResult result = row.ready();
    while (run.begin != end && result == fabric::PostResult::ok) {
        Operation& operation = *free_operations_;
        std::array<fabric::RmaPiece, fabric::RmaRow::most_pieces> pieces;
        const std::size_t shared = work.chunks[run.begin].length > grouped_chunk_bytes ? 1 : most;
        std::uint32_t chunks = 0;
        std::uint64_t bytes = 0;
        for (std::uint32_t index = run.begin; index != end && chunks < shared; ++index, ++chunks) {
            const Chunk& chunk = work.chunks[index];
            if (chunks != 0 && chunk.length > grouped_chunk_bytes) break;
            const RemoteKey& key = route.keys[chunk.remote_region];
            pieces[chunks] = {chunk.local, chunk.length, route.descriptors[chunk.local_region],
                              chunk.remote - key.address_base, key.key};
            bytes += chunk.length;
        }
        const bool more = run.begin + chunks != end;
        result = chunks == 1 ? row.post(operation, pieces.front(), more)
                             : row.post(operation, std::span(pieces).first(chunks), more);
        if (result != fabric::PostResult::ok) break;
        operation.submission = &submission;
        operation.chunk = &work.chunks[run.begin];
        operation.chunks = chunks;
        free_operations_ = operation.next;
        run.begin += chunks;
        submission.outstanding += chunks;
        posted_ += chunks;
        posted_bytes_ += bytes;
    }
    if (result != fabric::PostResult::ok) count_refused(result);
    return result;
}

}  // namespace railyard
