// The initiator's loop: make room, fill, wait for the time, send; the summary at its end.
#include "tools/flow/sender.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/random.h"
#include "common/spoken.h"
#include "tools/flow/clocks.h"
#include "tools/flow/files.h"
#include "tools/flow/flow_objects.h"
#include "tools/flow/grain_format.h"
#include "tools/flow/info_exchange.h"
#include "tools/flow/stop_flag.h"

namespace railyard::tools::flow {
namespace {

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t short_nap_ns = 50'000;      ///< while something is on its way and a grain is due soon
constexpr std::uint64_t last_wait_ns = 2'000 * ms;  ///< for what is on its way at a stop signal
constexpr unsigned most_complaints = 20;
constexpr unsigned most_failures_in_a_row = 10'000;

class Sender {
  public:
    explicit Sender(const Options& options)
        : options_(options),
          memory_(options.ring, options.grain_size),
          instance_(make_instance()),
          regions_(make_regions(memory_)),
          initiator_(make_initiator(instance_)) {
        if (!options.file.empty()) file_.emplace(options.file);
        header_.stream = random_u64();
        header_.grain_size = options.grain_size;
        header_.boot_id = boot_id();
        if (file_) header_.file_size = file_->size();
    }

    int run();

  private:
    void add_targets();
    void add_target(const std::string& path, const std::string& text);
    void open_stream();
    void wait_for_targets(std::uint64_t deadline);
    void send_stream();
    void fill();
    bool send();
    bool send_part(std::uint32_t index, std::uint32_t slice);
    bool wait_for_room();
    bool wait_until(std::uint64_t due);
    void wait_for_end();
    void progress(std::uint32_t timeout_ms);
    void complain(const char* what);
    void tell_progress(double seconds);
    int report() const;
    [[nodiscard]] std::uint64_t last() const {
        return file_ ? grains_of_file(file_->size(), options_.grain_size) : options_.grains;
    }
    [[nodiscard]] bool all_sent() const { return last() != 0 && sent_ >= last(); }
    [[nodiscard]] bool targets_left() const { return lost_targets_ < targets_; }

    const Options& options_;
    std::optional<InputFile> file_;
    RingMemory memory_;  // outlives the initiator, which reads it
    Instance instance_;
    Regions regions_;
    Initiator initiator_;

    GrainHeader header_;           ///< of the grain that is sent next
    std::uint64_t under_way_ = 0;  ///< grains sent since nothing was left: the places that must not change
    std::uint64_t sent_ = 0;
    std::uint64_t sent_told_ = 0;
    std::uint64_t late_ = 0;
    std::uint64_t failed_ = 0;
    unsigned failed_in_a_row_ = 0;
    unsigned complaints_ = 0;
    std::uint64_t targets_ = 0;
    std::uint64_t lost_targets_ = 0;
    std::uint64_t began_ns_ = 0;  ///< the first grain was sent, and had arrived
    std::uint64_t ended_ns_ = 0;
};

void Sender::add_target(const std::string& path, const std::string& text) {
    const std::string option = path.empty() ? "standard input" : "--info " + path;
    ryf_target_info* made = nullptr;
    ryf_status status = ryf_target_info_from_string(text.c_str(), &made);
    if (status == RYF_ERR_INVALID_ARG) {
        throw UsageError(option + ": no target info: " + words_for(status) +
                         "; give what a target of railyard-flow wrote");
    }
    check(status, "read the target info");
    const TargetInfo info(made);
    status = ryf_initiator_add_target(initiator_.get(), info.get());
    if (status == RYF_ERR_INVALID_ARG) {
        throw UsageError(option + ": " + words_for(status) +
                         "; give both sides the same --preset, --grain-size, --ring and --provider");
    }
    if (status == RYF_ERR_EXISTS)
        throw UsageError(option + ": names a target for the second time; leave it out");
    check(status, "add a target");
    ++targets_;
}

/// Waits for the infos first, so that rails are not open without anybody to use them.
void Sender::add_targets() {
    std::vector<std::string> paths = options_.info;
    if (paths.empty()) paths.emplace_back();
    const std::uint64_t deadline = now_ns() + span_ns(options_.connect_timeout);
    std::vector<std::string> texts;
    for (const std::string& path : paths)
        texts.push_back(await_info(path, deadline));
    if (stopping()) return;
    const ryf_config config = config_of(options_, regions_);
    check_setup(ryf_initiator_setup(initiator_.get(), &config), options_, instance_);
    for (std::size_t i = 0; i < paths.size(); ++i)
        add_target(paths[i], texts[i]);
}

void Sender::complain(const char* what) {
    if (++complaints_ <= most_complaints)
        std::fprintf(stderr, "railyard-flow: %s: %s\n", what, ryf_last_error());
}

/// Looks after what is on its way, for at most `timeout_ms`; 0: one look.
void Sender::progress(std::uint32_t timeout_ms) {
    const ryf_status status = timeout_ms == 0
                                  ? ryf_initiator_make_progress(initiator_.get())
                                  : ryf_initiator_make_progress_blocking(initiator_.get(), timeout_ms);
    switch (status) {
        case RYF_OK:
            under_way_ = 0;
            failed_in_a_row_ = 0;
            return;
        case RYF_ERR_NOT_READY:
        case RYF_ERR_TIMEOUT:
        case RYF_ERR_INTERRUPTED:
            return;
        case RYF_ERR_DISCONNECTED:
            ++lost_targets_;
            complain("a target is gone");
            return;
        case RYF_ERR_INTERNAL:
            ++failed_;
            if (++failed_in_a_row_ > most_failures_in_a_row) check(status, "send");
            complain("a grain was not sent");
            return;
        default:
            check(status, "make progress");
    }
}

/// Content of the next grain, and its header but for the time.
void Sender::fill() {
    std::byte* const grain = memory_.grain(static_cast<std::uint32_t>(sent_ % options_.ring));
    header_.sequence = sent_;
    header_.flags = sent_ == 0 ? grain_opens : 0;
    header_.used = content_size(options_.grain_size);
    if (file_) {
        header_.flags |= grain_of_file;
        header_.used = file_->read(sent_ * content_size(options_.grain_size), grain + sizeof(GrainHeader),
                                   content_size(options_.grain_size));
    } else {
        fill_content(grain, options_.grain_size, sent_);
    }
    header_.content_crc = content_crc_of(grain, options_.grain_size);
}

/// One slice, or all of the grain without --send-slices. False when there is nobody left, or at a stop
/// signal.
bool Sender::send_part(std::uint32_t index, std::uint32_t slice) {
    for (;;) {
        const ryf_status status = options_.send_slices
                                      ? ryf_initiator_transfer_slices(initiator_.get(), index, slice, slice)
                                      : ryf_initiator_transfer_grain(initiator_.get(), index);
        if (status == RYF_OK) return true;
        if (status == RYF_ERR_NOT_FOUND) return false;
        if (status == RYF_ERR_INVALID_ARG && options_.send_slices)
            throw UsageError("--slices: " + words_for(status) + "; give the number that the target has");
        if (status != RYF_ERR_NOT_READY) check(status, "send a grain");
        if (stopping()) return false;
        progress(10);
    }
}

bool Sender::send() {
    const auto index = static_cast<std::uint32_t>(sent_ % options_.ring);
    header_.realtime_ns = realtime_ns();
    header_.monotonic_ns = now_ns();
    write_header(memory_.grain(index), header_);
    const std::uint32_t parts = options_.send_slices ? options_.slices : 1;
    ++under_way_;
    for (std::uint32_t slice = 0; slice < parts; ++slice) {
        if (!send_part(index, slice)) return false;
    }
    ++sent_;
    return true;
}

/// The answers of all targets, as one that is late would be left out of what is sent before; and then the
/// first grain alone. When it is there the clock starts.
void Sender::open_stream() {
    began_ns_ = now_ns();
    const std::uint64_t deadline = began_ns_ + span_ns(options_.connect_timeout);
    ++under_way_;
    wait_for_targets(deadline);
    if (!targets_left() || stopping()) return;
    fill();
    if (!send()) return;
    wait_for_targets(deadline);
    began_ns_ = now_ns();
}

/// Until nothing is left. Throws Failure when that takes too long.
void Sender::wait_for_targets(std::uint64_t deadline) {
    while (under_way_ != 0 && targets_left() && !stopping()) {
        if (now_ns() >= deadline)
            throw Failure(
                "no answer from a target; see that it runs and can be reached, or raise "
                "--connect-timeout");
        progress(100);
    }
}

/// Until the place of the next grain is free: at once, but where the whole ring may be under way.
bool Sender::wait_for_room() {
    progress(0);
    while (under_way_ >= options_.ring && targets_left() && !stopping())
        progress(100);
    return targets_left() && !stopping();
}

/// Looks after what is on its way until it is time. Sleeps: in the library while that has something to do and
/// there is a millisecond for it.
bool Sender::wait_until(std::uint64_t due) {
    for (std::uint64_t now = now_ns(); now < due && targets_left() && !stopping(); now = now_ns()) {
        const std::uint64_t left = due - now;
        if (under_way_ == 0) {
            sleep_until(std::min(due, now + 100 * ms));
            progress(0);
        } else if (left > 2 * ms) {
            progress(static_cast<std::uint32_t>(std::min<std::uint64_t>(left / ms - 1, 100)));
        } else {
            progress(0);
            sleep_until(std::min(due, now_ns() + short_nap_ns));
        }
    }
    return targets_left() && !stopping();
}

/// What is late makes up for it at twice the rate, not all at once: targets need their time for each grain.
void Sender::send_stream() {
    Ticker ticker(began_ns_);
    const double period_ns = options_.rate > 0 ? 1e9 / options_.rate : 0;
    std::uint64_t last_ns = began_ns_;
    while (!all_sent() && wait_for_room()) {
        fill();
        const std::uint64_t due =
            began_ns_ + static_cast<std::uint64_t>(static_cast<double>(sent_) * period_ns);
        const std::uint64_t earliest = last_ns + static_cast<std::uint64_t>(period_ns / 2);
        if (!wait_until(std::max(due, earliest))) return;
        last_ns = now_ns();
        late_ += period_ns > 0 && last_ns - due > static_cast<std::uint64_t>(period_ns);
        if (!send()) return;
        if (const auto seconds = ticker.tick(now_ns())) tell_progress(*seconds);
    }
}

void Sender::wait_for_end() {
    const std::uint64_t deadline = now_ns() + last_wait_ns;
    while (under_way_ != 0 && targets_left() && (!stopping() || now_ns() < deadline))
        progress(100);
    ended_ns_ = now_ns();
}

void Sender::tell_progress(double seconds) {
    const double fresh = static_cast<double>(sent_ - sent_told_);
    sent_told_ = sent_;
    if (options_.json) return;
    std::fprintf(stderr, "%llu grains, %.1f a second, %.1f MB/s, %llu late, %llu of %llu targets\n",
                 static_cast<unsigned long long>(sent_), fresh / seconds,
                 fresh * static_cast<double>(options_.grain_size) / seconds / 1e6,
                 static_cast<unsigned long long>(late_),
                 static_cast<unsigned long long>(targets_ - lost_targets_),
                 static_cast<unsigned long long>(targets_));
}

int Sender::report() const {
    const double size = static_cast<double>(options_.grain_size);
    const double seconds = static_cast<double>(ended_ns_ - began_ns_) / 1e9;
    const double mb_per_s =
        seconds > 0 && sent_ > 1 ? static_cast<double>(sent_ - 1) * size / seconds / 1e6 : 0;
    if (options_.json) {
        const nlohmann::ordered_json json = {{"grains", sent_},
                                             {"targets", targets_},
                                             {"lost_targets", lost_targets_},
                                             {"failed", failed_},
                                             {"bytes", sent_ * options_.grain_size},
                                             {"seconds", seconds},
                                             {"mb_per_s", mb_per_s},
                                             {"late", late_}};
        std::printf("%s\n", json.dump().c_str());
    } else {
        std::printf("%s to %s, %llu late; %.1f MB in %.3f s, %.1f MB/s\n", counted(sent_, "grain").c_str(),
                    counted(targets_, "target").c_str(), static_cast<unsigned long long>(late_),
                    static_cast<double>(sent_) * size / 1e6, seconds, mb_per_s);
        std::printf("%s lost, %s failed\n", counted(lost_targets_, "target").c_str(),
                    counted(failed_, "grain").c_str());
    }
    const bool cut_short = last() != 0 && !all_sent();
    if (cut_short && file_) {
        std::fprintf(stderr, "railyard-flow: --file: not all of it was sent\n");
    } else if (cut_short) {
        std::fprintf(stderr, "railyard-flow: ended after %llu of %llu grains\n",
                     static_cast<unsigned long long>(sent_), static_cast<unsigned long long>(last()));
    }
    const bool on_its_way = under_way_ != 0 && targets_left();
    if (on_its_way) {
        std::fprintf(stderr, "railyard-flow: ended while up to %llu grains were still on their way\n",
                     static_cast<unsigned long long>(under_way_));
    }
    return lost_targets_ == 0 && failed_ == 0 && !cut_short && !on_its_way ? 0 : 1;
}

int Sender::run() {
    add_targets();
    if (!stopping()) {
        open_stream();
        send_stream();
        wait_for_end();
    }
    return report();
}

}  // namespace

int run_initiator(const Options& options) {
    return Sender(options).run();
}

}  // namespace railyard::tools::flow
