// A rail whose senders are closed when all that they have sent has ended, as on fabric efa.
#pragma once

#include "scripted_control.h"
#include "scripted_rail.h"
#include "taking_rail.h"

namespace railyard {

using scripted_control::Message;

class WaitsToClose : public FabricRailTest {
  protected:
    WaitsToClose() : FabricRailTest(waiting()) { scripted_control::script = {}; }
    static std::shared_ptr<const fabric::Device> waiting() {
        auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
        fabric::ProviderCaps& caps = devices.front().caps;
        caps.rma_pieces = 1;
        caps.waits_to_close = caps.late_after_error = caps.reads_before_close = true;
        caps.answers_at_sender = false;
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }
    /// Another sender takes over, and what there is stays open.
    void replace() {
        const std::uint32_t before = rail_.sender_generation();
        ASSERT_TRUE(rail_.request_renewal());
        rail_.progress();
        ASSERT_NE(rail_.sender_generation(), before);
        ASSERT_EQ(FabricRailProbe::set_aside(rail_), 1u);
        script_sender();
    }
    void script_messages() {
        fid_ep* const endpoint = FabricRailProbe::endpoint(rail_);
        messages_ = *endpoint->msg;
        messages_.sendmsg = scripted_control::scripted_sendmsg;
        endpoint->msg = &messages_;
    }
    void complete(const std::vector<void*>& contexts, int error = 0) {
        for (void* context : contexts)
            script.completed.emplace_back(context, error);
        rail_.progress();
        rail_.progress();
    }
    void send(PeerAddress to, int error) {
        Message message("message", to);
        rail_.send(message);
        complete({scripted_control::script.sent.back().context}, error);
        ASSERT_EQ(message.ends, 1);
    }
    void expect_again(const Detour& stuck, const TakingRail& other) {
        EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
        EXPECT_TRUE(other.taken.empty());
        ASSERT_EQ(script.posted.size(), 4u);
        EXPECT_FALSE(stuck.work.done());
        complete(std::exchange(script.posted, {}));
        EXPECT_TRUE(stuck.work.done());
        EXPECT_EQ(stuck.work.status(), Status::ok);
        EXPECT_EQ(rail_.load(), 0u);
    }
    fi_ops_msg messages_{};
};

}  // namespace railyard
