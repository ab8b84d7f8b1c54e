#include "two_sides.h"

#include <thread>

#include "setup.h"
#include "target.h"

namespace railyard::gpu {

std::size_t memory_of(const bench::Layout& layout) {
    bench::Point point;
    point.layout = layout;
    return bench::memory_needed({&point, 1});
}

TwoSides::TwoSides(std::vector<std::string> words, const bench::Layout& layout)
    : layout_(layout),
      length_(memory_of(layout)),
      options_(bench_options(words)),
      target_(words),
      control_(target_.take_control()) {
    options_.progress_thread = true;
    memory_.emplace(options_.mem, length_);
    const bench::Message there = call(bench::open_request(options_, length_));
    side_.emplace(options_, "initiator", memory_->range());
    const auto& metadata = there.at("metadata").get_binary();
    remote_ = {there.at("base").get<std::uint64_t>(), length_, options_.target_mem.device()};
    side_->join({reinterpret_cast<const char*>(metadata.data()), metadata.size()}, remote_);
    const std::string own = side_->metadata();
    call({{"do", "join"},
          {"base", memory_->range().address},
          {"device", memory_->range().device},
          {"metadata", bench::Message::binary({own.begin(), own.end()})}});
    side_->connect();
}

TwoSides::~TwoSides() {
    side_.reset();
    try {
        call({{"do", "end"}});
    } catch (const std::exception&) {
        // it is killed then
    }
}

bench::Message TwoSides::call(bench::Message message) {
    return control_.call(message, patience);
}

void TwoSides::fill_target(std::uint64_t seed, bool source) {
    call({{"do", "fill"},
          {"size", layout_.size},
          {"batch", layout_.batch},
          {"window", layout_.window},
          {"seed", seed},
          {"as", source ? "source" : "sink"}});
}

std::string TwoSides::check_target() {
    return call({{"do", "check"},
                 {"size", layout_.size},
                 {"batch", layout_.batch},
                 {"window", layout_.window}})
        .value("wrong", "");
}

host::Request TwoSides::prepare(host::Op op, unsigned slot, std::string custom_param,
                                std::optional<std::string> notification) {
    std::vector<host::Range> local, remote;
    const host::Range mine = memory_->range();
    for (unsigned block = 0; block < layout_.batch; ++block) {
        const std::uint64_t offset = layout_.offset(slot, block);
        local.push_back({mine.address + offset, layout_.size, mine.device});
        remote.push_back({remote_.address + offset, layout_.size, remote_.device});
    }
    return agent().prepare(op, local, remote, side_->peer(), std::move(notification),
                           std::move(custom_param));
}

Status end_of(host::Request& request) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    Status status = request.poll();
    while (status == Status::in_progress) {
        if (std::chrono::steady_clock::now() > limit) return Status::not_allowed;
        std::this_thread::yield();
        status = request.poll();
    }
    return status;
}

}  // namespace railyard::gpu
