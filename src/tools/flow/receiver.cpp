// The target's loop: wait, check, count; the summary at its end.
#include "tools/flow/receiver.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/flow/clocks.h"
#include "tools/flow/files.h"
#include "tools/flow/flow_objects.h"
#include "tools/flow/grain_format.h"
#include "tools/flow/info_exchange.h"
#include "tools/flow/latency.h"
#include "tools/flow/sequence_track.h"
#include "tools/flow/stop_flag.h"

namespace railyard::tools::flow {
namespace {

constexpr std::uint32_t longest_wait_ms = 200;
constexpr double longest_linger_s = 2;

enum class Ending { signal, all_grains, whole_file, sources_gone };

/// When a grain was found, on both clocks.
struct Arrival {
    std::uint64_t monotonic_ns = now_ns();
    std::uint64_t realtime_ns = flow::realtime_ns();
};

class Receiver {
  public:
    explicit Receiver(const Options& options)
        : options_(options),
          memory_(options.ring, options.grain_size),
          instance_(make_instance()),
          regions_(make_regions(memory_)),
          target_(make_target(instance_)) {
        if (!options.output.empty()) output_.emplace(options.output);
        if (!options.info.empty()) info_file_.emplace(options.info.front());
    }

    int run();

  private:
    void announce();
    Ending receive();
    void take(const ryf_grain& grain);
    Taken look_at(const ryf_grain& grain, const Arrival& arrival);
    void keep(const GrainHeader& header, const std::byte* grain);
    SequenceTrack& track_of(std::uint32_t source, std::uint64_t stream);
    void ask_sources();
    [[nodiscard]] bool connected() const;
    bool sources_gone();
    void tell_progress(double seconds);
    int report(Ending ending);
    void linger();
    bool all_well(Ending ending, std::uint64_t lost) const;
    void print(std::FILE* to, std::uint64_t lost) const;
    [[nodiscard]] std::uint64_t lost(bool at_end) const;
    [[nodiscard]] bool file_is_whole() const {
        return file_stream_ && file_grains_ == grains_of_file(file_size_, options_.grain_size);
    }

    const Options& options_;
    std::optional<OutputFile> output_;
    std::optional<InfoFile> info_file_;
    RingMemory memory_;  // outlives the target, whose peers write to it
    Instance instance_;
    Regions regions_;
    Target target_;
    const BootId boot_id_ = boot_id();

    std::map<std::uint32_t, SequenceTrack> tracks_;  ///< by source
    std::uint64_t lost_before_ = 0;                  ///< of streams that others have followed on their source
    std::vector<ryf_source> sources_;
    Latency latency_;
    bool one_clock_ = true;

    std::uint64_t came_ = 0;    ///< announced
    std::uint64_t grains_ = 0;  ///< whole, each once
    std::uint64_t grains_told_ = 0;
    std::uint64_t torn_ = 0;
    std::uint64_t first_ns_ = 0;
    std::uint64_t last_ns_ = 0;
    std::uint64_t quiet_since_ = now_ns();  ///< neither a grain nor a source that could send one

    std::optional<std::uint64_t> file_stream_;
    std::uint64_t file_size_ = 0;
    std::uint64_t file_grains_ = 0;
};

void Receiver::announce() {
    const ryf_config config = config_of(options_, regions_);
    ryf_target_info* made = nullptr;
    check_setup(ryf_target_setup(target_.get(), &config, &made), options_, instance_);
    const TargetInfo info(made);
    const std::string text = text_of(info);
    if (info_file_)
        info_file_->write(text);
    else
        print_info(text);
}

SequenceTrack& Receiver::track_of(std::uint32_t source, std::uint64_t stream) {
    auto at = tracks_.find(source);
    if (at != tracks_.end() && at->second.stream() != stream) {
        lost_before_ += at->second.lost_at_end();
        tracks_.erase(at);
        at = tracks_.end();
    }
    if (at == tracks_.end()) at = tracks_.emplace(source, SequenceTrack(stream, options_.ring)).first;
    return at->second;
}

/// Into the file, where there is one.
void Receiver::keep(const GrainHeader& header, const std::byte* grain) {
    if (!output_) return;
    if ((header.flags & grain_of_file) == 0)
        throw Failure("--output: the initiator sends no file; give it --file, or leave --output out");
    if (file_stream_.value_or(header.stream) != header.stream)
        throw Failure("--output: a second initiator sends, too; run one at a time");
    file_stream_ = header.stream;
    file_size_ = header.file_size;
    output_->write(header.sequence * content_size(options_.grain_size), grain + sizeof(GrainHeader),
                   header.used);
}

/// `misplaced` for whatever is wrong with it. The CRC is computed after the copy into the file: where that
/// finds the grain whole, it was whole when it was copied.
Taken Receiver::look_at(const ryf_grain& grain, const Arrival& arrival) {
    const std::byte* const bytes = memory_.grain(grain.index);
    GrainHeader header;
    if (!read_header(bytes, options_.grain_size, header)) return Taken::misplaced;
    keep(header, bytes);
    if (content_crc_of(bytes, options_.grain_size) != header.content_crc) return Taken::misplaced;
    SequenceTrack& track = track_of(grain.source, header.stream);
    if (!track.take_round(grain.round, grain.index)) return Taken::misplaced;
    const Taken taken = track.take(header.sequence, grain.index);
    if (taken != Taken::fresh) return taken;
    file_grains_ += output_.has_value();
    if ((header.flags & grain_opens) != 0) return taken;
    const bool one_clock = same_boot(boot_id_, header.boot_id);
    const std::uint64_t sent = one_clock ? header.monotonic_ns : header.realtime_ns;
    const std::uint64_t came = one_clock ? arrival.monotonic_ns : arrival.realtime_ns;
    one_clock_ = one_clock_ && one_clock;
    latency_.add(came > sent ? came - sent : 0);
    return taken;
}

void Receiver::take(const ryf_grain& grain) {
    const Arrival arrival;
    if (came_++ == 0) first_ns_ = arrival.monotonic_ns;
    last_ns_ = quiet_since_ = arrival.monotonic_ns;
    const Taken taken = look_at(grain, arrival);
    grains_ += taken == Taken::fresh;
    if (taken != Taken::misplaced) return;
    ++torn_;
    const auto track = tracks_.find(grain.source);
    if (track != tracks_.end()) track->second.take_torn();
}

void Receiver::ask_sources() {
    for (int attempt = 0; attempt < 3; ++attempt) {
        std::size_t count = 0;
        check(ryf_target_sources(target_.get(), nullptr, &count), "count the sources");
        count += 4;  // some may come between the two calls
        sources_.resize(count);
        const ryf_status status = ryf_target_sources(target_.get(), sources_.data(), &count);
        if (status == RYF_ERR_INVALID_ARG) continue;
        check(status, "list the sources");
        sources_.resize(count);
        return;
    }
    throw Failure("cannot list the sources: there are more each time");
}

bool Receiver::connected() const {
    return std::any_of(sources_.begin(), sources_.end(), [](const auto& source) { return source.connected; });
}

/// True when there was a source, none is left, and nothing has come for the time allowed.
bool Receiver::sources_gone() {
    ask_sources();
    const std::uint64_t now = now_ns();
    const bool gone = !sources_.empty() && !connected();
    if (!gone) quiet_since_ = now;
    return gone && now - quiet_since_ >= span_ns(options_.idle_timeout);
}

std::uint64_t Receiver::lost(bool at_end) const {
    std::uint64_t sum = lost_before_;
    for (const auto& [source, track] : tracks_)
        sum += at_end ? track.lost_at_end() : track.lost();
    return sum;
}

void Receiver::tell_progress(double seconds) {
    const double fresh = static_cast<double>(grains_ - grains_told_);
    grains_told_ = grains_;
    if (options_.json) return;
    std::fprintf(stderr, "%llu grains, %.1f a second, %.1f MB/s, %llu lost, %llu torn, p50 %.0f us\n",
                 static_cast<unsigned long long>(grains_), fresh / seconds,
                 fresh * static_cast<double>(options_.grain_size) / seconds / 1e6,
                 static_cast<unsigned long long>(lost(false)), static_cast<unsigned long long>(torn_),
                 latency_.percentile_us(0.5));
}

Ending Receiver::receive() {
    Ticker ticker(now_ns());
    while (!stopping()) {
        ryf_grain grain{};
        const ryf_status status = ryf_target_wait_for_new_grain(target_.get(), &grain, longest_wait_ms);
        if (status == RYF_OK) {
            take(grain);
            if (output_ && file_is_whole()) return Ending::whole_file;
            if (options_.grains != 0 && came_ >= options_.grains) return Ending::all_grains;
        } else if (status == RYF_ERR_TIMEOUT) {
            if (sources_gone()) return Ending::sources_gone;
        } else if (status != RYF_ERR_INTERRUPTED) {
            check(status, "wait for a grain");
        }
        if (const auto seconds = ticker.tick(now_ns())) tell_progress(*seconds);
    }
    return Ending::signal;
}

void Receiver::print(std::FILE* to, std::uint64_t lost) const {
    std::uint64_t overwritten = 0;
    for (const ryf_source& source : sources_)
        overwritten += source.overwritten;
    const double size = static_cast<double>(options_.grain_size);
    const double seconds = static_cast<double>(last_ns_ - first_ns_) / 1e9;
    const double mb_per_s = seconds > 0 ? static_cast<double>(came_ - 1) * size / seconds / 1e6 : 0;
    const double p50 = latency_.percentile_us(0.5);
    const double p99 = latency_.percentile_us(0.99);
    if (options_.json) {
        const nlohmann::ordered_json json = {{"grains", grains_},
                                             {"lost", lost},
                                             {"torn", torn_},
                                             {"overwritten", overwritten},
                                             {"bytes", grains_ * options_.grain_size},
                                             {"seconds", seconds},
                                             {"mb_per_s", mb_per_s},
                                             {"p50_us", p50},
                                             {"p99_us", p99},
                                             {"max_us", latency_.max_us()},
                                             {"clock", one_clock_ ? "monotonic" : "realtime"}};
        std::fprintf(to, "%s\n", json.dump().c_str());
        return;
    }
    std::fprintf(to, "%llu grains, %llu lost, %llu torn, %llu overwritten\n",
                 static_cast<unsigned long long>(grains_), static_cast<unsigned long long>(lost),
                 static_cast<unsigned long long>(torn_), static_cast<unsigned long long>(overwritten));
    std::fprintf(to, "%.1f MB in %.3f s, %.1f MB/s; latency p50 %.1f us, p99 %.1f us, max %.1f us%s\n",
                 static_cast<double>(grains_) * size / 1e6, seconds, mb_per_s, p50, p99, latency_.max_us(),
                 one_clock_ ? "" : " (between the clocks of two machines)");
}

bool Receiver::all_well(Ending ending, std::uint64_t lost) const {
    const auto say = [](const char* what, std::uint64_t have, std::uint64_t want) {
        std::fprintf(stderr, "railyard-flow: %s after %llu of %llu grains\n", what,
                     static_cast<unsigned long long>(have), static_cast<unsigned long long>(want));
    };
    bool well = lost == 0 && torn_ == 0;
    if (output_ && !file_is_whole()) {
        well = false;
        say("the file is not whole: ended", file_grains_,
            file_stream_ ? grains_of_file(file_size_, options_.grain_size) : 0);
    } else if (ending != Ending::all_grains && came_ < options_.grains) {
        well = false;
        say(ending == Ending::signal ? "ended by a signal" : "the initiators have gone", came_,
            options_.grains);
    }
    return well;
}

int Receiver::report(Ending ending) {
    ask_sources();
    if (file_stream_) {
        output_->finish(file_size_);
        for (auto& [source, track] : tracks_)
            track.expect_all(grains_of_file(file_size_, options_.grain_size));
    }
    // What is missing of the last ring may be on its way still, where the end is not the stream's own.
    const std::uint64_t missing = lost(ending == Ending::sources_gone || file_stream_.has_value());
    // An initiator that the info was piped to has read what it wanted.
    print(!info_file_ && output_is_unread() ? stderr : stdout, missing);
    return all_well(ending, missing) ? 0 : 1;
}

/// What has come here may not be known to have arrived at its initiator yet, which would take a target that
/// closes now for lost: it may leave first.
void Receiver::linger() {
    const std::uint64_t deadline = now_ns() + span_ns(longest_linger_s);
    for (ask_sources(); !stopping() && now_ns() < deadline && connected(); ask_sources()) {
        ryf_grain grain{};
        const ryf_status status = ryf_target_wait_for_new_grain(target_.get(), &grain, 10);
        if (status != RYF_ERR_TIMEOUT && status != RYF_ERR_INTERRUPTED) check(status, "wait for a grain");
    }
}

int Receiver::run() {
    announce();
    const Ending ending = receive();
    const int status = report(ending);
    std::fflush(stdout);
    if (ending == Ending::all_grains || ending == Ending::whole_file) linger();
    return status;
}

}  // namespace

int run_target(const Options& options) {
    return Receiver(options).run();
}

}  // namespace railyard::tools::flow
