// Two engines over tcp, one of which orders its transfers on streams of the fake driver.
#pragma once

#include "conformance/engine_pair.h"
#include "fakecuda/symbol.h"
#include "log_lines.h"
#include "on_fake_driver.h"
#include "program_stream.h"
#include "stream/stream_transfers.h"

namespace railyard::test {

using cuda::fake;

struct StreamPair {
    explicit StreamPair(bool progress_thread, const std::string& stream_wait = "read")
        : StreamPair({"tcp", 1, progress_thread}, {"tcp", 1, progress_thread},
                     {{"stream_wait", stream_wait}}) {}
    StreamPair(const Fabric& left, const Fabric& right, const ParamMap& extra)
        : pair(left, right, extra), streams(std::make_unique<StreamTransfers>(*pair.a)) {}
    ~StreamPair() {
        streams->close();
        pair.a.reset();
    }
    StreamPair(const StreamPair&) = delete;
    StreamPair& operator=(const StreamPair&) = delete;

    /// `pieces` descriptors over both buffers.
    Transfer* prepare(Operation operation, const Buffer& local, const Buffer& remote,
                      const ProgramStream& stream, std::size_t pieces = 1,
                      std::optional<std::string_view> message = std::nullopt) {
        const auto region = pair.publish(remote);
        const std::size_t length = local.bytes.size() / pieces;
        std::vector<LocalDescriptor> ours;
        std::vector<RemoteDescriptor> theirs;
        for (std::size_t i = 0; i < pieces; ++i) {
            ours.push_back(local.local(i * length, length));
            theirs.push_back({remote.address() + i * length, length, &region});
        }
        Transfer* transfer = pair.a->prepare(operation, ours, theirs, "beta", message);
        streams->attach(*transfer, stream.param());
        return transfer;
    }
    /// Whichever thread's default stream (cudaStreamPerThread).
    Transfer* prepare_per_thread(const Buffer& source, const Buffer& target) {
        const auto region = pair.publish(target);
        const LocalDescriptor from = source.local(0, source.bytes.size());
        const RemoteDescriptor to{target.address(), target.bytes.size(), &region};
        Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        constexpr std::uint64_t handle = 2;
        streams->attach(*transfer, {reinterpret_cast<const char*>(&handle), sizeof(handle)});
        return transfer;
    }
    bool until_idle(const ProgramStream& stream) {
        return pair.until([&] { return stream.idle(); });
    }

    EnginePair pair;
    std::unique_ptr<StreamTransfers> streams;
};

/// What a program calls to record a graph; the engine has no use for it.
struct CaptureCalls {
    CUresult (*begin)(CUstream, CUstreamCaptureMode) =
        reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(symbol("cuStreamBeginCapture_v2"));
    CUresult (*end)(CUstream, CUgraph*) =
        reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(symbol("cuStreamEndCapture"));
    CUresult (*destroy)(CUgraph) = reinterpret_cast<CUresult (*)(CUgraph)>(symbol("cuGraphDestroy"));
};

/// Both progress modes.
class OnStreams : public cuda::OnFakeDriver, public testing::WithParamInterface<bool> {
  protected:
    [[nodiscard]] bool thread() const { return GetParam(); }
};

inline std::string mode_name(const testing::TestParamInfo<bool>& info) {
    return info.param ? "thread" : "inline";
}

}  // namespace railyard::test
