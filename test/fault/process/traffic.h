// Two engines with something to move between them, and the proof that it arrived.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine_pair.h"

namespace railyard::test {

/// What most tests of processes run over, unless RAILYARD_TEST_FABRICS says otherwise.
inline std::vector<Fabric> process_fabrics() {
    return fabrics(
        {Fabric{"tcp", 2, true}, Fabric{"tcp", 1, false}, Fabric{"shm", 1, true}, Fabric{"shm", 2, false}});
}

struct Traffic {
    explicit Traffic(const Fabric& fabric, std::size_t bytes = std::size_t{4} << 20,
                     const ParamMap& extra = {})
        : pair(fabric, fabric, extra),
          source(*pair.a, bytes),
          target(*pair.b, bytes),
          remote(pair.publish(target)) {
        const LocalDescriptor from = source.local(0, bytes);
        const RemoteDescriptor to{target.address(), bytes, &remote};
        transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "done");
    }

    /// What is under way may still write to the buffers: the engines go first.
    ~Traffic() {
        pair.a.reset();
        pair.b.reset();
    }
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    /// Posts new bytes.
    Status post() {
        fill_pattern(source.bytes, ++seed);
        std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
        return pair.a->post(*transfer);
    }
    /// Waits for what was posted, with its bytes and its notification.
    void finish(Status posted) {
        if (posted == Status::in_progress) posted = pair.wait(*transfer);
        ASSERT_EQ(posted, Status::ok);
        ASSERT_TRUE(target.bytes == source.bytes);
        const std::vector<Notification> got = pair.notifications(1);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got.front().message, "done");
    }
    void round() { finish(post()); }

    std::uint32_t seed = 0;
    EnginePair pair;
    Buffer source, target;
    std::shared_ptr<RemoteRegion> remote;
    Transfer* transfer = nullptr;
};

}  // namespace railyard::test
