#include "fabric/connections.h"

#include <rdma/fi_cm.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/occasional.h"

namespace railyard::fabric {
namespace {

/// Takes what `info` may hold of somebody's request to connect.
Fid<fid_ep> open_endpoint(const Domain& domain, fi_info* info) {
    fid_ep* opened = nullptr;
    check(fi_endpoint(domain.get(), info, &opened, nullptr), "fi_endpoint", domain.rail());
    return Fid<fid_ep>(opened);
}

/// `receives`: nullptr where nothing will be received as a message.
void enable(fid_ep* endpoint, const Domain& domain, const CompletionQueue& queue, fid_ep* receives) {
    const std::string& rail = domain.rail();
    check(fi_ep_bind(endpoint, &domain.event_queue()->fid, 0), "fi_ep_bind(eq)", rail);
    check(fi_ep_bind(endpoint, &queue.get()->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind(cq)", rail);
    if (receives) check(fi_ep_bind(endpoint, &receives->fid, 0), "fi_ep_bind(srx)", rail);
    check(fi_enable(endpoint), "fi_enable", rail);
}

InfoPtr info_towards(const Domain& domain, std::string_view address) {
    InfoPtr info(fi_dupinfo(&domain.info()));
    void* const copy = info ? std::malloc(address.size()) : nullptr;  // fi_freeinfo frees it
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, address.data(), address.size());
    std::free(std::exchange(info->dest_addr, copy));
    info->dest_addrlen = address.size();
    return info;
}

}  // namespace

Connections::~Connections() {
    for (auto& [destination, connection] : all_)
        close(connection);
}

fid_ep* Connections::look_up(fi_addr_t destination, int& error) noexcept {
    error = 0;
    try {
        Connection& connection = all_[destination];
        if (connection.open) {
            last_destination_ = destination;
            return last_ = connection.endpoint.get();
        }
        if (connection.error) {
            error = std::exchange(connection.error, 0);
        } else if (!connection.endpoint || now_ns() - connection.begun_ns > attempt_ns) {
            begin(destination, connection);
        }
    } catch (const std::exception& problem) {
        if (worth_a_line(++failures_)) {
            RAILYARD_LOG(warn, domain_.rail().c_str(), "no connection to a peer, tried again: %s",
                         problem.what());
        }
    }
    return nullptr;
}

void Connections::begin(fi_addr_t destination, Connection& connection) {
    close(connection);
    const std::string_view address = addresses_.destination_of(destination);
    const InfoPtr info = info_towards(domain_, address);
    connection.endpoint = open_endpoint(domain_, info.get());
    connection.begun_ns = now_ns();
    RAILYARD_LOG(debug, domain_.rail().c_str(), "connects to a peer");
    fid_ep* const endpoint = connection.endpoint.get();
    enable(endpoint, domain_, queue_, nullptr);
    domain_.watch(&endpoint->fid, *this);
    const int rc = fi_connect(endpoint, address.data(), nullptr, 0);
    if (rc == 0) return;
    close(connection);
    connection.error = -rc;
}

void Connections::close(Connection& connection) noexcept {
    if (!connection.endpoint) return;
    if (last_ == connection.endpoint.get()) {
        last_destination_ = FI_ADDR_NOTAVAIL;
        last_ = nullptr;
    }
    domain_.unwatch(&connection.endpoint->fid);
    connection.endpoint.reset();
    connection.open = false;
}

void Connections::forget(fi_addr_t destination) noexcept {
    const auto found = all_.find(destination);
    if (found == all_.end()) return;
    close(found->second);
    all_.erase(found);
}

void Connections::broke(fi_addr_t destination) noexcept {
    const auto found = all_.find(destination);
    if (found != all_.end() && found->second.open) forget(destination);
}

Connections::All::iterator Connections::find(const fid* connection) noexcept {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& entry) {
        const Fid<fid_ep>& endpoint = entry.second.endpoint;
        return endpoint && &endpoint->fid == connection;
    });
}

void Connections::on_connected(fid* connection) noexcept {
    const auto found = find(connection);
    if (found != all_.end()) found->second.open = true;
}

void Connections::on_disconnected(fid* connection, int error) noexcept {
    const auto found = find(connection);
    if (found == all_.end()) return;
    RAILYARD_LOG(debug, domain_.rail().c_str(), "a connection to a peer %s: %s",
                 found->second.open ? "is over" : "was not made", fi_strerror(error));
    const bool refused = !found->second.open;
    close(found->second);
    if (refused) {
        found->second.error = error;
    } else {
        all_.erase(found);
    }
}

Listener::Listener(Domain& domain, CompletionQueue& queue, fid_ep* receives)
    : domain_(domain), queue_(queue), receives_(receives) {
    const std::string& rail = domain.rail();
    const InfoPtr info(fi_dupinfo(&domain.info()));  // the domain's is shared, and may be written to
    if (!info) throw std::bad_alloc();
    fid_pep* passive = nullptr;
    check(fi_passive_ep(domain.fabric(), info.get(), &passive, nullptr), "fi_passive_ep", rail);
    passive_ = Fid<fid_pep>(passive);
    check(fi_pep_bind(passive, &domain.event_queue()->fid, 0), "fi_pep_bind(eq)", rail);
    check(fi_listen(passive), "fi_listen", rail);
    domain.watch(&passive->fid, *this);
}

Listener::~Listener() {
    domain_.unwatch(&passive_->fid);
    for (auto& [connection, endpoint] : connections_)
        domain_.unwatch(connection);
}

void Listener::on_request(fid*, InfoPtr request) noexcept {
    Fid<fid_ep> endpoint;
    try {
        endpoint = open_endpoint(domain_, request.get());
        fid_ep* const accepted = endpoint.get();
        enable(accepted, domain_, queue_, receives_);
        domain_.watch(&accepted->fid, *this);
        check(fi_accept(accepted, nullptr, 0), "fi_accept", domain_.rail());
        connections_.emplace(&accepted->fid, std::move(endpoint));
    } catch (const std::exception& error) {
        if (worth_a_line(++refused_)) {
            RAILYARD_LOG(warn, domain_.rail().c_str(), "a peer's connection is refused, number %llu: %s",
                         static_cast<unsigned long long>(refused_), error.what());
        }
        // Once there is an endpoint, the request is its own, and closed with it.
        if (!endpoint) {
            fi_reject(passive_.get(), request->handle, nullptr, 0);
        } else {
            domain_.unwatch(&endpoint->fid);
        }
    }
}

void Listener::on_disconnected(fid* connection, int error) noexcept {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    RAILYARD_LOG(debug, domain_.rail().c_str(), "a peer's connection is over: %s", fi_strerror(error));
    domain_.unwatch(connection);
    connections_.erase(found);
}

}  // namespace railyard::fabric
