// The plain libfabric loop.
#include "raw_fabric.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "common/spoken.h"
#include "common/status.h"
#include "raw_rail.h"

namespace railyard::bench {

class RawFabric::Impl {
  public:
    Impl(const FabricChoice& choice, bool wait_fd, std::span<std::byte> memory) : memory_(memory) {
        auto devices = fabric::discover(choice.provider, fabric::parse_device_filter(choice.devices));
        provider_ = devices.front().provider;
        const std::uint64_t copies =
            fabric::rails_on_each(choice.rails_per_device, devices.size(), devices.front().caps);
        for (std::uint64_t copy = 0; copy < copies; ++copy) {
            for (const fabric::Device& device : devices) {
                if (choice.rails_limit != 0 && rails_.size() == choice.rails_limit) return;
                rails_.emplace_back(device, wait_fd, memory);
            }
        }
    }

    void prepare(const Point& point) {
        op_ = point.op;
        batch_ = point.layout.batch;
        run_ = std::max<unsigned>(
            1, (batch_ + static_cast<unsigned>(rails_.size()) - 1) / static_cast<unsigned>(rails_.size()));
        remaining_.assign(point.layout.window, 0);
        waiting_.clear();
        operations_.assign(std::size_t{point.layout.window} * batch_, {});
        for (unsigned slot = 0; slot < point.layout.window; ++slot) {
            for (unsigned block = 0; block < batch_; ++block) {
                RawOperation& operation = operations_[std::size_t{slot} * batch_ + block];
                operation.slot = slot;
                operation.offset = point.layout.offset(slot, block);
                operation.local = memory_.data() + operation.offset;
                operation.length = point.layout.size;
            }
        }
        done_.reserve(point.layout.window);
    }

    void post(unsigned slot) {
        remaining_[slot] = batch_;
        waiting_.push_back({slot, 0});
        flush();
    }

    std::span<const unsigned> harvest() {
        done_.clear();
        for (RawRail& rail : rails_) {
            std::size_t count = rail.poll(completions_);
            for (std::size_t i = 0; i < count; ++i) {
                unsigned slot = static_cast<RawOperation*>(completions_[i].op_context)->slot;
                if (--remaining_[slot] == 0) done_.push_back(slot);
            }
        }
        if (!waiting_.empty()) flush();
        return done_;
    }

    std::deque<RawRail>& rails() { return rails_; }
    [[nodiscard]] const std::string& provider() const { return provider_; }

  private:
    struct Waiting {
        unsigned slot;
        unsigned next;  ///< first block that is not posted yet
    };

    /// Posts what waits, in order, until every rail in turn has refused.
    void flush() {
        std::size_t refused = 0;
        while (!waiting_.empty() && refused < rails_.size()) {
            RawRail& rail = rails_[turn_];
            if (++turn_ == rails_.size()) turn_ = 0;
            Waiting& head = waiting_.front();
            unsigned posted = post_run(rail, head);
            refused = posted == 0 ? refused + 1 : 0;
            head.next += posted;
            if (head.next == batch_) waiting_.pop_front();
        }
    }

    unsigned post_run(RawRail& rail, const Waiting& head) {
        auto length =
            static_cast<unsigned>(std::min<std::size_t>({run_, batch_ - head.next, rail.credits()}));
        RawOperation* first = &operations_[std::size_t{head.slot} * batch_ + head.next];
        for (unsigned i = 0; i < length; ++i) {
            if (!rail.post(op_, first[i], i + 1 < length)) return i;
        }
        return length;
    }

    std::span<std::byte> memory_;
    std::string provider_;
    std::vector<RawOperation> operations_;  // outlive the rails, which may still write to their contexts
    std::deque<RawRail> rails_;
    host::Op op_ = host::Op::write;
    unsigned batch_ = 1;
    unsigned run_ = 1;
    std::size_t turn_ = 0;
    std::vector<unsigned> remaining_;
    std::deque<Waiting> waiting_;
    std::vector<unsigned> done_;
    RawRail::Completions completions_{};
};

RawFabric::RawFabric(const FabricChoice& choice, bool wait_fd, std::span<std::byte> memory)
    : impl_(std::make_unique<Impl>(choice, wait_fd, memory)) {}

RawFabric::~RawFabric() = default;

nlohmann::json RawFabric::address() const {
    auto rails = nlohmann::json::array();
    for (RawRail& rail : impl_->rails())
        rails.push_back(to_json(rail.local()));
    return {{"provider", impl_->provider()}, {"rails", rails}};
}

void RawFabric::connect(const nlohmann::json& peer) {
    if (peer.at("provider") != impl_->provider()) {
        throw Error(Status::mismatch,
                    "the two sides chose different providers: " + spoken_provider(impl_->provider()) +
                        " here, " + spoken_provider(peer.at("provider").get<std::string>()) +
                        " there; name one with --provider");
    }
    const nlohmann::json& remotes = peer.at("rails");
    if (!remotes.is_array() || remotes.empty())
        throw Error(Status::mismatch, "the other side has no raw rails");
    for (std::size_t i = 0; i < impl_->rails().size(); ++i)
        impl_->rails()[i].connect(raw_remote(remotes.at(i % remotes.size())));
}

std::string RawFabric::provider() const {
    return impl_->provider();
}

std::size_t RawFabric::rail_count() const noexcept {
    return impl_->rails().size();
}

void RawFabric::prepare(const Point& point) {
    impl_->prepare(point);
}

bool RawFabric::post(unsigned slot) {
    impl_->post(slot);
    return false;
}

std::span<const unsigned> RawFabric::harvest() {
    return impl_->harvest();
}

void RawFabric::serve() {
    for (RawRail& rail : impl_->rails())
        rail.serve();
}

std::string libfabric_version() {
    std::uint32_t version = fi_version();
    return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

}  // namespace railyard::bench
