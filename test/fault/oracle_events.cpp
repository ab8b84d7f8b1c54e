// The oracle's view of notifications and faults.
#include "oracle.h"

namespace railyard::fault {

std::string Oracle::send(int from, int to, int id, std::size_t length) {
    const std::lock_guard lock(mutex_);
    Message message{from, to, -1, 0, 0, ++now_, true};
    const std::string name = message_name(message, id);
    const std::string text = message_text(name, length);
    message.length = text.size();
    messages_[name] = message;
    return text;
}

void Oracle::send_refused(const std::string& text, Status status, const std::string& why) {
    const std::lock_guard lock(mutex_);
    ++now_;
    Message& message = messages_.at(name_in(text));
    message.due = false;
    require_explained(concern_of(message), status, "a notification (" + why + ")");
}

void Oracle::arrived(int engine, const std::string& agent, const std::string& text) {
    const std::lock_guard lock(mutex_);
    ++now_;
    const std::string name = name_in(text);
    const auto found = messages_.find(name);
    if (found == messages_.end())
        throw Failure(Wrong::notification, agent_of(engine) +
                                               " got a notification that nobody sent, from \"" + agent +
                                               "\", " + std::to_string(text.size()) + " bytes");
    Message& message = found->second;
    if (message.to != engine || agent != agent_of(message.from))
        throw Failure(Wrong::notification, "notification \"" + name + "\" came to " + agent_of(engine) +
                                               " and from \"" + agent + "\"");
    if (text != message_text(name, message.length))
        throw Failure(Wrong::notification, "notification \"" + name + "\" came changed, " +
                                               std::to_string(text.size()) + " of " +
                                               std::to_string(message.length) + " bytes");
    if (windows_.any(concern_of(message), &Rule::nothing_passes))
        throw Failure(Wrong::notification,
                      "notification \"" + name + "\" came from an engine that is no peer");
    ++counts_.notifications;
    if (++message.seen > 1) throw Failure(Wrong::duplicate, "notification \"" + name + "\" came twice");
    if (message.transfer < 0) return;
    const Round& round = round_of(message.transfer);
    // Another round may be overwriting the data by now, which is nobody's fault.
    if (round.number == message.round) require_data(round, "its notification");
}

std::string Oracle::missing() {
    const std::lock_guard lock(mutex_);
    std::string names;
    for (const auto& [name, message] : messages_) {
        if (!message.due || message.seen > 0 || message.excused) continue;
        // Of a message of its own nobody hears the end: what may end a transfer may lose it.
        if (message.transfer < 0 && windows_.explain_error(concern_of(message))) continue;
        names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

void Oracle::introduced(int engine, int to, Status status, const std::string& text) {
    const std::lock_guard lock(mutex_);
    ++now_;
    const bool strangers =
        windows_.any({.from = engine, .to = to, .begun = now_, .ended = now_}, &Rule::nothing_passes);
    if (strangers) ++counts_.faults[static_cast<std::size_t>(Fault::secret)];
    if (status == (strangers ? Status::mismatch : Status::ok)) return;
    throw Failure(Wrong::error, agent_of(engine) + ", told of " + agent_of(to) + ", said \"" +
                                    railyard::to_string(status) + "\" (" + text + "); their secrets are " +
                                    (strangers ? "not " : "") + "the same");
}

void Oracle::nic_fault(Fault fault, int engine, int rail) {
    const std::lock_guard lock(mutex_);
    windows_.open({fault, engine, rail, -1, ++now_});
    ++counts_.faults[static_cast<std::size_t>(fault)];
}

void Oracle::nic_calm(int engine, int rail) {
    const std::lock_guard lock(mutex_);
    windows_.close_nic(engine, rail, ++now_);
}

void Oracle::fault_begins(Fault fault, int engine, int other) {
    const std::lock_guard lock(mutex_);
    windows_.open({fault, engine, -1, other, ++now_});
    ++counts_.faults[static_cast<std::size_t>(fault)];
}

void Oracle::fault_ends(Fault fault, int engine, int other) {
    const std::lock_guard lock(mutex_);
    windows_.close(fault, engine, other, ++now_);
}

void Oracle::all_calm() {
    const std::lock_guard lock(mutex_);
    windows_.close_all(++now_);
}

}  // namespace railyard::fault
