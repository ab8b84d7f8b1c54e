// Two machines of different kinds, each a process with NICs of its own; one side alone has been told of the
// other.
#include <set>

#include "common/crc32.h"
#include "other_machine.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

struct Machines {
    const char* other;       ///< instance type of beta's machine; alpha's is a p5.48xlarge
    int rails, other_rails;  ///< of alpha and beta; 0: all
    const char* provider;
    bool progress_thread;
};

std::string case_name(const testing::TestParamInfo<Machines>& info) {
    std::string name = std::string(info.param.other) + "_" + std::to_string(info.param.rails) + "against" +
                       std::to_string(info.param.other_rails) + "_" + info.param.provider +
                       (info.param.progress_thread ? "_thread" : "_inline");
    for (char& letter : name) {
        if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
    }
    return name;
}

class MachinesTest : public testing::TestWithParam<Machines> {
  protected:
    static constexpr std::size_t size = (5 << 20) + 333;

    MachinesTest()
        : other_(topology(GetParam().other), "other",
                 {std::string("provider=") + GetParam().provider,
                  "rails=" + std::to_string(GetParam().other_rails), "max_bw_per_dram_seg=1000000"},
                 GetParam().progress_thread),
          engine_(make_engine("alpha", {GetParam().provider, GetParam().rails, GetParam().progress_thread})) {
    }

    static std::string topology(const char* instance) {
        const std::string p5 = std::getenv("HWLOC_XMLFILE");
        return p5.substr(0, p5.rfind('/') + 1) + instance + ".xml";
    }
    bool until(const std::function<bool()>& over) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!over()) {
            if (std::chrono::steady_clock::now() > end) return false;
            engine_->progress();
        }
        return true;
    }
    Status run(Operation operation, const Buffer& near, const PublishedBuffer& far,
               std::optional<std::string_view> message) {
        const auto remote = engine_->load_remote_memory("beta", far.metadata, far.address, far.size);
        const LocalDescriptor here = near.local(0, far.size);
        const RemoteDescriptor there{far.address, far.size, &remote};
        Transfer* transfer = engine_->prepare(operation, {&here, 1}, {&there, 1}, "beta", message);
        Status status = engine_->post(*transfer);
        until([&] { return (status = engine_->poll(*transfer)) != Status::in_progress; });
        engine_->release(transfer);
        return status;
    }
    static std::uint32_t checksum(const Buffer& buffer) {
        return crc32({reinterpret_cast<const char*>(buffer.bytes.data()), buffer.bytes.size()});
    }
    void expect_at_other(const Words& wanted) {
        Words got;
        EXPECT_TRUE(until([&] {
            for (std::string& word : other_.notifications())
                got.push_back(std::move(word));
            return got.size() >= wanted.size();
        }));
        EXPECT_EQ(got, wanted);
    }

    OtherMachine other_;
    std::unique_ptr<Engine> engine_;
};

TEST_P(MachinesTest, WriteReadAndNotifyWithOneSideToldOfTheOther) {
    engine_->load_connection_info("beta", other_.connection_info());
    EXPECT_EQ(cluster().counter("endpoints", {"other", "*"}), 2 * other_.rail_count());
    EXPECT_EQ(cluster().counter("endpoints", {"host0", "*"}), 2 * engine_->rail_count());
    const PublishedBuffer far = other_.make_buffer(size, 1);
    Buffer near(*engine_, size);
    ASSERT_EQ(run(Operation::read, near, far, std::nullopt), Status::ok);
    EXPECT_EQ(checksum(near), other_.checksum(0));
    fill_pattern(near.bytes, 2);
    ASSERT_EQ(run(Operation::write, near, far, "written"), Status::ok);
    EXPECT_EQ(checksum(near), other_.checksum(0));
    engine_->send_notification("beta", "and a word");
    expect_at_other({"alpha:written", "alpha:and a word"});
}

TEST_P(MachinesTest, TheOtherWayRoundToo) {
    Buffer near(*engine_, size);
    other_.load("alpha", engine_->connection_info());
    other_.make_buffer(size, 7);
    other_.start_write(0, "alpha", {engine_->memory_metadata(*near.region), near.address(), size},
                       "from beta");
    std::string status;
    ASSERT_TRUE(until([&] { return !(status = other_.written()).empty(); }));
    EXPECT_EQ(status, to_string(Status::ok));
    // With it come the bytes for this thread, too, where another one has placed them.
    std::vector<Notification> got;
    ASSERT_TRUE(until([&] {
        engine_->take_notifications(got);
        return !got.empty();
    }));
    EXPECT_EQ(checksum(near), other_.checksum(0));
    EXPECT_EQ(got[0].agent, "beta");
    EXPECT_EQ(got[0].message, "from beta");
}

INSTANTIATE_TEST_SUITE_P(Kinds, MachinesTest,
                         testing::Values(Machines{"p5.48xl", 0, 16, "efa-direct", false},
                                         Machines{"p5.48xl", 16, 0, "efa-direct", true},
                                         Machines{"p5en.48xl", 0, 0, "efa-direct", false},
                                         Machines{"p5en.48xl", 4, 0, "efa", true},
                                         Machines{"p6-b200.48xl", 0, 0, "efa-direct", true},
                                         Machines{"p4d.24xl", 0, 0, "efa", false},
                                         Machines{"p4d.24xl", 0, 0, "efa", true},
                                         Machines{"g6.48xl", 0, 0, "efa", false}),
                         case_name);

}  // namespace
}  // namespace railyard::test
