// Flows: what initiators read of a target, and sequences of what arrives at one: letters and immediate data
// of any value, compared with a model that is too simple to be wrong.
#include <algorithm>
#include <array>

#include "engine/metadata.h"
#include "flow/grain_board.h"
#include "flow/letters.h"
#include "flow/target_info.h"
#include "targets.h"
#include "test/flow/model.h"

namespace railyard::fuzz {
namespace {

using flow::FlowLetter;
using flow::GrainBoard;
using flow::GrainGeometry;
using flow::LetterKind;
using flow::UnitName;

/// Nothing where a number is refused, which the other end is told of.
std::optional<GrainGeometry> geometry_of(std::uint32_t grains, std::uint64_t length, std::uint32_t slices,
                                         std::uint64_t unit) {
    try {
        return GrainGeometry(grains, length, slices, unit);
    } catch (const Error& error) {
        require(error.status() == Status::invalid_param, "grains that cannot be cut are refused as such");
        return std::nullopt;
    }
}

/// A target's board and its model, with grains of one shape whose units each source chooses.
class FlowCourse {
  public:
    FlowCourse(std::uint32_t grains, std::uint64_t length, std::uint32_t slices)
        : grains_(grains), length_(length), slices_(slices) {}

    void open(std::uint32_t source, std::uint64_t unit) {
        const auto geometry = geometry_of(grains_, length_, slices_, unit);
        if (!geometry) return;
        require(geometry->units() == flow::count_units(length_, slices_, unit), "units are counted");
        board_.open(source, *geometry);
        model_.open(source, *geometry);
        bits_[source] = geometry->bits();
        check();
    }
    void immediate(std::uint32_t data) {
        board_.on_immediate(data);
        model_.on_immediate(data);
        check();
    }
    void take(std::uint32_t source, const UnitName& first, std::uint32_t count) {
        board_.take(source, first, count);
        UnitName name = first;
        for (std::uint32_t i = 0; i < count && name.unit < flow::most_units; ++i, ++name.unit)
            model_.take(source, name);
        check();
    }
    void letter(std::uint32_t source, std::string_view text) {
        const auto read = unless_refused([&] { return flow::decode_letter(text); });
        if (!read) return;
        require(flow::encode(*read) == text, "what a decoder took, its encoder makes again");
        require(read->source < flow::most_sources, "a source is one that there can be");
        if (read->kind == LetterKind::open) open(source, read->unit);
        if (read->kind == LetterKind::grain)
            take(source, {source, read->round, read->index, read->first}, read->count);
    }
    void pop() {
        const auto got = board_.pop(), wanted = model_.pop();
        require(got.has_value() == wanted.has_value(), "grains are taken as often as they became whole");
        if (!got) return;
        popped_ = true;
        require(got->source == wanted->source && got->index == wanted->index && got->round == wanted->round,
                "a grain that is taken was whole, and in its turn");
        check();
    }
    void pop_all() {
        while (!board_.empty())
            pop();
        pop();
    }
    /// So many rounds ahead of the latest one, as an initiator has it.
    [[nodiscard]] std::uint32_t round(std::uint32_t source, std::uint32_t index, std::uint32_t ahead) const {
        return static_cast<std::uint32_t>(model_.round(source, index) + ahead);
    }
    [[nodiscard]] std::uint32_t packed(const UnitName& name) const { return bits_[name.source].pack(name); }
    [[nodiscard]] bool popped() const noexcept { return popped_; }

  private:
    void check() const {
        require(board_.empty() == model_.empty(), "whole grains wait");
        for (std::uint32_t source = 0; source < flow::most_sources; ++source) {
            const GrainBoard::Counters got = board_.counters(source), wanted = model_.counters(source);
            require(got.grains == wanted.grains && got.lost == wanted.lost &&
                        got.overwritten == wanted.overwritten,
                    "grains are counted");
            require(got.overwritten <= got.grains, "what is overwritten was whole");
        }
    }

    const std::uint32_t grains_;
    const std::uint64_t length_;
    const std::uint32_t slices_;
    GrainBoard board_;
    flow::BoardModel model_;
    std::array<flow::NameBits, flow::most_sources> bits_;
    bool popped_ = false;
};

/// Units of one round, some of them, in one of a few orders.
void honest_units(Feed& feed, FlowCourse& course, std::uint32_t source) {
    const std::uint32_t index = feed.number<std::uint8_t>();
    const std::uint32_t round = course.round(source, index, feed.number<std::uint8_t>());
    const std::uint32_t first = feed.number<std::uint8_t>(), count = feed.number<std::uint8_t>();
    const bool backwards = feed.number<std::uint8_t>() & 1;
    for (std::uint32_t i = 0; i < count; ++i)
        course.immediate(course.packed({source, round, index, first + (backwards ? count - 1 - i : i)}));
}

/// In the order of its fields.
FlowLetter crafted_letter(Feed& feed) {
    FlowLetter letter{static_cast<LetterKind>(1 + feed.number<std::uint8_t>() % 5),
                      feed.number<std::uint8_t>()};
    if (letter.kind == LetterKind::open) {
        letter.unit = feed.number<std::uint64_t>();
        letter.connection = feed.take(feed.number<std::uint8_t>());
    } else if (letter.kind == LetterKind::taken) {
        letter.source = feed.number<std::uint8_t>();
    } else if (letter.kind == LetterKind::refused) {
        letter.reason = feed.take(feed.number<std::uint16_t>());
    } else if (letter.kind == LetterKind::grain) {
        letter.index = feed.number<std::uint16_t>();
        letter.round = feed.number<std::uint32_t>();
        letter.first = feed.number<std::uint32_t>();
        letter.count = feed.number<std::uint32_t>();
    }
    return letter;
}

void step(Feed& feed, FlowCourse& course) {
    const auto what = feed.number<std::uint8_t>();
    const std::uint32_t source = what >> 4;
    switch (what & 7) {
        case 0:
            return course.open(source, feed.number<std::uint16_t>());
        case 1:
            return course.immediate(feed.number<std::uint32_t>());
        case 2:
            return honest_units(feed, course, source);
        case 3: {
            const auto index = feed.number<std::uint16_t>();
            const std::uint32_t round = course.round(source, index, feed.number<std::uint8_t>());
            const auto first = feed.number<std::uint16_t>();
            return course.take(source, {source, round, index, first}, feed.number<std::uint16_t>());
        }
        case 4:
            return course.letter(source, flow::encode(crafted_letter(feed)));
        case 5:
            return course.letter(source, feed.take(feed.number<std::uint8_t>()));
        case 6:
            return course.pop();
        default:
            return course.pop_all();
    }
}

}  // namespace

bool fuzz_flow_info(std::string_view input) {
    const auto info = unless_refused([&] { return flow::target_info_from_json(input); });
    if (!info) return false;
    const std::string text = flow::to_json(*info);
    const auto again = unless_refused([&] { return flow::target_info_from_json(text); });
    require(again.has_value(), "what was read can be written and read");
    require(flow::to_json(*again) == text, "and is the same");
    require(encode(again->connection) == encode(info->connection) && again->slices == info->slices,
            "so is the connection");
    require(!info->regions.empty() && again->regions.size() == info->regions.size(), "so are the regions");
    const auto grains = static_cast<std::uint32_t>(info->regions.size());
    const std::uint64_t length = info->regions.front().length;
    for (std::size_t i = 0; i < grains; ++i) {
        require(encode(again->regions[i]) == encode(info->regions[i]), "each");
        require(info->regions[i].length == length, "grains have one length");
    }
    for (const std::uint64_t wanted : {std::uint64_t{1}, std::uint64_t{256} << 10, UINT64_MAX})
        require(GrainGeometry::choose(grains, length, info->slices, wanted).units() >= info->slices,
                "grains of what was read can be cut");
    return true;
}

bool fuzz_flow_board(std::string_view input) {
    Feed feed(input);
    const auto grains = feed.number<std::uint16_t>();
    const auto slices = feed.number<std::uint8_t>();
    const std::uint64_t length = feed.number<std::uint32_t>();
    if (!geometry_of(grains, length, slices, std::max<std::uint64_t>(length, 1))) return false;
    FlowCourse course(grains, length, slices);
    for (int steps = 0; steps < 300 && !feed.empty(); ++steps)
        step(feed, course);
    course.pop_all();
    return course.popped();
}

}  // namespace railyard::fuzz
