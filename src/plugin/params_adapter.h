// Between the host's creation parameters and the engine's configuration.
#pragma once

#include <backend/backend_aux.h>

#include "engine/engine.h"

namespace railyard::plugin {

/// Reads the parameters (and the environment) and applies the log settings. Throws Error{invalid_param} that
/// names what is wrong: a bad value, an empty agent name, or, where the backend's type is RAILYARD, an
/// unknown parameter; under another name that is a warning.
[[nodiscard]] EngineConfig engine_config(const nixlBackendInitParams& init);

/// Every accepted parameter with its default.
[[nodiscard]] nixl_b_params_t default_options();

}  // namespace railyard::plugin
