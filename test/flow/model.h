// What grains, ledgers and boards must come to, by means too simple to be wrong. The fuzzer of boards has it,
// too.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "flow/grain_board.h"

namespace railyard::flow {

/// Units of a grain, slice by slice.
inline std::uint64_t count_units(std::uint64_t length, std::uint32_t slices, std::uint64_t unit) {
    const std::uint64_t slice = length / slices + (length % slices != 0);
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < length; at += slice) {
        const std::uint64_t here = slice < length - at ? slice : length - at;
        count += here / unit + (here % unit != 0);
    }
    return count;
}

/// One grain. Rounds are whole numbers here, from 1.
class GrainModel {
  public:
    explicit GrainModel(std::uint64_t units) : arrived_(units), missing_(units) {}

    /// True: now it is all there.
    bool take(std::uint64_t round, std::uint32_t unit) {
        if (round < round_ || round == 0 || unit >= arrived_.size()) return false;
        if (round > round_) {
            lost_ += round - round_ - 1;
            if (round_ != 0 && missing_ != 0) ++lost_;
            round_ = round;
            arrived_.assign(arrived_.size(), false);
            missing_ = arrived_.size();
        }
        if (arrived_[unit]) return false;
        arrived_[unit] = true;
        return --missing_ == 0;
    }
    /// The round that ends in these bits: one of the next ones, less than half of all away, else one that is
    /// over.
    [[nodiscard]] std::uint64_t in_full(std::uint32_t low, unsigned bits) const {
        const std::uint64_t all = std::uint64_t{1} << bits;
        std::uint64_t round = round_ - round_ % all + low % all;
        if (round < round_) round += all;
        if (round - round_ < all / 2) return round;
        return round < all ? 0 : round - all;
    }
    [[nodiscard]] std::uint64_t round() const { return round_; }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

  private:
    std::vector<bool> arrived_;
    std::uint64_t missing_;
    std::uint64_t round_ = 0;
    std::uint64_t lost_ = 0;
};

class BoardModel {
  public:
    void open(std::uint32_t id, const GrainGeometry& geometry) {
        sources_.insert_or_assign(id, Source{geometry, {}, counters(id)});
    }
    void on_immediate(std::uint32_t data) {
        const auto found = sources_.find(NameBits::source_of(data));
        if (found != sources_.end()) take(found->first, found->second.geometry.bits().unpack(data));
    }
    void take(std::uint32_t id, const UnitName& name) {
        const auto found = sources_.find(id);
        if (found == sources_.end() || name.index >= found->second.geometry.grains()) return;
        Source& source = found->second;
        const GrainGeometry& geometry = source.geometry;
        GrainModel& grain = source.grains
                                .try_emplace(name.index, count_units(geometry.length(), geometry.slices(),
                                                                     geometry.unit_length()))
                                .first->second;
        const std::uint64_t lost = grain.lost();
        const bool whole = grain.take(grain.in_full(name.round, geometry.bits().round_bits()), name.unit);
        source.counters.lost += grain.lost() - lost;
        if (!whole) return;
        ++source.counters.grains;
        source.counters.overwritten += std::erase_if(waiting_, [&](const GrainBoard::Arrived& other) {
            return other.source == id && other.index == name.index;
        });
        waiting_.push_back({name.index, id, grain.round()});
    }
    std::optional<GrainBoard::Arrived> pop() {
        if (waiting_.empty()) return std::nullopt;
        const GrainBoard::Arrived first = waiting_.front();
        waiting_.pop_front();
        return first;
    }
    [[nodiscard]] bool empty() const { return waiting_.empty(); }
    [[nodiscard]] GrainBoard::Counters counters(std::uint32_t id) const {
        const auto found = sources_.find(id);
        return found == sources_.end() ? GrainBoard::Counters{} : found->second.counters;
    }
    /// Of the latest one; 0 where nothing of the grain has come.
    [[nodiscard]] std::uint64_t round(std::uint32_t id, std::uint32_t index) const {
        const auto source = sources_.find(id);
        if (source == sources_.end()) return 0;
        const auto grain = source->second.grains.find(index);
        return grain == source->second.grains.end() ? 0 : grain->second.round();
    }

  private:
    struct Source {
        GrainGeometry geometry;
        std::map<std::uint32_t, GrainModel> grains;
        GrainBoard::Counters counters;
    };
    std::map<std::uint32_t, Source> sources_;
    std::deque<GrainBoard::Arrived> waiting_;
};

}  // namespace railyard::flow
