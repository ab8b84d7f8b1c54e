// A staging rail with scripted carriers on the fake driver.
#pragma once

#include "rail/staging_rail.h"
#include "scripted_carrier.h"
#include "staged_transfer.h"

namespace railyard::test {

/// Leaves nothing behind, whatever a test did (OnFakeDriver looks).
class OnStagingRail : public OnFakeDriver {
  protected:
    void open(unsigned slots, std::size_t slot_bytes, unsigned carriers = 1) {
        context_ = context();
        staging = std::make_unique<StagingRail>("staging");
        staging->open(context_, slots, slot_bytes);
        for (unsigned i = 0; i < carriers; ++i)
            rails.push_back(std::make_unique<ScriptedCarrier>("carrier " + std::to_string(i)));
    }
    void TearDown() override {
        rails.clear();
        staging.reset();
        context_.reset();
        OnFakeDriver::TearDown();
    }

    std::unique_ptr<StagedTransfer> transfer(Work::Kind kind, const StagedTransfer::Shape& shape,
                                             unsigned seed = 1) {
        auto made = std::make_unique<StagedTransfer>(context_, kind, shape, seed);
        made->route.rail = staging.get();
        for (const auto& rail : rails) {
            const auto key = static_cast<std::uint64_t>(rail->regions.size());
            rail->regions.push_back({StagedTransfer::first_base, made->peer()});
            made->route.carriers.push_back(
                {rail.get(),
                 0,
                 nullptr,
                 false,
                 {&ScriptedCarrier::ring_descriptor},
                 {{key, StagedTransfer::first_base}, {key, StagedTransfer::second_base}}});
        }
        return made;
    }
    void progress() {
        staging->progress();
        for (const auto& rail : rails)
            rail->progress();
    }
    /// Until the round is over; its status, or in_progress when ten seconds were not enough.
    Status end(const StagedTransfer& transfer) {
        const bool ended = drive([&] { return transfer.work.done(); }, [&] { progress(); });
        return ended ? transfer.work.status() : Status::in_progress;
    }
    [[nodiscard]] const ContextPtr& held() const { return context_; }

    std::unique_ptr<StagingRail> staging;
    std::vector<std::unique_ptr<ScriptedCarrier>> rails;

  private:
    ContextPtr context_;
};

constexpr Work::Kind both_kinds[] = {Work::Kind::write, Work::Kind::read};

}  // namespace railyard::test
