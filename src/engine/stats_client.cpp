#include "engine/stats_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace railyard {

StatsClient::~StatsClient() {
    // What is unread would reset the connection. A forked child may hold a copy, so that closing ends
    // nothing.
    char rest[1024];
    for (std::size_t left = 2 * longest_request; left >= sizeof(rest); left -= sizeof(rest)) {
        if (recv(fd_, rest, sizeof(rest), MSG_DONTWAIT) <= 0) break;
    }
    shutdown(fd_, SHUT_RDWR);
    close(fd_);
}

bool StatsClient::serve(std::uint64_t now_ns, const std::function<Report()>& report) {
    if (now_ns - since_ >= limit_ns || (!answered_ && !listen())) return true;
    if (!answered_) {
        const Wish wanted = wish(now_ns);
        if (wanted == Wish::unknown) return false;
        answer(wanted, report);
    }
    std::size_t room = bytes_per_call;
    if (!send(head_, sent_, room)) return true;
    if (body_ && sent_ >= head_.size() && !send(*body_, sent_ - head_.size(), room)) return true;
    return sent_ == head_.size() + (body_ ? body_->size() : 0);
}

/// False: it has gone.
bool StatsClient::listen() noexcept {
    char bytes[1024];
    while (request_.size() < longest_request && !request_ended_) {
        const ssize_t count = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        request_ended_ = count == 0;
        try {
            request_.append(bytes, static_cast<std::size_t>(count));
        } catch (...) {
            return false;
        }
    }
    return true;
}

StatsClient::Wish StatsClient::wish(std::uint64_t now_ns) const {
    const bool waits = !request_ended_ && request_.size() < longest_request;
    const std::size_t line_end = request_.find('\n');
    if (line_end == std::string::npos)
        return waits && now_ns - since_ < silence_ns ? Wish::unknown : Wish::plain;
    const std::string_view line = std::string_view(request_).substr(0, line_end);
    if (line.find(" HTTP/") == std::string_view::npos) return Wish::plain;
    if (request_.find("\r\n\r\n") == std::string::npos && request_.find("\n\n") == std::string::npos)
        return waits ? Wish::unknown : Wish::malformed;
    return line.starts_with("GET ") ? Wish::http : Wish::wrong_method;
}

void StatsClient::answer(Wish wish, const std::function<Report()>& report) {
    if (wish == Wish::plain || wish == Wish::http) body_ = report();
    if (wish == Wish::http) {
        head_ =
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
            std::to_string(body_->size()) + "\r\nConnection: close\r\n\r\n";
    } else if (wish == Wish::wrong_method) {
        head_ = "HTTP/1.0 405 Method Not Allowed\r\nAllow: GET\r\nContent-Length: 0\r\n\r\n";
    } else if (wish == Wish::malformed) {
        head_ = "HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    }
    answered_ = true;
}

/// What is left of `text`, while there is room. False: nobody takes it any more.
bool StatsClient::send(const std::string& text, std::size_t offset, std::size_t& room) noexcept {
    while (offset < text.size() && room > 0) {
        const ssize_t count = ::send(fd_, text.data() + offset, std::min(room, text.size() - offset),
                                     MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        offset += static_cast<std::size_t>(count);
        sent_ += static_cast<std::size_t>(count);
        room -= static_cast<std::size_t>(count);
    }
    return true;
}

}  // namespace railyard
