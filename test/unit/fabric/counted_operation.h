// An operation that counts how often it has ended.
#pragma once

#include "fabric/op_context.h"

namespace railyard::fabric {

struct CountedOperation : OpContext {
    CountedOperation() {
        handler = [](OpContext& op, const Completion& outcome) noexcept {
            auto& self = static_cast<CountedOperation&>(op);
            ++self.ends;
            self.completion = outcome;
        };
    }
    int ends = 0;
    Completion completion;
};

}  // namespace railyard::fabric
