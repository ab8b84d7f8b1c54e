// Who tells peers who we are.
#pragma once

namespace railyard {

class Introducer {
  public:
    /// A peer may have forgotten us (Path::forget, Peer::doubt_introduction): it is introduced to us again,
    /// and not from within this call.
    virtual void introduce_soon() noexcept = 0;

  protected:
    ~Introducer() = default;
};

}  // namespace railyard
