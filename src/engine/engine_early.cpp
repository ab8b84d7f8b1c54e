// Notifications that leave together with their data (ADR 36): whose, and what engines tell each other for it.
#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/wire.h"
#include "engine/engine_impl.h"
#include "engine/envelope.h"

namespace railyard {

namespace {

/// Writers with numbers that others could use are asked so often whether they are there, at most.
constexpr std::uint64_t writer_asked_ns = 60'000'000'000;

}  // namespace

static_assert(EarlyMark::most_unread <= Rail::most_unread_immediates);

/// Each operation goes over a rail whose completion at the target is the word that its bytes are there, to
/// memory that nobody has to flush.
bool Engine::Impl::may_be_early(const Transfer& transfer) const noexcept {
    const auto tells = [](const Route& route) {
        return route.rail->tells_of_writes() && route.carriers.empty() && !route.forwarding;
    };
    const auto by_kernel = [](const auto& range) { return range.host_first; };
    return config_.params.early_notifications == "auto" && transfer.peer &&
           transfer.kind == Work::Kind::write && !transfer.chunks.empty() &&
           transfer.chunks.size() <= EarlyMark::most_operations && !transfer.remote_flush &&
           transfer.late_gpus.empty() && std::all_of(transfer.routes.begin(), transfer.routes.end(), tells) &&
           std::none_of(transfer.lane_routes.begin(), transfer.lane_routes.end(), by_kernel);
}

bool Engine::Impl::goes_early(Transfer& transfer) noexcept {
    transfer.immediate.reset();
    transfer.forget_replaced_immediates();
    if (!transfer.has_notification || transfer.start_control) return false;
    Peer& peer = *transfer.peer;
    const auto failed = [](const Route& route) { return route.has_failed(); };
    if (peer.control_route().path->failed() ||
        std::any_of(transfer.routes.begin(), transfer.routes.end(), failed))
        return false;
    const auto operations = static_cast<std::uint8_t>(transfer.chunks.size());
    transfer.immediate = peer.early().begin(operations);
    if (transfer.immediate) {
        transfer.notification.marks = {*transfer.immediate, operations};
        transfer.early_id = peer.next_message_id();
        transfer.repeats = Transfer::may_repeat_early;
        transfer.inquiries = &inquiries_;
        return true;
    }
    if (peer.early().ends_dearth(operations, coarse_now_ns()))
        peer.doubt_introduction();  // it may not know whom to tell
    if (peer.early().wants_number() && peer.early().asks()) ask_for_number(transfer.peer);
    return false;
}

void Engine::Impl::ask_for_number(const std::shared_ptr<Peer>& peer) noexcept {
    try {
        peer->require_introduction();
        introduce(peer);
        std::string text;
        WireWriter(text).number(peer->early().old_number());
        send_own(peer, MessageKind::number_wanted, std::move(text));
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, peer->agent().c_str(), "could not be asked for a number: %s", error.what());
    }
}

/// Where others hear of immediate data, or it would take receive buffers, there is no number. Who has
/// overtaken its own introduction asks again.
void Engine::Impl::on_number_wanted(const Letter& letter) {
    const std::shared_ptr<Peer> peer = known_instance(letter.agent, letter.nonce);
    if (!peer) return;
    WireReader reader(letter.text);
    const auto old = reader.number<std::uint32_t>();
    require_consistent(reader.whole() && old <= EarlyMark::most_writers, "wish for a number");
    const EarlyNotices::Number given =
        rails_->tell_of_writes() ? number_for(letter, old) : EarlyNotices::Number{};
    RAILYARD_LOG(debug, letter.agent.c_str(),
                 "may send notifications together with their data, as number %u, up to %u ahead",
                 given.number, unsigned{given.window});
    std::string text;
    WireWriter writer(text);
    writer.number(old);
    writer.number(given.number);
    writer.number(std::uint32_t{given.window});
    send_own(peer, MessageKind::number, std::move(text));
}

/// Those that have gone, or are not known any more, keep nobody from a wide window; and once all are given
/// out, one that is closed becomes another's. Of writers that are only written back to nobody knows when they
/// end: they are asked, and what comes of it is of use to the next.
EarlyNotices::Number Engine::Impl::number_for(const Letter& letter, std::uint32_t old) {
    std::vector<std::uint64_t> lost = inbox_.instances_in_the_way();
    if (!lost.empty()) {
        std::vector<std::uint64_t> there;
        for (const std::shared_ptr<Peer>& peer : all_peers()) {
            if (!std::binary_search(lost.begin(), lost.end(), peer->nonce()) || peer->gone() ||
                (peer->has_control_route() && peer->control_route().path->failed()))
                continue;
            there.push_back(peer->nonce());
            const DueKeepalive due = peer->due_keepalive(now_ns(), writer_asked_ns, false);
            if (due.endpoint) ping(peer, *due.endpoint, config_.params.connect_timeout_ms * 1'000'000);
        }
        std::sort(there.begin(), there.end());
        std::erase_if(lost, [&](std::uint64_t instance) {
            return std::binary_search(there.begin(), there.end(), instance);
        });
        inbox_.close_lost(lost);
    }
    if (const EarlyNotices::Number given = inbox_.number(letter.nonce, old); given.number) return given;
    return inbox_.rested_number(letter.nonce, now_ns());
}

void Engine::Impl::on_number(const Letter& letter) {
    const std::shared_ptr<Peer> peer = require_instance(letter, "number");
    WireReader reader(letter.text);
    const auto old = reader.number<std::uint32_t>(), number = reader.number<std::uint32_t>();
    const auto window = reader.number<std::uint32_t>();
    require_consistent(reader.whole() && number <= EarlyMark::most_writers, "number");
    peer->early().answer(old, number, window, static_cast<std::uint32_t>(random_u64()));
}

/// Not with a rail's role held.
void Engine::Impl::send_inquiries() noexcept {
    while (true) {
        const auto [inquiry, again, waited] = inquiries_.take_due(now_ns());
        if (!inquiry) return;
        if (again) {
            inquiry->peer->doubt_introduction();
            introduce_soon();
        }
        try {
            std::string text;
            WireWriter writer(text);
            writer.number(inquiry->mark);
            writer.number(inquiry->next);
            writer.number(inquiry->message);
            send_own(inquiry->peer, MessageKind::mark_asked, std::move(text));
            RAILYARD_LOG(debug, inquiry->peer->agent().c_str(), "asked what has become of mark %08x",
                         inquiry->mark);
        } catch (const std::exception& error) {
            RAILYARD_LOG(warn, inquiry->peer->agent().c_str(), "could not be asked about a mark: %s",
                         error.what());
            inquiry->answer(Work::Verdict::lost);
        }
    }
}

void Engine::Impl::on_mark_asked(const Letter& letter) {
    const std::shared_ptr<Peer> peer = require_instance(letter, "question about a mark");
    WireReader reader(letter.text);
    const auto mark = reader.number<std::uint32_t>(), next = reader.number<std::uint32_t>();
    const auto message = reader.number<std::uint64_t>();
    require_consistent(reader.whole(), "question about a mark");
    const bool in_place = inbox_.is_in_place(letter.nonce, mark, next, message);
    std::string text;
    WireWriter writer(text);
    writer.number(mark);
    writer.number(static_cast<std::uint8_t>(in_place ? 1 : 0));
    send_own(peer, MessageKind::mark_answer, std::move(text));
}

void Engine::Impl::on_mark_answer(const Letter& letter) {
    WireReader reader(letter.text);
    const auto mark = reader.number<std::uint32_t>();
    const auto in_place = reader.number<std::uint8_t>();
    require_consistent(reader.whole() && in_place <= 1, "answer about a mark");
    inquiries_.answered(letter.nonce, mark, in_place ? Work::Verdict::done : Work::Verdict::repeat);
}

/// Not with a rail's role held. Each is told once, however many threads look. Whom there is no memory to tell
/// is told at a later look: what it is not told of, it may never use again.
void Engine::Impl::tell_credits() noexcept {
    EarlyNotices::Credits credits = inbox_.take_credits();
    try {
        for (; !credits.empty(); credits.pop_front()) {
            const EarlyNotices::Credit& credit = credits.front();
            const std::shared_ptr<Peer> peer = known_instance(credit.agent, credit.instance);
            if (!peer || peer->gone()) {
                inbox_.put_off(credit);  // it may only have been disconnected here, and go on
                continue;
            }
            std::string text;
            WireWriter writer(text);
            writer.number(credit.number);
            writer.number(credit.count);
            send_own(peer, MessageKind::credit, std::move(text));
        }
    } catch (const std::exception& error) {
        inbox_.give_back(std::move(credits));
        RAILYARD_LOG(debug, agent().c_str(), "writers are not told how far they are yet: %s", error.what());
    }
}

/// Also of an instance that was disconnected here: it is counted on if it is met again.
void Engine::Impl::on_credit(const Letter& letter) {
    WireReader reader(letter.text);
    const auto number = reader.number<std::uint32_t>(), count = reader.number<std::uint32_t>();
    require_consistent(reader.whole(), "credit");
    if (const std::shared_ptr<MessageIds> ids = message_counters_.known(letter.nonce))
        ids->early.credit(count, number);
}

}  // namespace railyard
