// Between libfabric's C objects and the classes behind them.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <type_traits>

namespace simefa {

/// The object whose C part `fid` begins. `Base` is the C struct that T derives from: fid_domain, fid_ep, ...
template <class T, class Base>
T* object_of(fid* handle) noexcept {
    static_assert(std::is_standard_layout_v<Base>);
    return static_cast<T*>(reinterpret_cast<Base*>(handle));
}

/// Fills an entry of an ops table whose call this provider does not have: answers -FI_ENOSYS.
struct Unsupported {
    template <class R, class... A>
    using Function = R (*)(A...);
    template <class R, class... A>
    constexpr operator Function<R, A...>() const noexcept {
        return [](A...) noexcept -> R { return static_cast<R>(-FI_ENOSYS); };
    }
};
inline constexpr Unsupported unsupported;

}  // namespace simefa
