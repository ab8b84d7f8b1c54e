// Stands in where libcurl was not there when this was built.
#include "failure.h"
#include "group/etcd_rendezvous.h"

namespace railyard::bench {

std::unique_ptr<Rendezvous> meet_at_etcd(const GroupOptions& options, std::chrono::milliseconds) {
    throw Failure("--rendezvous " + options.rendezvous->text() +
                  ": this railyard-bench was built without libcurl. Install it (libcurl4-openssl-dev) and "
                  "build again, or meet at tcp://HOST:PORT");
}

}  // namespace railyard::bench
