// The table that a plugin hands to its host (NIXL 1.5.1).
#pragma once

#include "backend_engine.h"

class nixlBackendPlugin {
  public:
    int api_version;  ///< 1
    nixlBackendEngine* (*create_engine)(const nixlBackendInitParams* init_params);
    void (*destroy_engine)(nixlBackendEngine* engine);
    const char* (*get_plugin_name)();
    const char* (*get_plugin_version)();
    nixl_b_params_t (*get_backend_options)();
    nixl_mem_list_t (*get_backend_mems)();
};
