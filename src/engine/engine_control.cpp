#include <algorithm>

#include "common/boot_id.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/spoken.h"
#include "common/variables.h"
#include "engine/engine_impl.h"
#include "rail/host_card.h"

namespace railyard {
namespace {

/// What the destructor grants queued notifications to leave.
constexpr std::uint64_t flush_limit_ns = 2'000'000'000;

constexpr std::size_t most_spares = 32;

EngineConfig checked(EngineConfig config) {
    warn_of_unknown_variables();
    if (config.agent_name.empty() || config.agent_name.size() > max_agent_name) {
        throw Error(Status::invalid_param, "agent name must have 1 to " + std::to_string(max_agent_name) +
                                               " bytes, this one has " +
                                               std::to_string(config.agent_name.size()));
    }
    return config;
}

void require_same_provider(const ConnectionInfo& info, const std::string& ours) {
    if (info.provider == ours) return;
    // Both are asked for as tcp.
    const bool releases =
        (info.provider == "net" && ours == "tcp") || (info.provider == "tcp" && ours == "net");
    throw Error(Status::mismatch, "agent \"" + info.agent + "\" uses provider " +
                                      spoken_provider(info.provider) + ", ours is " + spoken_provider(ours) +
                                      (releases ? ": libfabric 1.17 and later ones do not understand each "
                                                  "other over tcp: have the same release on both sides"
                                                : ": set the same provider on both sides"));
}

/// shm gets there as little as to a container with a /dev/shm of its own, and nobody would say so before
/// transfers end for want of an answer.
void warn_of_other_host(const ConnectionInfo& info) {
    if (info.provider != "shm" || info.host.empty()) return;
    try {
        if (same_boot(decode_card_address(info.host).boot, boot_id())) return;
    } catch (const Error&) {
        return;  // of another version; who reaches it within the host says so
    }
    RAILYARD_LOG(warn, info.agent.c_str(),
                 "is on another host, or in a virtual machine of its own, where shm does not reach it: set "
                 "provider=tcp, or one of NICs, on both sides");
}

/// Else its control messages would be refused there and ours here, without a word to whoever waits for them.
void require_same_secret(const MessageAuth& auth, const ConnectionInfo& info) {
    const char* wrong = nullptr;
    if (!auth.on()) {
        if (!info.tag.empty()) wrong = "set there and not here";
    } else if (info.tag.empty()) {
        wrong = "set here and not there";
    } else if (!auth.valid(MessageAuth::Use::connection_info, signed_part(info), info.tag)) {
        wrong = "another one there than here";
    }
    if (wrong) {
        throw Error(Status::mismatch, "connection info of agent \"" + info.agent +
                                          "\" refused: cluster_secret is " + wrong +
                                          "; it has to be the same on every engine");
    }
}

}  // namespace

Engine::Impl::Impl(EngineConfig config)
    : config_(checked(std::move(config))),
      nonce_(random_u64()),
      waiting_letters_(config_.params.connect_timeout_ms * 1'000'000),
      forward_(*this, *this, config_.params.connect_timeout_ms * 1'000'000),
      rails_(std::make_shared<RailManager>(config_.params, config_.progress_thread, inbox_)) {
    pace_ = RailPace(rails_->size());
    looks_.resize(rails_->size());
    weights_ = RailWeights(rails_->size());
    rates_of_rails_.resize(rails_->size());
    {
        const MutexLock lock(spares_mutex_);
        spares_.reserve(most_spares);
        // Ready, so that looking after a peer allocates nothing later.
        for (int i = 0; i < 2; ++i)
            spares_.push_back(std::make_unique<OwnMessage>());
        watched_peers_.reserve(most_spares);
        to_probe_.reserve(most_spares);
    }
    {
        const MutexLock lock(registrations_mutex_);
        registered_bytes_.resize(rails_->size());
    }
    if (!config_.params.stats_file.empty())
        stats_file_ = std::make_unique<StatsFile>(config_.params.stats_file, agent(), nonce_);
    if (!config_.params.stats_socket.empty())
        stats_socket_ = std::make_unique<StatsSocket>(config_.params.stats_socket, agent(), nonce_);
    inbox_.pass_answers_to(&eager_sender_);
    tell(now_ns());
    if (config_.progress_thread) {
        const ProgressThreads::Duties duties{[this]() noexcept { watch(); },
                                             [this]() noexcept { return run_chores(); }, &next_watch_};
        threads_.start(parts_of_threads(),
                       {config_.progress_delay, [this]() noexcept { return callers_.passes(); }, agent()},
                       duties);
    }
    RAILYARD_LOG(info, agent().c_str(), "engine with %s over %s, %s", counted(rails_->size(), "rail").c_str(),
                 spoken_provider(rails_->provider()).c_str(),
                 counted(threads_.size(), "progress thread").c_str());
}

Engine::Impl::~Impl() {
    const std::uint64_t limit = now_ns() + flush_limit_ns;
    while (messages_in_flight_.load(std::memory_order_acquire) != 0 && now_ns() < limit) {
        if (!progress()) sched_yield();
    }
    threads_.stop();  // the objects stay: what follows wakes them
    deregister_all();
    slot_recovery_.end(*rails_);
    free_sent_messages();  // while the rails that they name are there
    rails_.reset();        // ends what is still queued as canceled
    for (OutMessage* next = undelivered_.take_all(); next;) {
        auto& message = static_cast<OutNotification&>(*next);
        next = message.next;
        if (!message.owner) sent_messages_.push(message);  // the others are their transfers'
    }
    free_sent_messages();
}

std::shared_ptr<Peer> Engine::Impl::require_peer(const std::string& agent) const {
    std::shared_ptr<Peer> peer = peers_.find(agent);
    if (!peer)
        throw Error(Status::not_found, "agent \"" + agent + "\" is not known: load its metadata first");
    return peer;
}

ConnectionInfo Engine::Impl::own_connection_info() const {
    ConnectionInfo info{config_.agent_name, nonce_, rails_->provider(), rails_->addresses()};
    if (rails_->host()) info.host = rails_->host()->address();
    if (auth_.on()) {
        const MessageAuth::Tag tag = auth_.tag(MessageAuth::Use::connection_info, signed_part(info));
        info.tag.assign(tag.begin(), tag.end());
    }
    return info;
}

void Engine::Impl::load_connection_info(const std::string& agent, std::string_view bytes) {
    ConnectionInfo info = decode_connection(bytes);
    if (info.agent != agent) {
        throw Error(Status::mismatch,
                    "connection info for agent \"" + agent + "\" was made by \"" + info.agent + "\"");
    }
    if (is_self(agent)) {
        if (info.nonce == nonce_) return;
        throw Error(Status::mismatch,
                    "agent \"" + agent + "\" has our own name and is another engine: rename one");
    }
    require_same_provider(info, rails_->provider());
    require_same_secret(auth_, info);
    warn_of_other_host(info);
    const std::shared_ptr<Peer> peer = peer_of(info);
    const std::shared_ptr<Peer> old = peers_.put(peer);
    if (peers_.find(peer->agent()) == peer) end_being_stranger(*peer);
    inbox_.owe(agent, info.nonce);
    if (!old) return;
    transfers_.stop_transfers_to(*old, Status::remote_disconnect);
    forget_stranger(*old);
}

void Engine::Impl::connect(const std::string& agent) {
    if (is_self(agent)) return;
    const std::shared_ptr<Peer> peer = require_peer(agent);
    peer->resolve_all();
    introduce(peer);
}

void Engine::Impl::disconnect(const std::string& agent) {
    if (is_self(agent)) return;
    const std::shared_ptr<Peer> known = peers_.find(agent);
    const std::shared_ptr<Peer> stranger = known ? stranger_instead_of(*known) : nullptr;
    const std::shared_ptr<Peer> peer = peers_.remove(agent);
    if (!peer) throw Error(Status::not_found, "agent \"" + agent + "\" is not known");
    transfers_.stop_transfers_to(*peer, Status::remote_disconnect);
    part_from(*peer, stranger.get());
    transfers_.sweep();
}

void Engine::Impl::take_notifications(std::vector<Notification>& out) {
    if (look_for_notifications()) inbox_.take(out);
}

bool Engine::Impl::look_for_notifications() noexcept {
    if (inbox_.empty() || inbox_.has_letters()) make_pass();
    return !inbox_.empty();
}

void Engine::Impl::send_notification(const std::string& agent, std::string_view text) {
    if (text.size() > max_notification) {
        throw Error(Status::invalid_param, "notification of " + std::to_string(text.size()) +
                                               " bytes; at most " + std::to_string(max_notification) +
                                               " are carried");
    }
    if (is_self(agent)) {
        inbox_.put(agent, std::string(text));
        return;
    }
    const std::shared_ptr<Peer> peer = require_peer(agent);
    if (tells()) peer->measured();
    send_own(peer, MessageKind::notify, std::string(text));
}

bool Engine::Impl::progress_rails() noexcept {
    bool worked = rails_->local().has_work() && rails_->local().progress() == Rail::Progress::worked;
    Rail* const host = rails_->host();
    if (host && host->has_work()) worked = host->progress() == Rail::Progress::worked || worked;
    const ThreadTag me = this_thread_tag();
    std::uint64_t now = 0;
    for (std::size_t i = 0; i < rails_->size(); ++i) {
        Rail& rail = rails_->rail(i);
        if (rail.keeper().is_other_than(me)) {
            if (now == 0) now = now_ns();
            if (rail.is_looked_after(now)) continue;
        }
        worked = rail.progress() == Rail::Progress::worked || worked;
    }
    return worked;
}

bool Engine::Impl::progress_rest() noexcept {
    const bool worked = run_chores();
    const std::uint64_t now = coarse_now_ns();
    if (now >= next_watch_.load(std::memory_order_relaxed) ||
        now >= next_weighing_.load(std::memory_order_relaxed))
        watch();
    if (transfers_.has_retired()) transfers_.sweep();
    free_sent_messages();
    return worked;
}

bool Engine::Impl::run_chores() noexcept {
    if (inbox_.has_letters()) handle_letters();
    if (rails_->changes() != seen_changes_.load(std::memory_order_relaxed)) handle_rail_changes();
    bool more = false, moved = false;
    for (Rail* rail : rails_->gpu_rails()) {
        if (!rail->has_work()) continue;
        moved = rail->progress() == Rail::Progress::worked || moved;
        more = true;
    }
    if (moved) wake();  // what it has staged may be on rails of another thread, which nothing else tells
    if (forward_.has_work()) forward_.progress();
    slot_recovery_.look(*rails_);
    if (eager_sender_.has_work()) eager_sender_.look();
    if (!undelivered_.empty()) send_undelivered();
    if (inquiries_.has_open()) send_inquiries();
    if (key_inquiries_.has_open()) send_key_inquiries();
    if (inbox_.owes_credit()) tell_credits();
    more = finish_served() || more;
    return run_chore() || more;
}

bool Engine::Impl::run_chore() noexcept {
    if (!chore_.load(std::memory_order_relaxed)) return false;
    if (chore_time_.load(std::memory_order_relaxed) == ChoreTime::notifications && inbox_.empty())
        return false;
    return run_chore_now();
}

bool Engine::Impl::run_chore_now() noexcept {
    chore_users_.fetch_add(1, std::memory_order_seq_cst);
    EngineChore* const chore = chore_.load(std::memory_order_seq_cst);
    const bool busy = chore && chore->run();
    chore_users_.fetch_sub(1, std::memory_order_release);
    return busy;
}

void Engine::Impl::set_chore(EngineChore* chore, ChoreTime time) noexcept {
    set_chore_time(time);
    chore_.store(chore, std::memory_order_seq_cst);
    while (!chore && chore_users_.load(std::memory_order_seq_cst) != 0)
        sched_yield();
}

/// What each progress thread serves. One alone is left on whatever CPU the host's threads are on.
std::vector<ProgressThreads::Part> Engine::Impl::parts_of_threads() const {
    const std::string& asked = config_.params.progress_threads;
    std::size_t most = 1;
    if (asked == "auto") {
        most = 0;
    } else if (!asked.empty()) {
        most = std::stoul(asked);
    }
    std::vector<ProgressThreads::Part> parts;
    for (const topology::RailGroup& group : rails_->groups(most)) {
        ProgressThreads::Part& part = parts.emplace_back();
        if (parts.size() == 1) {
            part.rails.push_back(&rails_->local());
            if (rails_->host()) part.rails.push_back(rails_->host());
        }
        for (const std::size_t rail : group.rails)
            part.rails.push_back(&rails_->rail(rail));
        part.bound = most != 1;
        part.cpus = group.cpus;
        for (const int node : group.nodes)
            part.place += (part.place.empty() ? "NUMA node " : ", ") + std::to_string(node);
        if (part.place.empty()) part.place = "no known NUMA node";
    }
    return parts;
}

void Engine::Impl::wake() noexcept {
    threads_.wake();
}

}  // namespace railyard
