// Memory that NICs know by another key since it was described (ADR 38): who is refused asks its owner.
#include "common/clock.h"
#include "common/log.h"
#include "engine/engine_impl.h"
#include "engine/pinned.h"

namespace railyard {
namespace {

bool is_there(const Registration& region, std::uint64_t device_id) {
    return region.device_id == device_id && !region.revoked.load(std::memory_order_acquire);
}

bool has(const KeyTable& table, std::uint16_t rail, std::uint64_t key) {
    const std::size_t at = position(table.rails, rail);
    return at < table.rails.size() && table.keys[at].key == key;
}

}  // namespace

void Engine::Impl::let_keys_be_renewed(Transfer& transfer) noexcept {
    if (!transfer.peer || !rails_->tell_of_refused_keys()) return;
    transfer.renews = Transfer::renew_keys;
    transfer.key_inquiries = &key_inquiries_;
}

/// Not with a rail's role held.
void Engine::Impl::send_key_inquiries() noexcept {
    // Whoever waited for the answer has given up by then, and a later refusal asks anew.
    const std::uint64_t patience = 2 * config_.params.connect_timeout_ms * 1'000'000;
    while (true) {
        const auto [inquiry, again, waited] = key_inquiries_.take_due(now_ns());
        if (!inquiry) return;
        const std::shared_ptr<Peer>& peer = inquiry->peer;
        if (waited > patience || inquiry->verdict() == Work::Verdict::lost) {
            // Each message would take a receive buffer of a peer that looks at none.
            if (key_inquiries_.take_answered(peer->nonce(), inquiry->question.id)) inquiry->answer({});
            continue;
        }
        try {
            peer->require_introduction();
            if (again) peer->doubt_introduction();
            introduce(peer);
            send_own(peer, MessageKind::keys_asked, encode(inquiry->question));
            RAILYARD_LOG(debug, peer->agent().c_str(), "asked which keys its memory at 0x%llx has now",
                         static_cast<unsigned long long>(inquiry->question.address));
        } catch (const std::exception& error) {
            RAILYARD_LOG(warn, peer->agent().c_str(), "could not be asked for keys: %s", error.what());
        }
    }
}

void Engine::Impl::on_keys_asked(const Letter& letter) {
    const std::shared_ptr<Peer> peer = require_instance(letter, "question about keys");
    const KeyQuestion question = decode_key_question(letter.text);
    send_own(peer, MessageKind::keys, encode(KeyAnswer{question.id, present_keys(question)}));
}

/// Of the one that was made last: its pages are those that the program has there now. But where the refused
/// key is one's, it is told that. Who asks has been told a key, the region's own or of the first description.
KeyTable Engine::Impl::present_keys(const KeyQuestion& question) {
    KeyTable present;
    const MutexLock lock(registrations_mutex_);
    const auto [first, last] = registrations_.equal_range(RangeOfMemory{question.address, question.length});
    for (auto at = first; at != last; ++at) {
        const auto& region = *at;
        if (!is_there(*region, question.device_id)) continue;
        try {
            Pinned pinned;
            pinned.add(region);
            KeyTable own = region->key_table();
            if (has(own, question.refused_rail, question.refused_key)) return own;
            if (!has(own, question.rail, question.key) &&
                !(region->first && has(*region->first, question.rail, question.key)))
                continue;
            present = std::move(own);
        } catch (const Error&) {
            // It is being deregistered.
        }
    }
    return present;
}

void Engine::Impl::on_keys(const Letter& letter) {
    KeyAnswer answer = decode_key_answer(letter.text);
    const auto inquiry = key_inquiries_.take_answered(letter.nonce, answer.id);
    if (!inquiry) return;
    if (!answer.memory.rails.empty() && answer.memory.rails != inquiry->rails)
        RAILYARD_LOG(info, letter.agent.c_str(),
                     "its memory is on other rails now than 0x%llx was described on: operations by those end "
                     "with an error until its description is loaded anew",
                     static_cast<unsigned long long>(inquiry->question.address));
    inquiry->answer(std::move(answer.memory));
}

}  // namespace railyard
